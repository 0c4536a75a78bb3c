"""Oracles that misbehave, each in its own way."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

from minibench.harness.oracles.base import Grader


class Plain(Grader):
    """The one that does not: says what it was given and where it is."""

    def __init__(self, problem, **options):
        super().__init__(problem)
        self.options = options

    def grade(self):
        return {
            "solved": self.options.get("solved", True),
            "options": self.options,
            "problem": {k: repr(v)[:80] for k, v in sorted(vars(self.problem).items())},
            "class": type(self.problem).__name__,
            "environment": sorted(os.environ),
            "kubeconfig": os.environ["KUBECONFIG"],
            "directory": str(Path.cwd()),
            "python": list(sys.version_info[:3]),
            "pid": os.getpid(),
        }


class Hangs(Grader):
    def grade(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "60"])
        print(f"child {child.pid}", file=sys.stderr, flush=True)
        time.sleep(60)


class Raises(Grader):
    def grade(self):
        raise LookupError("nothing to grade")


class RaisesWhileMade(Grader):
    def __init__(self, problem):
        raise LookupError("cannot be made")


class Nonsense(Grader):
    """Returns what its argument says, by name."""

    values: ClassVar = {
        "none": None,
        "text": "yes",
        "one": {"solved": 1},
        "missing": {"ok": True},
        "truthy": {"solved": [1]},
        "list": [True],
    }

    def __init__(self, problem, which):
        super().__init__(problem)
        self.which = which

    def grade(self):
        return self.values[self.which]


class Prints(Grader):
    """Megabytes on both streams."""

    def grade(self):
        for _ in range(3000):
            sys.stdout.write("o" * 1023 + "\n")
            sys.stderr.write("e" * 1023 + "\n")
        return {"solved": True}


class Exits(Grader):
    def grade(self):
        sys.exit(3)


class HardExits(Grader):
    def grade(self):
        os._exit(7)


class KillsItself(Grader):
    def grade(self):
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


class KillsItsWorker(Grader):
    def grade(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


class TakesAttribute(Grader):
    """Reads an attribute that its problem may not have, and takes it away."""

    def grade(self):
        found = self.problem.secret_port
        del self.problem.secret_port
        return {"solved": found == 9}

    def look(self):
        return self.problem.secret_port

    def hang(self):
        time.sleep(60)


class Remembers(Grader):
    """Notes the healthy state in every way that there is."""

    class Note:
        def __init__(self):
            self.seen = []

    def __init__(self, problem):
        super().__init__(problem)
        self.note = self.Note()
        self.pairs = {}
        self.kept = frozenset()

    def see_healthy(self):
        self.note.seen.append("healthy")
        self.pairs[("a", 1)] = b"bytes"
        self.kept = frozenset({1, 2})

    def grade(self):
        return {
            "solved": self.note.seen == ["healthy"]
            and self.pairs == {("a", 1): b"bytes"}
            and self.kept == frozenset({1, 2})
        }


class RemembersTooMuch(Grader):
    """Notes something that no other process can have."""

    def see_healthy(self):
        self.lock = threading.Lock()

    def grade(self):
        return {"solved": True}


class WritesHome(Grader):
    """Tries to leave files in the benchmark's own directory, and bytecode beside itself."""

    def grade(self):
        refused = []
        for name in ("litter.txt", "rogue.py", "__pycache__/rogue.cpython-311.pyc"):
            path = Path(__file__).parent / name
            try:
                path.parent.mkdir(exist_ok=True)
                path.open("ab").close()
            except OSError as error:
                refused.append(error.strerror)
        return {"solved": True, "refused": refused}


class ImportsLate(Grader):
    """Loads a module of the benchmark only when it grades."""

    def grade(self):
        from minibench.harness.oracles import late

        return {"solved": late.ANSWER}
