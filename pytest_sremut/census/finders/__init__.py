"""Finders of known defects in graders."""
