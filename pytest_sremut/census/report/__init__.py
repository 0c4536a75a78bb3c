"""A census written out, and the command that does it."""
