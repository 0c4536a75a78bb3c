"""What every other room may use: formats of data, and files that survive a crash."""
