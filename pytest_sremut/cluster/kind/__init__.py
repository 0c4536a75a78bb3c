"""A throw-away cluster by kind, one for each worker.

kind and the container engine are programs of the user's: they are run as programs (`tools`,
`commands`), what they are is recorded, and nothing of them is trusted to have worked until it was
looked at. What we made is written down before it is made (`records`), so that it is found again.
"""
