"""Printers of objects: the tables that `kubectl get` shows."""
