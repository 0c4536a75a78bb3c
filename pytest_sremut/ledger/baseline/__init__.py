"""The disagreements and scores that are known already, so that only new ones fail."""
