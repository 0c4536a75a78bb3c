"""The rules that objects must keep, kind by kind."""
