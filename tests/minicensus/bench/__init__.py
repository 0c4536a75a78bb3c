"""A miniature benchmark, written for the tests of the census. It is read, never run."""
