"""Putting the mutant in place of the deleted target, and letting the system settle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sremut.engine.journal_ops import OperationKind, captured
from pytest_sremut.engine.observe.stability import listed, pod_is_ready
from pytest_sremut.engine.state import Role
from pytest_sremut.study.mutants import build_body, resolve_templates, template_workloads

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext

__all__ = ["apply_mutant", "settle"]


def apply_mutant(
    ctx: RunContext, target: Mapping[str, Any], owned: Owned
) -> tuple[Mapping[str, Any], ...]:
    """Create what the mutant consists of; nothing for an absent one.

    Args:
        ctx: The run.
        target: The captured object that the mutant changes.
        owned: Gets each object of the mutant as soon as it exists.

    Returns:
        The objects as read back after creation.
    """
    ctx.tell(f"applying {ctx.mutant.id}")
    bodies: list[dict[str, Any]] = []
    body = build_body(ctx.mutant, target)
    if body is not None:
        bodies.append(body)
    if ctx.mutant.creates:
        pods = {name: _pods_of(ctx, name) for name in template_workloads(ctx.mutant.creates)}
        bodies += resolve_templates(ctx.mutant.creates, pods)
    if not bodies:
        return ()
    created = ctx.guard.create(
        OperationKind.CREATE_MUTANT,
        bodies,
        note=lambda seen: owned.made(Role.MUTANT, captured(seen.body)),
    )
    return tuple(item.body for item in created)


def settle(ctx: RunContext, injected: float) -> None:
    """Wait until the protocol's settling time has passed.

    Args:
        ctx: The run.
        injected: When the injection returned, in monotonic seconds.
    """
    ctx.tell(f"settling {ctx.protocol.settle:g} s")
    rest = injected + ctx.protocol.settle - ctx.clock.monotonic()
    with ctx.timings.phase("settle"):
        ctx.clock.wait(rest)
    ctx.timings.waited("settle", max(0.0, rest))


def _pods_of(ctx: RunContext, workload: str) -> list[Mapping[str, Any]]:
    """The Ready, non-terminating pods of `Deployment/NAME`, by its selector."""
    name = workload.split("/", 1)[1]
    deployments = listed(ctx.api.list("Deployment", ctx.namespace))
    found = [item for item in deployments if item["metadata"]["name"] == name]
    if not found:
        return []
    wanted = found[0]["spec"]["selector"].get("matchLabels", {}).items()
    return [
        pod
        for pod in listed(ctx.api.list("Pod", ctx.namespace))
        if pod_is_ready(pod) and wanted <= (pod["metadata"].get("labels") or {}).items()
    ]
