"""A study's registration: which files, which stamps, in which order, and whether it holds."""
