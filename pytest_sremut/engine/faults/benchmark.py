"""A fault that the benchmark's own code injects and takes back.

Its writes carry none of our preconditions: they are named beforehand, observed afterwards, and
what they leave is checked against what was captured. Nothing of it is corrected by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present
from pytest_sremut.engine.asking import request_for
from pytest_sremut.engine.guard import OperationKind, captured
from pytest_sremut.engine.steps.deploy import listed, stable
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError, HarnessError
from pytest_sremut.evidence.redaction import redact_value
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["Operator", "as_applied", "inject", "recover"]

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Operator(Protocol):
    """Whatever runs a benchmark's injector; `BenchmarkInstrument.operate`."""

    def operate(self, action: str, request: ReadingRequest, fault: str) -> Mapping[str, Any]: ...


def inject(ctx: RunContext, ref: ObjectRef, fault: str) -> None:
    """Let the benchmark inject; returns when the application is stable."""
    _operate(ctx, ref, fault, "inject", OperationKind.BENCHMARK_INJECT)


def recover(ctx: RunContext, ref: ObjectRef, fault: str) -> None:
    """Let the benchmark recover, and check that the captured object is back.

    Raises:
        RunStoppedError: `RESTORATION_FAILURE`: what stands there now is not what was captured.
    """
    _operate(ctx, ref, fault, "recover", OperationKind.BENCHMARK_RECOVER)
    found = ctx.api.get(ref)
    assert ctx.target is not None
    match found:
        case Failed():
            raise ClusterUnavailableError(
                f"{found.what}: {found.message}", status=found.status, reason=found.reason
            )
        case Absent():
            raise RunStoppedError(
                Outcome.RESTORATION_FAILURE, f"the benchmark's recovery left no {ref}"
            )
        case Present() if as_applied(found.body) != as_applied(ctx.target):
            raise RunStoppedError(
                Outcome.RESTORATION_FAILURE,
                f"the benchmark's recovery left another {ref} than was captured",
            )
        case Present():
            ctx.target = found.body
            others = [item for item in ctx.application if item.ref != ref]
            ctx.application = [*others, captured(found.body)]


def _operate(ctx: RunContext, ref: ObjectRef, fault: str, action: str, kind: OperationKind) -> None:
    operator = ctx.operator
    if operator is None:
        raise HarnessError(f"fault {fault}: no instrument here runs a benchmark's injector")
    ctx.tell(f"the benchmark's own {action}")
    ctx.operations += 1
    old = [pod["metadata"]["uid"] for pod in listed(ctx.api.list("Pod", ctx.namespace))]
    injector = OracleNode(id=fault, use="")
    request = request_for(ctx, injector, timeout=ctx.protocol.stable_timeout)
    name = fault.partition(":")[2]
    told = ctx.guard.foreign(
        kind,
        refs=[ref],
        call=f"{action} {fault} (every pod of the namespace, too)",
        act=lambda: operator.operate(action, request, name),
    )
    ctx.attempt.json(f"benchmark-{ctx.operations:02d}-{action}.json", redact_value(told))
    # Its own wait ends at pods that merely exist.
    stable(ctx, ctx.baseline, gone=old, timeout=ctx.protocol.stable_timeout)


def as_applied(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body less what the server and `kubectl apply` add."""
    stripped = strip_server_fields(body)
    metadata = stripped["metadata"]
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != _APPLIED
    }
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return stripped
