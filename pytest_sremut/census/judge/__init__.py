"""From what was followed to a verdict."""
