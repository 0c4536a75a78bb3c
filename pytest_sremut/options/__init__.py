"""What a user may ask for: one table of options, and the frozen value that they become."""
