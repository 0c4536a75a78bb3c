"""Putting the mutant in place of the deleted target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import Present
from pytest_sremut.engine.guard import OperationKind, captured
from pytest_sremut.engine.steps.deploy import listed, pod_is_ready
from pytest_sremut.study.mutants import build_body, resolve_templates, template_workloads

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["apply_mutant"]


def apply_mutant(ctx: RunContext) -> list[Present]:
    """Create what the mutant consists of; nothing for an absent one.

    Returns:
        The objects as read back after creation.
    """
    ctx.tell(f"applying {ctx.mutant.id}")
    assert ctx.target is not None
    bodies: list[dict[str, Any]] = []
    body = build_body(ctx.mutant, ctx.target)
    if body is not None:
        bodies.append(body)
    if ctx.mutant.creates:
        pods = {name: _pods_of(ctx, name) for name in template_workloads(ctx.mutant.creates)}
        bodies += resolve_templates(ctx.mutant.creates, pods)
    created: list[Present] = []
    if bodies:
        created = ctx.guard.create(
            OperationKind.CREATE_MUTANT,
            bodies,
            note=lambda seen: ctx.mutant_objects.append(captured(seen.body)),
        )
    ctx.mutant_bodies = [item.body for item in created]
    return created


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
