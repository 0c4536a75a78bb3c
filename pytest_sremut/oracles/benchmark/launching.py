"""Starting the process that runs a benchmark's code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_sremut.oracles.benchmark.layout import Layout
from pytest_sremut.oracles.warm import WarmWorker, allowed_environment, walls_for
from pytest_sremut.study.names import Imports, Instrument

__all__ = ["Launcher"]

_WORKER: Final = Path(__file__).with_name("worker.py")
_START: Final = {Imports.LIGHT.value: 60.0, Imports.FULL.value: 300.0}
"""Seconds that imports may take: everything that a benchmark depends on is hundreds of packages,
and some of them ask the network for something while they are imported.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Starts workers (`worker.py`) under one interpreter.

    Args:
        instrument: `own` or `pinned`; `own` sees the packages of our interpreter.
        python: The interpreter.
        scratch: A directory of ours that lives as long as the workers: they run in it, and it holds
            the kubeconfig that they are given.
        closed: Directories that nothing of the benchmark's may write to.
    """

    instrument: Instrument
    python: str
    scratch: Path
    closed: tuple[Path, ...] = ()

    @property
    def kubeconfig(self) -> Path:
        """What every worker finds in `$KUBECONFIG`; written before it is asked anything."""
        return self.scratch / "kubeconfig"

    def start(
        self, checkout: Path, layout: Layout, *, imports: str, modules: Iterable[str]
    ) -> WarmWorker:
        """A worker that imports while we go on.

        Args:
            checkout: The directory whose modules it imports.
            layout: The benchmark's seams.
            imports: `light` or `full`.
            modules: What it imports before the first task.
        """
        own = self.instrument is Instrument.OWN
        return WarmWorker(
            [self.python, "-I", "-B", str(_WORKER)],
            {
                **allowed_environment(),
                # Where a client looks that was made before the cluster was up.
                "KUBECONFIG": str(self.kubeconfig),
                "KUBECACHEDIR": str(self.scratch / "kubecache"),
            },
            {
                "path": [entry or str(Path.cwd()) for entry in sys.path] if own else [],
                "checkout": str(checkout),
                "layout": layout.to_json(),
                "light": list(layout.light) if imports == Imports.LIGHT else [],
                "modules": sorted(modules),
                **walls_for(self.closed),
            },
            directory=self.scratch,
            start=_START[imports],
        )
