"""A fault that the benchmark's own code injects and takes back.

Its writes have none of our preconditions: they are named beforehand, observed afterwards, and
what they leave is checked against what was captured. We correct none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Absent, Failed, Present
from pytest_sremut.engine.faults.writes import Writes, target_ref
from pytest_sremut.engine.journal_ops import OperationKind
from pytest_sremut.engine.observe.stability import listed, stable
from pytest_sremut.engine.state import request_for
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError, HarnessError
from pytest_sremut.evidence.redaction import redact_value
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import BenchmarkOperator
    from pytest_sremut.engine.state import Owned, RunContext, RunState

__all__ = ["BenchmarkFault", "as_applied"]

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class BenchmarkFault:
    """One fault of a benchmark's. A `Fault`.

    Args:
        name: As the study has it: `sregym:missing_service`.
        operator: Runs the injector; None where no instrument here does.
    """

    def __init__(self, name: str, operator: BenchmarkOperator | None) -> None:
        self._name = name
        self._operator = operator
        self._asked = 0  # times; the files of its answers are numbered by it
        self._recovered = False  # whether it was asked to

    def inject(self, ctx: RunContext, state: RunState) -> None:
        """Let the benchmark inject; returns when the application is stable."""
        self._operate(ctx, state, "inject", OperationKind.BENCHMARK_INJECT)

    def recover(
        self, ctx: RunContext, state: RunState, owned: Owned, *, only_ours: bool = False
    ) -> None:
        """Let the benchmark recover, once, and check that the captured object is back.

        If that has failed already, our own writes put the object back.
        """
        if self._recovered:
            Writes().recover(ctx, state, owned, only_ours=only_ours)
            return
        self._operate(ctx, state, "recover", OperationKind.BENCHMARK_RECOVER)
        ref = target_ref(ctx)
        found = ctx.api.get(ref)
        assert state.target is not None
        match found:
            case Failed():
                raise ClusterUnavailableError(
                    f"{found.what}: {found.message}", status=found.status, reason=found.reason
                )
            case Absent():
                raise RunStoppedError(
                    Outcome.RESTORATION_FAILURE, f"the benchmark's recovery left no {ref}"
                )
            case Present() if as_applied(found.body) != as_applied(state.target):
                raise RunStoppedError(
                    Outcome.RESTORATION_FAILURE,
                    f"the benchmark's recovery left another {ref} than was captured",
                )
            case Present():
                owned.restored(found.body)

    def _operate(self, ctx: RunContext, state: RunState, action: str, kind: OperationKind) -> None:
        operator = self._operator
        if operator is None:
            raise HarnessError(
                f"fault {self._name}: no instrument here runs a benchmark's injector"
            )
        ctx.tell(f"the benchmark's own {action}")
        self._asked += 1
        self._recovered = kind is OperationKind.BENCHMARK_RECOVER
        old = [pod["metadata"]["uid"] for pod in listed(ctx.api.list("Pod", ctx.namespace))]
        timeout = ctx.protocol.stable_timeout
        injector = OracleNode(id=self._name, use="")
        request = request_for(ctx, injector, baseline=state.baseline, timeout=timeout)
        name = self._name.partition(":")[2]
        answer = ctx.guard.operate(
            kind,
            refs=[target_ref(ctx)],
            call=f"{action} {self._name} (every pod of the namespace, too)",
            act=lambda: operator.operate(action, request, name),
        )
        ctx.attempt.json(f"benchmark-{self._asked:02d}-{action}.json", redact_value(answer))
        # Its own wait ends at pods that merely exist.
        stable(ctx, state.baseline, gone=old, timeout=timeout)


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
