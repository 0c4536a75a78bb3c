"""RFC 3161: request, verify, self-issued authority, manifest, trust."""
