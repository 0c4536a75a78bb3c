"""The Service proxy: from EndpointSlices to the answer that a connection gets."""
