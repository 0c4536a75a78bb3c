"""Faults: what breaks the application, by our own writes or by a benchmark's code."""
