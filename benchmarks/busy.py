"""Run a command beside processes that compute all the time.

    python benchmarks/busy.py [--loops 4] [--cores 2] [--limit 3600] -- COMMAND...
    python benchmarks/busy.py --readme     both of the README's commands, one after the other

Each loop is a process of its own. It ends with this script, whatever ends that, and after `--limit`
seconds in any case. Prints one JSON document a command; ends with 1 if a command failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2, help="that all of it may use")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds")
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    if bool(arguments.command) == arguments.readme:
        parser.error("give --readme or a command")
    commands = readme() if arguments.readme else [arguments.command]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    codes = []
    for command in commands:
        before = os.getloadavg()[0]
        with loops(arguments.loops, arguments.limit):
            document = timed(command, arguments.limit)
        cores = len(os.sched_getaffinity(0))
        rest = {"loops": arguments.loops, "cores": cores, "load before": round(before, 1)}
        print(json.dumps(document | rest, indent=1), flush=True)
        codes.append(document["code"])
    return int(any(codes))


def readme() -> list[list[str]]:
    """The lines of the README that one runs from a clone."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    return [["bash", "-c", line] for line in lines if line.startswith("python3 -m venv")]


@contextmanager
def loops(count: int, limit: float) -> Iterator[None]:
    """So many busy processes, ended by their own ids."""
    own = [pid for pid in (_loop(limit) for _ in range(count)) if pid]
    try:
        yield
    finally:
        for pid in own:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _loop(limit: float) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        end = time.monotonic() + limit
        while time.monotonic() < end and os.getppid() == parent:
            for _ in range(100_000):
                pass
        signal.pause()  # waits to be ended
    return pid


def timed(command: Sequence[str], limit: float) -> dict[str, object]:
    """How a command ended, its last line, and how long it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        alarm = threading.Timer(limit, process.terminate)
        alarm.start()
        for line in process.stdout:
            sys.stderr.write(line)
            last = line.strip() or last
        alarm.cancel()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "command": command[-1],
        "code": process.returncode,
        "last line": last,
        "seconds": round(time.monotonic() - began, 1),
        "CPU seconds": round(computed, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
