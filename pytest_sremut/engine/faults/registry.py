"""From the name that a study gives its fault to what injects it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_sremut.engine.faults.benchmark import BenchmarkFault
from pytest_sremut.engine.faults.writes import Writes
from pytest_sremut.errors import HarnessError, SremutError, UsageError
from pytest_sremut.study.names import Fault as OwnFault
from pytest_sremut.study.names import plugin_fault

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import BenchmarkOperator, Fault, FaultFactory
    from pytest_sremut.engine.state import Owned, RunContext, RunState

__all__ = ["fault_named"]


def fault_named(
    name: str, *, operator: BenchmarkOperator | None, brought: Mapping[str, FaultFactory]
) -> Fault:
    """The fault of one attempt.

    Args:
        name: As the study has it: one of ours, `plugin:NAME`, or `BENCHMARK:NAME`.
        operator: Runs a benchmark's injector, where a benchmark is here.
        brought: Name -> fault, from the hook `pytest_sremut_faults`.

    Raises:
        UsageError: No plugin here brings it.
        HarnessError: The plugin failed to make it.
    """
    plugins = plugin_fault(name)
    if plugins:
        if plugins not in brought:
            raise UsageError(
                f"fault {name!r} is not here; allowed: {', '.join(sorted(brought)) or 'none'} "
                "(the hook pytest_sremut_faults brings others)"
            )
        return _OfPlugin(name, brought[plugins])
    if name in list(OwnFault):
        return Writes()
    return BenchmarkFault(name, operator)


class _OfPlugin:
    """A plugin's fault, whose errors end the attempt as every other error of a harness does."""

    def __init__(self, name: str, factory: FaultFactory) -> None:
        self._name = name
        with self._told():
            self._fault = factory()

    def inject(self, ctx: RunContext, state: RunState) -> None:
        with self._told():
            self._fault.inject(ctx, state)

    def recover(
        self, ctx: RunContext, state: RunState, owned: Owned, *, only_ours: bool = False
    ) -> None:
        with self._told():
            self._fault.recover(ctx, state, owned, only_ours=only_ours)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SremutError:
            raise
        except Exception as error:  # code that is not ours may raise anything
            raise HarnessError(f"fault {self._name!r}: {type(error).__name__}: {error}") from error
