"""Finders of defects in graders."""
