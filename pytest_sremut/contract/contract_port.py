"""What the contract needs of a run, and what it says. The engine implements `ContractPort`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_sremut.cluster.port import ExecResult, Failed, Kind, KubeApi, ObjectRef
from pytest_sremut.study.model import Protocol as StudyProtocol
from pytest_sremut.study.model import Target
from pytest_sremut.study.verdict import ContractVerdict, Evaluation
from pytest_sremut.workload.window import Window

__all__ = ["ContractPort", "ContractReading", "InvariantResult"]


class ContractPort(Protocol):
    """One state of one run, as the contract may look at it and the one write it may ask for."""

    @property
    def api(self) -> KubeApi: ...

    @property
    def namespace(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def protocol(self) -> StudyProtocol: ...

    @property
    def baseline(self) -> Mapping[str, int]:
        """Deployment -> replicas desired while healthy."""
        ...

    def probe(self, argv: Sequence[str], *, timeout: float) -> ExecResult | Failed:
        """Run a command in our probe pod."""
        ...

    def window(self) -> Window:
        """This state's workload window, taken already."""
        ...

    def fresh_window(self) -> Window:
        """A window of load that begins now."""
        ...

    def delete_pod(self, ref: ObjectRef, uid: str) -> object:
        """Delete exactly that pod, through the guard."""
        ...

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass between two polls."""
        ...

    def changed(self, kind: Kind, *, since: str, within: float) -> None:
        """Wait until an object of that kind is another than at resource version `since`, at most
        `within` seconds. May return early: whoever waits looks again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantResult:
    """What became of one invariant. `observed` is one sentence; `facts` are JSON-ready."""

    id: str
    evaluation: Evaluation
    observed: str
    elapsed: float
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractReading:
    """PASS iff every evaluated invariant holds. Results stand in the contract's order."""

    verdict: ContractVerdict
    violated: tuple[str, ...]
    not_evaluated: tuple[str, ...]
    invariants: tuple[InvariantResult, ...]
