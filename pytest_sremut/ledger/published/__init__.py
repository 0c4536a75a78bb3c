"""Published figures as records of their own kind, judged by the same code, mixed with nothing."""
