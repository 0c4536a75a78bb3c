"""Routing of Services: from EndpointSlices to the answers that a connection gets."""
