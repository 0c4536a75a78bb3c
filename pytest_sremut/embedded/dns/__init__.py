"""The cluster DNS."""
