"""The whole nine-run study as a user runs it, against the protocol's own waiting.

    python benchmarks/study.py [--workers 0] [--study missing_service_social_network]

Prints JSON: wall seconds of the whole `pytest -m mutant` process; the floor, which is what the
protocol itself makes every run wait (settling, rounds of load, deadlines that have to expire) on
the busiest worker; their ratio; and where the rest went, per phase.

CPU seconds are those of all its processes, by kind: `pytest` with its workers, `graders` (the warm
process that reads them), `daemon` (a cluster's API, controllers, kubelet, DNS), and `pods` with
every command in them and what prepares them. Beside them stands how long ten million additions in a
Python loop take here, so that machines can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BOOT = "pytest_sremut.embedded.boot.daemon"
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--study", default="missing_service_social_network")
    parser.add_argument("--only", default="", help="a `-k` expression instead of the whole study")
    parser.add_argument("more", nargs="*", help="passed on to pytest, e.g. --sremut-exploratory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        evidence, only = Path(temporary) / "evidence", arguments.only or arguments.study
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", "mutant", "-k", only,
            f"--sremut-evidence={evidence}", *arguments.more,
        ]  # fmt: skip
        if arguments.workers:
            command += ["-n", str(arguments.workers)]
        begun = time.perf_counter()
        with Cpu() as cpu:
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - begun
        records = [json.loads(file.read_bytes()) for file in evidence.rglob("record.json")]
        if result.returncode != 0 or not records:
            print(result.stdout[-4000:], result.stderr[-2000:], file=sys.stderr)
            return 1
    waiting: dict[str, float] = defaultdict(float)  # per cluster, of which each worker has one
    phases: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    for record in records:
        waiting[record["cluster"]["name"]] += sum(record["waiting"].values())
        phases.update(record["timings"])
        waits.update(record["waiting"])
    floor, used = max(waiting.values()), cpu.kinds()
    print(
        json.dumps(
            {
                "benchmark": "study",
                "study": arguments.study,
                "workers": arguments.workers or 1,
                "runs": len(records),
                "outcomes": Counter(record["outcome"] for record in records),
                "wall_seconds": round(wall, 1),
                "floor_seconds": round(floor, 1),
                "ratio_wall_over_floor": round(wall / floor, 3),
                "waiting_seconds": {name: round(value, 1) for name, value in waits.items()},
                "phase_seconds": {name: round(value, 1) for name, value in phases.items()},
                "cpu_seconds": {name: round(value, 1) for name, value in used.items()},
                "cpu_seconds_a_run": round(used["all"] / len(records), 2),
                "ten_million_additions": round(_additions(), 2),
            },
            indent=2,
        )
    )
    return 0


def _additions() -> float:
    begun = time.process_time()
    total = 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - begun


class Cpu:
    """CPU seconds of everything that is started inside the block, by kind.

    Looked at every quarter of a second: what each process has used, and those of its children that
    have ended. A cluster that ends kills its processes, and nobody is told what those had used.
    """

    def __enter__(self) -> Cpu:
        self._used: dict[int, tuple[str, float]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def kinds(self) -> dict[str, float]:
        """Seconds by kind, and in all."""
        found = dict.fromkeys(("pytest", "graders", "daemon", "pods"), 0.0)
        for kind, seconds in self._used.values():
            found[kind] += seconds
        return {**found, "all": sum(found.values())}

    def _loop(self) -> None:
        while not self._end.wait(0.25):
            self._look()

    def _look(self) -> None:
        processes = {one.pid: one for one in map(_process, Path("/proc").glob("[0-9]*")) if one}
        clusters: dict[int, float] = defaultdict(float)  # by the pid of what started it
        for one in processes.values():
            above = list(_ancestors(one, processes))
            if not above or above[-1] != os.getpid():
                continue
            inside = [pid for pid in (one.pid, *above) if _BOOT in processes[pid].command]
            if not inside:
                kind = "graders" if "pytest_sremut.oracles.worker" in one.command else "pytest"
                self._used[one.pid] = (kind, one.own)
                continue
            clusters[inside[-1]] += one.own + one.ended
            # Launcher, init, and of the latter's children the first; the second starts the pods.
            siblings = [p.pid for p in processes.values() if p.parent == inside[-2:][0]]
            if len(inside) == 3 and one.pid == min(siblings):
                self._used[one.pid] = ("daemon", one.own)
                clusters[inside[-1]] -= one.own
        for pid, seconds in clusters.items():
            # While a cluster ends its sum falls: what was killed is counted nowhere.
            self._used[-pid] = ("pods", max(seconds, self._used.get(-pid, ("", 0.0))[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    pid: int
    parent: int
    command: tuple[str, ...]
    own: float  # CPU seconds
    ended: float  # of children that have ended and were waited for


def _process(directory: Path) -> _Process | None:
    try:
        stat = (directory / "stat").read_text().rpartition(")")[2].split()
        words = (directory / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None  # it has ended meanwhile
    user, system, user_ended, system_ended = (int(word) / _TICKS for word in stat[11:15])
    return _Process(
        pid=int(directory.name),
        parent=int(stat[1]),
        command=tuple(words.split("\0")),
        own=user + system,
        ended=user_ended + system_ended,
    )


def _ancestors(one: _Process, processes: dict[int, _Process]) -> Iterator[int]:
    """PIDs above a process, up to this one."""
    while one.pid != os.getpid() and one.parent in processes:
        one = processes[one.parent]
        yield one.pid


if __name__ == "__main__":
    sys.exit(main())
