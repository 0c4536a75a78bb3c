"""Auditing a benchmark's own, unmodified oracles, from a checkout that the user names."""
