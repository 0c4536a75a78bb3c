"""Several graders at once."""

from bench.oracles.base import Grader


class AllOf(Grader):
    def __init__(self, *parts):
        self.parts = {part.__class__.__name__: part for part in parts}

    def remember(self):
        for part in self.parts.values():
            part.remember()

    def grade(self):
        success = True
        for part in self.parts.values():
            if not part.grade()["success"]:
                success = False
        return {"success": success}
