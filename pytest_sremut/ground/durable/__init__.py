"""Files that are whole or absent, time, and steps that an interrupt must not cut in two."""
