"""An application that the benchmark's own code deploys, and takes away again.

Its writes carry none of our preconditions and name no objects beforehand. So the namespace is read
before and after: what came while it deployed is the application, noted with UIDs in the receipt,
and what is left after its removal is deleted by those UIDs. That nobody else writes there meanwhile
rests on the lease, and on a namespace that was found empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Absent, Failed, Kind, ObjectRef, Present
from pytest_sremut.engine.asking import request_for
from pytest_sremut.engine.guard import OperationKind
from pytest_sremut.engine.journal_ops import Captured, captured
from pytest_sremut.engine.reconciliation import look_all
from pytest_sremut.engine.stops import RunStoppedError, told
from pytest_sremut.errors import ClusterUnavailableError, HarnessError
from pytest_sremut.evidence.redaction import redact_value
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["DEPLOYED", "deploy", "remove", "there", "unlike"]

DEPLOYED: Final[tuple[Kind, ...]] = ("ConfigMap", "Service", "Deployment")
"""Kinds of which an application consists, for us. What else a deployer makes is its own affair:
Secrets are never read."""

_EVERYWHERE: Final = "kube-root-ca.crt"  # a controller puts it into every namespace
_COMPARED: Final = ("type", "selector", "ports")
_HEADLESS: Final = "None"


def deploy(ctx: RunContext) -> None:
    """Let the benchmark deploy; returns when its code has.

    Raises:
        RunStoppedError: It failed, or what it deployed lacks the study's target, or has another one
            than the mutants were proven against (infrastructure).
    """
    before: set[str] = set()

    def came() -> Sequence[Captured]:
        ctx.application = [item for item in there(ctx) if item.uid not in before]
        return ctx.application

    try:
        _operate(ctx, "remove", OperationKind.BENCHMARK_REMOVE)
        before |= {item.uid for item in there(ctx)}
        ctx.deployed_by_benchmark = True
        _operate(ctx, "deploy", OperationKind.BENCHMARK_DEPLOY, found=came)
    except HarnessError as error:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE, f"the benchmark did not deploy: {told(error)}"
        ) from error
    _check_target(ctx)


def remove(ctx: RunContext) -> None:
    """Let the benchmark take its application away; what is left is for the caller to delete.

    That it fails is noted and stops nothing: the caller goes by UIDs. In a recovery nothing is here
    that could run its code.
    """
    if ctx.deployer is None:
        return
    try:
        _operate(ctx, "remove", OperationKind.BENCHMARK_REMOVE)
    except HarnessError as error:
        ctx.tell(f"the benchmark's own removal failed: {told(error)}")
        ctx.attempt.json(f"{_name(ctx)}-failed.json", {"reason": told(error)})
    ctx.application = [
        item
        for item, seen in zip(
            ctx.application,
            look_all(ctx.api, [item.ref for item in ctx.application]),
            strict=True,
        )
        if not isinstance(seen, Absent)
    ]


def unlike(live: Mapping[str, Any], captured_body: Mapping[str, Any]) -> str:
    """In what a live target is not the one that the mutants were proven against; empty if like it.

    Compared is what mutants change: labels and annotations are the deployer's.
    """
    if live["spec"].get("clusterIP") == _HEADLESS:
        return "it is headless"
    ours = strip_server_fields(captured_body)["spec"]
    theirs = strip_server_fields(live)["spec"]
    for name in _COMPARED:
        if ours.get(name) != theirs.get(name):
            return f"spec.{name}: found {theirs.get(name)!r}, proven against {ours.get(name)!r}"
    return ""


def _target(ctx: RunContext) -> ObjectRef:
    return ObjectRef(kind="Service", namespace=ctx.namespace, name=ctx.study.target.name)


def _check_target(ctx: RunContext) -> None:
    ref = _target(ctx)
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(
            f"{found.what}: {found.message}", status=found.status, reason=found.reason
        )
    problem = (
        unlike(found.body, ctx.study.registry.captured)
        if isinstance(found, Present)
        else "it is not there"
    )
    if problem:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"the benchmark deployed another {ref} than {ctx.study.registry.file} changes: "
            f"{problem}",
        )


def there(ctx: RunContext) -> Iterator[Captured]:
    """The namespace's objects of which an application can consist."""
    for kind in DEPLOYED:
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            raise ClusterUnavailableError(
                str(listing), status=listing.status, reason=listing.reason
            )
        for item in listing.items:
            if (kind, item["metadata"]["name"]) != ("ConfigMap", _EVERYWHERE):
                yield captured({"kind": kind, **item})


def _operate(
    ctx: RunContext,
    action: str,
    kind: OperationKind,
    *,
    found: Callable[[], Sequence[Captured]] = tuple,
) -> None:
    deployer = ctx.deployer
    if deployer is None:
        raise HarnessError(f"nothing here deploys {ctx.study.application}")
    ctx.tell(f"the benchmark's own {action}")
    ctx.deployments += 1
    name = ctx.study.deployer
    request = request_for(ctx, OracleNode(id=name, use=""), timeout=ctx.protocol.deploy_timeout)
    answer = ctx.guard.foreign(
        kind,
        refs=[_target(ctx)],
        call=f"{action} {ctx.study.application} (every object of the application)",
        act=lambda: deployer.operate(action, request, name),
        found=found,
    )
    ctx.attempt.json(f"{_name(ctx)}-{action}.json", redact_value(answer))


def _name(ctx: RunContext) -> str:
    return f"deployer-{ctx.deployments:02d}"
