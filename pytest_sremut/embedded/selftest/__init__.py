"""Whether this machine and this cluster answer as a real cluster does."""
