"""Figures of the embedded cluster's API.

    python benchmarks/api.py [--requests 1000] [--applied 500] [--idle 20]

Measured with the official Python client, one process, one connection, unless said otherwise;
milliseconds unless said otherwise. Prints one JSON document with the goals beside the figures.
Absolute numbers of this machine: compare them only with a run beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes
from kubernetes import client, config, watch

from pytest_sremut.embedded import EmbeddedCluster, Image, up

SPACE = "figures"
GOALS = {
    "get_p50_ms": 2.0,
    "list_30_deployments_p50_ms": 20.0,
    "watch_delivery_p99_ms": 50.0,
    "apply_500_objects_s": 5.0,
    "idle_cpu_percent": 1.0,
}


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(action: Callable[[], Any], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append((time.perf_counter() - began) * 1000)
    return found


def deployment(number: int) -> dict[str, Any]:
    labels = {"app": f"d-{number}"}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "36000"]}
    return {
        "metadata": {"name": f"d-{number}", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def watch_delivery(core: client.CoreV1Api, writes: int) -> list[float]:
    """From the moment before the write until another connection's watch tells it."""
    sent: dict[str, float] = {}
    found: list[float] = []
    opened = threading.Event()

    def follow() -> None:
        stream = watch.Watch().stream(
            core.list_namespaced_config_map, SPACE, label_selector="w=1", timeout_seconds=120
        )
        for event in stream:
            name = event["object"].metadata.name
            if name == "first":
                opened.set()
            elif event["type"] == "ADDED":
                found.append((time.perf_counter() - sent[name]) * 1000)
                if len(found) == writes:
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    labels = {"w": "1"}
    core.create_namespaced_config_map(SPACE, {"metadata": {"name": "first", "labels": labels}})
    opened.wait(30)
    for number in range(writes):
        name = f"w-{number}"
        sent[name] = time.perf_counter()
        core.create_namespaced_config_map(SPACE, {"metadata": {"name": name, "labels": labels}})
    follower.join(60)
    return found


def apply_many(core: client.CoreV1Api, count: int) -> float:
    """Seconds for server-side applies of ConfigMaps, one after the other."""
    began = time.perf_counter()
    for number in range(count):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"a-{number}"},
            "data": {"k": "v"},
        }
        core.patch_namespaced_config_map(
            f"a-{number}",
            SPACE,
            body,
            field_manager="figures",
            _content_type="application/apply-patch+yaml",
        )
    return time.perf_counter() - began


def cpu_seconds(cluster: EmbeddedCluster) -> float:
    """CPU of the cluster's processes, without those of pods: there are none then."""
    total = 0
    wanted = [cluster.pid]
    while wanted:
        pid = wanted.pop()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
        for task in Path(f"/proc/{pid}/task").iterdir():
            wanted += map(int, (task / "children").read_text(encoding="utf-8").split())
    return total / os.sysconf("SC_CLK_TCK")


def measure(cluster: EmbeddedCluster, arguments: argparse.Namespace) -> dict[str, float]:
    settings = client.Configuration()
    config.load_kube_config(str(cluster.kubeconfig), client_configuration=settings)
    api = client.ApiClient(settings)
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    core.create_namespace({"metadata": {"name": SPACE}})
    cluster.selftest()
    time.sleep(2)
    before, began = cpu_seconds(cluster), time.monotonic()
    time.sleep(arguments.idle)
    idle = (cpu_seconds(cluster) - before) / (time.monotonic() - began) * 100
    for number in range(30):
        apps.create_namespaced_deployment(SPACE, deployment(number))
    time.sleep(1)
    get = timed(lambda: core.read_namespace(SPACE), arguments.requests)
    listed = timed(
        lambda: apps.list_namespaced_deployment(SPACE), max(30, arguments.requests // 10)
    )
    raw = timed(
        lambda: apps.list_namespaced_deployment(SPACE, _preload_content=False).read(),
        max(30, arguments.requests // 10),
    )
    delivered = watch_delivery(core, arguments.requests)
    applied = apply_many(core, arguments.applied)
    return {
        "get_p50_ms": round(statistics.median(get), 2),
        "get_p99_ms": round(quantile(get, 0.99), 2),
        "list_30_deployments_p50_ms": round(statistics.median(listed), 2),
        "list_30_deployments_without_client_p50_ms": round(statistics.median(raw), 2),
        "watch_delivery_p50_ms": round(statistics.median(delivered), 2),
        "watch_delivery_p99_ms": round(quantile(delivered, 0.99), 2),
        f"apply_{arguments.applied}_objects_s": round(applied, 2),
        "idle_cpu_percent": round(idle, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--applied", type=int, default=500)
    parser.add_argument("--idle", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sremut-api-") as directory:
        images = {"busybox:1.36": Image(kind="commands")}
        began = time.monotonic()
        with up(directory=Path(directory), name="figures", images=images) as cluster:
            started = time.monotonic() - began
            figures = measure(cluster, arguments)
            facts = cluster.facts()
    document = {
        "figures": {"up_s": round(started, 2), **figures},
        "goals": GOALS,
        "machine": {
            "cpus": os.cpu_count(),
            "load": [round(value, 2) for value in os.getloadavg()],
            "python": platform.python_version(),
            "client": kubernetes.__version__,
            "routing": facts["routing"]["mode"],
            "isolation": facts["isolation"],
        },
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
