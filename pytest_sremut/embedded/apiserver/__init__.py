"""The API server: requests over HTTP, their verbs, watches, streams, authorization."""
