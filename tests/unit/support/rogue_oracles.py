"""Graders that misbehave in every way that we could think of."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class _Oracle:
    def __init__(self, context: Any, **arguments: Any) -> None:
        self.context = context
        self.arguments = arguments


class Accepts(_Oracle):
    def evaluate(self) -> Any:
        return {"success": True, "pid": os.getpid(), "kubeconfig": os.environ["KUBECONFIG"]}


class Rejects(_Oracle):
    def evaluate(self) -> Any:
        return {"success": False, "baseline": dict(self.context.baseline)}


class Returns(_Oracle):
    """Returns what the expression in its arguments gives."""

    def evaluate(self) -> Any:
        return eval(self.arguments["expression"])


class Raises(_Oracle):
    def evaluate(self) -> Any:
        raise LookupError("no such \udcff thing")


class BrokenText(_Oracle):
    def evaluate(self) -> Any:
        class NoTextError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        raise NoTextError


class Unrepresentable(_Oracle):
    def evaluate(self) -> Any:
        class Thing:
            def __repr__(self) -> str:
                raise RuntimeError("no repr")

        return {"success": True, "thing": Thing(), "when": {1: 2}, "nan": float("nan")}


class Exits(_Oracle):
    def evaluate(self) -> Any:
        sys.exit(3)


class HardExits(_Oracle):
    def evaluate(self) -> Any:
        os.write(2, b"going\n")
        os._exit(7)


class KillsItself(_Oracle):
    def evaluate(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(30)


class KillsItsParent(_Oracle):
    def evaluate(self) -> Any:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(30)


class Hangs(_Oracle):
    """Swallows whatever it can, ignores polite signals and leaves a note of who it is."""

    def evaluate(self) -> Any:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        descendant = subprocess.Popen(["sleep", "60"])
        Path(self.arguments["note"]).write_text(f"{os.getpid()} {descendant.pid}")
        try:
            time.sleep(60)
        except Exception:
            time.sleep(60)
        return {"success": True}


class Sleeps(_Oracle):
    """Swallows every Exception around its wait."""

    def evaluate(self) -> Any:
        for _ in range(2):
            try:
                time.sleep(60)
            except Exception:
                continue
        return {"success": True}


class LeavesDaemon(_Oracle):
    """A descendant in a session of its own that keeps the output open."""

    def evaluate(self) -> Any:
        descendant = subprocess.Popen(["sleep", "60"], start_new_session=True)
        return {"success": True, "daemon": descendant.pid}


class Prints(_Oracle):
    def evaluate(self) -> Any:
        line = "x" * 1023 + "\n"
        for _ in range(self.arguments["kib"]):
            sys.stdout.write(line)
        print("to stderr", file=sys.stderr)
        return {"success": True}


class WritesToDescriptorOne(_Oracle):
    def evaluate(self) -> Any:
        os.write(1, b"\xff raw bytes to 1\n")
        os.system("echo from a shell")
        return {"success": True}


class ReadsInput(_Oracle):
    def evaluate(self) -> Any:
        return {"success": sys.stdin.read() == ""}


class ClosesEverything(_Oracle):
    def evaluate(self) -> Any:
        os.closerange(0, 256)
        return {"success": True}


class ChangesProcess(_Oracle):
    def evaluate(self) -> Any:
        os.chdir("/")
        os.environ["SREMUT_ROGUE"] = "1"
        os.environ.pop("PATH", None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout = None  # type: ignore[assignment]
        return {"success": True}


class Environment(_Oracle):
    def evaluate(self) -> Any:
        return {"success": True, "names": sorted(os.environ), "random": random.random()}


class Counts(_Oracle):
    """Remembers, for as long as its process lives."""

    count = 0

    def evaluate(self) -> Any:
        Counts.count += 1
        return {"success": True, "count": Counts.count}


class Interrupted(_Oracle):
    def evaluate(self) -> Any:
        raise KeyboardInterrupt


class SwallowsEverything(_Oracle):
    """A bare `except:` around a wait."""

    def evaluate(self) -> Any:
        for _ in range(2):
            try:
                time.sleep(60)
            except:  # noqa: E722
                continue
        return {"success": True}
