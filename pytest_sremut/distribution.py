"""pytest-xdist: one run is one unit of work, and only exact built-ins cross processes.

`--dist loadgroup` is not relied upon: current pytest and xdist versions silently scatter groups.
Exclusive use of a cluster rests on its lease in any case, never on scheduling.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from execnet import RemoteError
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

__all__ = ["RunScheduling", "XdistHooks", "run_scope"]

_RESTORATION: Final = 600.0  # every wait of a restoration ends long before
_CELL = re.compile(r"(?P<run>.+/study\.yaml::test_cell\[.+-r\d+)-(?:healthy|faulted|restored)-")


def run_scope(nodeid: str) -> str | None:
    """The run that a cell's node id belongs to, or None for any other test."""
    match = _CELL.match(nodeid)
    return match["run"] if match else None


class RunScheduling(LoadScopeScheduling):
    """Cells of one run stay together and in order; any other test goes by its file.

    On one cluster that all workers share, one worker does all runs, one after the other: a cluster
    has one mutation at a time. The others do what else there is, and take over if it dies.
    """

    def __init__(
        self, config: pytest.Config, log: Any = None, *, one_cluster: bool = False
    ) -> None:
        super().__init__(config, log)
        self._one_cluster = one_cluster

    def _split_scope(self, nodeid: str) -> str:
        run = run_scope(nodeid)
        if run is not None and self._one_cluster:
            return "runs"
        return run or nodeid.split("::", 1)[0]


class XdistHooks:
    """Registered on the controller when xdist distributes a session that runs mutants.

    Args:
        for_workers: What each worker is to know; asked when a worker is about to start.
        recovered: Called with what a worker put back before it began, a line each.
        one_cluster: Whether all workers share one cluster.
    """

    def __init__(
        self,
        *,
        for_workers: Callable[[], dict[str, str]],
        recovered: Callable[[Sequence[str]], None],
        one_cluster: bool = False,
    ) -> None:
        self._for_workers = for_workers
        self._recovered = recovered
        self._one_cluster = one_cluster
        self._workers: list[Any] = []

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> RunScheduling | None:
        return self._scheduler(config, log)

    def pytest_configure_node(self, node: Any) -> None:
        self._brief(node)

    def pytest_testnodedown(self, node: Any) -> None:
        self._recovered(getattr(node, "workeroutput", {}).get("sremut_recovered", []))

    def pytest_keyboard_interrupt(self) -> None:
        self._end_workers()

    def _scheduler(self, config: pytest.Config, log: Any) -> RunScheduling | None:
        if config.getoption("dist", "no") in {"no", "each"}:
            return None
        return RunScheduling(config, log, one_cluster=self._one_cluster)

    def _brief(self, node: Any) -> None:
        node.workerinput["sremut"] = self._for_workers()
        self._workers.append(node)

    def _end_workers(self) -> None:
        """Interrupt the workers at once, and wait until each has put back what it had mutated.

        Left to itself xdist waits for them ten seconds, the first five of them before it even
        interrupts them, and then kills them.
        """
        at_work = [
            node
            for node in self._workers
            if hasattr(node, "channel") and not node.channel.isclosed()
        ]
        for node in at_work:
            with suppress(ProcessLookupError):
                os.kill(node.gateway._rinfo().pid, signal.SIGTERM)  # cached by xdist at set-up
        for node in at_work:
            try:
                node.channel.waitclose(_RESTORATION)
            except (OSError, EOFError, RemoteError):
                continue  # it is gone, or hangs: xdist deals with it
            except KeyboardInterrupt:
                return  # the user insists
