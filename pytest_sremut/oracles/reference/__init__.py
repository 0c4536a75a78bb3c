"""Graders of our own, each with the sight, and the blindness, of a kind that benchmarks use."""
