"""The port to graders, our reference graders, and the isolated worker."""
