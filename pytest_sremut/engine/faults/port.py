"""What a fault is: something that breaks the target, and puts it back as it was captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext, RunState
    from pytest_sremut.oracles.request import ReadingRequest

__all__ = ["BenchmarkOperator", "Fault", "FaultFactory"]


class Fault(Protocol):
    """One fault, made anew for each attempt.

    Every write goes through `ctx.guard`: a process that dies leaves a journal that says what was
    written. Whoever recovers a dead process asks no fault: the captured target is put back by our
    own writes. A fault may therefore break the target and its pods, and nothing else.
    """

    def inject(self, ctx: RunContext, state: RunState) -> None:
        """Take the target away. Returns when the application's pods are stable again.

        Args:
            ctx: The run; `ctx.guard` makes the writes.
            state: `state.target` is the captured object, `state.baseline` the wanted replicas.
        """
        ...

    def recover(
        self, ctx: RunContext, state: RunState, owned: Owned, *, only_ours: bool = False
    ) -> None:
        """Put the target back. Called while no object has its name, perhaps repeatedly.

        Args:
            ctx: The run.
            state: As it was before the restoration.
            owned: Its `restored` is called as soon as the target exists.
            only_ours: Recycle only pods of the application that this attempt deployed.

        Raises:
            RunStoppedError: `RESTORATION_FAILURE`: what is there now is not what was captured.
        """
        ...


FaultFactory = Callable[[], Fault]
"""Makes the fault of one attempt."""


class BenchmarkOperator(Protocol):
    """Whatever runs a benchmark's injector or deployer; `BenchmarkInstrument.operate`."""

    def operate(self, action: str, request: ReadingRequest, name: str) -> Mapping[str, Any]:
        """Run `action` of the injector or deployer `name`. Raises HarnessError.

        Returns:
            What it returned and printed, JSON-ready.
        """
        ...
