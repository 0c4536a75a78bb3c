"""A small, real Kubernetes API with real processes; stands alone."""
