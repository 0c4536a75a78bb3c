"""Controllers of Services: Endpoints and EndpointSlices."""
