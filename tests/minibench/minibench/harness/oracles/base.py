"""What every oracle is."""


class Grader:
    """Made of a problem; `grade()` says whether it is solved."""

    def __init__(self, problem):
        self.problem = problem

    def see_healthy(self):
        """Called once while the application is healthy."""

    def grade(self):
        raise NotImplementedError
