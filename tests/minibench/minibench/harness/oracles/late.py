"""Loaded late."""

ANSWER = True
