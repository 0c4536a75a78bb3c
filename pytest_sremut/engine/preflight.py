"""What must hold before a run touches anything. Read-only, and enforced: one failed check stops
the run with every failed check told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present
from pytest_sremut.engine.labels import OWNER_LABEL
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.context import RunContext

__all__ = ["PreflightCheck", "preflight"]

_SELF_TEST_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightCheck:
    """One check: what was looked at, whether it holds, what was seen."""

    name: str
    holds: bool
    observed: str
    outcome: Outcome = Outcome.INFRASTRUCTURE_FAILURE  # what its failure means


def preflight(ctx: RunContext, more: Iterable[PreflightCheck] = ()) -> list[PreflightCheck]:
    """Run every check, and those of others. Raises RunStoppedError naming each that fails."""
    ctx.tell("preflight")
    checks = [*more, *_cluster(ctx), *_namespace(ctx)]
    failed = [check for check in checks if not check.holds]
    if failed:
        told = "; ".join(f"{check.name}: {check.observed}" for check in failed)
        outcomes = {check.outcome for check in failed}
        # A violated protocol outweighs what might pass by itself.
        worst = Outcome.PROTOCOL_VIOLATION in outcomes
        raise RunStoppedError(
            Outcome.PROTOCOL_VIOLATION if worst else Outcome.INFRASTRUCTURE_FAILURE,
            f"preflight: {told}",
        )
    return checks


def _cluster(ctx: RunContext) -> Iterator[PreflightCheck]:
    version = ctx.api.version()
    yield PreflightCheck(
        name="api-answers",
        holds=not isinstance(version, Failed),
        observed=(
            version.message if isinstance(version, Failed) else str(version.get("gitVersion"))
        ),
    )
    if isinstance(version, Failed):
        return
    deviations = list(ctx.cluster.fit_for_verdicts(timeout=_SELF_TEST_TIMEOUT))
    yield PreflightCheck(
        name="cluster-self-test",
        holds=not deviations,
        observed="; ".join(deviations) or "no deviation",
    )
    nodes = ctx.api.list("Node", "")
    if isinstance(nodes, Failed):
        yield PreflightCheck(name="nodes-ready", holds=False, observed=nodes.message)
        return
    ready = [
        node["metadata"]["name"]
        for node in nodes.items
        if any(
            c.get("type") == "Ready" and c.get("status") == "True"
            for c in (node.get("status") or {}).get("conditions") or ()
        )
    ]
    yield PreflightCheck(
        name="nodes-ready",
        holds=bool(ready) and len(ready) == len(nodes.items),
        observed=f"{len(ready)} of {len(nodes.items)} nodes are ready",
    )


def _namespace(ctx: RunContext) -> Iterator[PreflightCheck]:
    found = ctx.api.get(ObjectRef(kind="Namespace", namespace="", name=ctx.namespace))
    match found:
        case Failed():
            yield PreflightCheck(name="namespace", holds=False, observed=found.message)
            return
        case Absent():
            yield PreflightCheck(name="namespace", holds=True, observed="absent: will be created")
            return
        case Present():
            labels = found.body["metadata"].get("labels") or {}
            ours = labels.get(OWNER_LABEL) == "true"
            yield PreflightCheck(
                name="namespace",
                holds=ours,
                observed=(
                    "ours"
                    if ours
                    else f"namespace {ctx.namespace} is taken: it exists without the label "
                    f"{OWNER_LABEL}; remove it, or name another in the study"
                ),
            )
    for kind in ("Deployment", "Service", "Job", "Pod"):
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            yield PreflightCheck(name=f"no-stale-{kind}", holds=False, observed=listing.message)
            continue
        names = [item["metadata"]["name"] for item in listing.items]
        yield PreflightCheck(
            name=f"no-stale-{kind}",
            holds=not names,
            observed=f"{len(names)} left over: {', '.join(names[:3])}" if names else "none",
        )
