"""The shell of one pytest session: what its hooks call, role by role."""
