"""Background noise: pods killed at random whenever the state was changed.

For explorations. Which pods is decided by study, run and state, so the same run meets the same
noise. The application is waited for afterwards: what is asked is whether pods of other names,
addresses and ages change what a grader says, not whether it sees a pod that is not ready.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.engine.journal_ops import Captured, OperationKind
from pytest_sremut.engine.observe.stability import listed, pod_is_ready, stable

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext
    from pytest_sremut.study.verdict import State

__all__ = ["make_noise"]


def make_noise(ctx: RunContext, state: State, baseline: Mapping[str, int]) -> list[str]:
    """Kill as many pods as the profile says, and wait until all are ready.

    Args:
        ctx: The run.
        state: Which state was just entered; part of the seed.
        baseline: Deployment -> replicas that are waited for.

    Returns:
        Names of the killed pods.
    """
    count = ctx.protocol.chaos_kills
    if not count:
        return []
    ctx.tell(f"killing {count} pods at random")
    there = {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in listed(ctx.api.list("Pod", ctx.namespace))
        if pod_is_ready(pod)
    }
    # A stem without the generated suffix, so that the choice is of workloads, not of names.
    stems = sorted(there, key=lambda name: (name.rsplit("-", 2)[0], name))
    choice = random.Random(f"{ctx.study.id}/{ctx.run.id}/{state.value}")  # noqa: S311 - no secret
    positions = sorted(choice.sample(range(len(stems)), min(count, len(stems))))
    chosen = [stems[position] for position in positions]
    pods = [
        Captured(ref=ObjectRef(kind="Pod", namespace=ctx.namespace, name=name), uid=there[name])
        for name in chosen
    ]
    ctx.guard.delete(OperationKind.KILL_PODS, pods)
    stable(ctx, baseline, gone=[pod.uid for pod in pods], timeout=ctx.protocol.stable_timeout)
    return chosen
