"""From the name that a study gives its fault to what injects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_sremut.engine.faults.benchmark import BenchmarkFault
from pytest_sremut.engine.faults.writes import Writes
from pytest_sremut.errors import UsageError
from pytest_sremut.study.names import Fault as OwnFault
from pytest_sremut.study.names import plugin_fault

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import BenchmarkOperator, Fault, FaultFactory

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
    """
    plugins = plugin_fault(name)
    if plugins:
        if plugins not in brought:
            raise UsageError(
                f"fault {name!r} is not here; allowed: {', '.join(sorted(brought)) or 'none'} "
                "(the hook pytest_sremut_faults brings others)"
            )
        return brought[plugins]()
    if name in list(OwnFault):
        return Writes()
    return BenchmarkFault(name, operator)
