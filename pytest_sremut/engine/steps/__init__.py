"""The steps of one run."""
