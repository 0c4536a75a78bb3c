"""Oracles made of oracles."""

from minibench.harness.oracles.base import Grader


class All(Grader):
    """Accepts where every part does."""

    def __init__(self, problem, *parts, label="all"):
        super().__init__(problem)
        self.parts = dict(enumerate(parts))
        self.label = label

    def see_healthy(self):
        for part in self.parts.values():
            part.see_healthy()

    def grade(self):
        parts = [part.grade() for part in self.parts.values()]
        return {"solved": all(part["solved"] for part in parts), "parts": parts, "of": self.label}
