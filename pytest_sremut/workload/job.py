"""The Job whose one pod drives the load from inside the namespace."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pytest_sremut.study.model import DEFAULT_VARIANT, Workload

__all__ = ["load_arguments", "load_job"]


def load_arguments(workload: Workload, *, rounds: int, seed: int) -> list[str]:
    """The generator's arguments for `rounds` rounds of a workload. `seed` decides all draws."""
    mix = [{"name": kind.name, "path": kind.path, "weight": kind.weight} for kind in workload.mix]
    return [
        f"--threads={workload.threads}",
        f"--connections={workload.connections}",
        f"--duration={workload.duration:g}s",
        f"--rate={workload.rate}",
        f"--rounds={rounds}",
        f"--pause={workload.pause:g}s",
        f"--timeout={workload.timeout:g}s",
        f"--seed={seed}",
        *([] if workload.variant == DEFAULT_VARIANT else [f"--variant={workload.variant}"]),
        *([f"--calibration={workload.calibration}"] if workload.calibration else []),
        f"--mix={json.dumps(mix, separators=(',', ':'))}",
        workload.url,
    ]


def load_job(
    *,
    name: str,
    namespace: str,
    workload: Workload,
    rounds: int,
    seed: int,
    image: str,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """A batch/v1 Job: one pod, never restarted, kept after its end so that its log stays.

    The image's own entry point is the generator; `args` are its arguments. A Job that hangs is
    ended by its deadline, which no healthy one comes near: every request of a round times out.

    Args:
        name: Of the Job.
        namespace: Where the workload's URL resolves.
        workload: Rate, connections, rounds' duration and mix.
        rounds: How many rounds the pod drives.
        seed: Of all draws of the window, `draws.window_seed`.
        image: The load image.
        labels: On the Job and on its pod.
    """
    longest = workload.duration + workload.pause + 2 * workload.timeout
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(rounds * longest) + 60,
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 2,
                    "containers": [
                        {
                            "name": "load",
                            "image": image,
                            "imagePullPolicy": "IfNotPresent",
                            "args": load_arguments(workload, rounds=rounds, seed=seed),
                            "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                        }
                    ],
                },
            },
        },
    }
