"""Faults: what breaks the application, by our own writes, a benchmark's code or a plugin's."""
