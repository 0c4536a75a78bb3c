"""Following a benchmark's code without running it: values, statements, calls."""
