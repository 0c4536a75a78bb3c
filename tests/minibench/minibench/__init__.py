"""A benchmark in miniature."""
