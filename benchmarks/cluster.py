"""The embedded cluster: up, the application's 27 Deployments ready, and what they weigh.

    python benchmarks/cluster.py [--repeat 3]

Prints JSON: medians of seconds until the API answers, seconds until the self-test is over,
CPU seconds that all its processes have used by then, seconds from the first created object until
every pod is Ready, and the proportional set size of all the cluster's processes while the
application runs, the daemon included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from pytest_sremut.cluster.embedded import EmbeddedBackend
from pytest_sremut.cluster.waiting import deployments_ready, wait_for
from pytest_sremut.demo.manifests import manifests

NAMESPACE = "social-network"


def pss_mib(pids: list[int]) -> float:
    """Sum of the proportional set sizes in MiB; a process that has ended counts nothing."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds of processes, and of their children that have ended."""
    used = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used += sum(map(int, fields[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> list[int]:
    """All processes below `root`, itself included."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def once() -> dict[str, float]:
    begun = time.perf_counter()
    cluster = EmbeddedBackend.start(name="bench")
    up = time.perf_counter() - begun
    try:
        deviations = cluster.fit_for_verdicts(timeout=30)
        assert not deviations, deviations
        tested = time.perf_counter() - begun
        used = cpu_seconds(descendants(cluster.pid))
        cluster.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, namespace=""
        )
        bodies = manifests(NAMESPACE)
        begun = time.perf_counter()
        for body in bodies:
            cluster.api.create(body, namespace=NAMESPACE)
        names = {b["metadata"]["name"]: 1 for b in bodies if b["kind"] == "Deployment"}
        wait_for(cluster.api, "Deployment", NAMESPACE, deployments_ready(names), timeout=60)
        ready = time.perf_counter() - begun
        pids = descendants(cluster.pid)
        return {
            "up_seconds": up,
            "self_test_seconds": tested,
            "start_cpu_seconds": used,
            "application_ready_seconds": ready,
            "deployments": len(names),
            "processes": len(pids),
            "pss_mib": pss_mib(pids),
        }
    finally:
        cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    runs = [once() for _ in range(arguments.repeat)]
    medians = {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
    print(json.dumps({"benchmark": "cluster", "repeats": arguments.repeat, **medians}, indent=2))


if __name__ == "__main__":
    main()
