"""The two instruments for graders of ours and of the project: `Isolated` and `InProcess`.

Both read in a process beside ours, forked from a warm one (`worker`) that runs no grader itself.
`Isolated` takes a fresh one for each reading. `InProcess` keeps one for each oracle, so an oracle
finds what it left behind: modules, caches, threads. Neither is the session's process, which holds
the evidence, the key of a sealed session, and the way back to a cluster that is as it was found.

An oracle that exits, floods its output or changes its process cannot reach us or another oracle's
reading, and that is its ERROR. That it does not end in time is a HarnessError, as is what goes
wrong before it began.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest_sremut
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.conclude import Answer, reading_lost, reading_of
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.warm import (
    ENVIRONMENT,
    WarmWorker,
    WorkerLostError,
    allowed_environment,
    walls_for,
)

__all__ = ["ENVIRONMENT", "InProcess", "Isolated"]

_OURS: Final = Path(pytest_sremut.__file__).parent


class _Beside:
    """Readings in processes beside ours; see the module's docstring and `Instrument`.

    Args:
        root: The project: its modules are hashed, and compiled from their source. The working
            directory where left out.
        closed: Directories that no oracle may write to, such as the evidence; made where missing.
        environment: Further variables for the oracle's process.
        python: The interpreter of the worker.
    """

    name = ""

    def __init__(
        self,
        *,
        root: Path | None = None,
        closed: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self._root = root or Path.cwd()
        self._closed = tuple(closed)
        self._environment = dict(environment or {})
        self._python = python
        self._worker: WarmWorker | None = None
        self._lock = threading.Lock()
        self._count = 0

    def start(self) -> None:
        """Start the worker; it imports while we go on."""
        with self._lock:
            self._running()

    def read(self, request: ReadingRequest) -> Reading:
        """See `Instrument`. One reading at a time; others wait."""
        registry.known(request.oracle, self._root)
        code = registry.code_behind(request.oracle, self._root)  # before anything imports it
        modules = registry.digests(request.oracle, code)
        facts: dict[str, Any] = {"modules": modules}
        with self._lock:
            worker = self._running()
            self._count += 1
            try:
                ready = worker.ready()
                facts |= {**ready["versions"], "walls": ready["walls"]}
                message = {
                    "type": "read",
                    "request": request.to_json(),
                    "host": self._host(request, modules),
                    "sources": [str(one.path) for one in code.values() if one.path.suffix == ".py"],
                }
                answer = Answer.of(worker.ask(self._count, message, timeout=request.timeout))
            except WorkerLostError as error:
                self._stop(worker)
                return reading_lost(request, str(error), instrument=self.name, facts=facts)
            except BaseException:
                # Whatever stopped us, a Ctrl-C included: no oracle may go on by itself. The end of
                # its input makes the worker end the oracle with all its descendants.
                self._stop(worker)
                raise
        return reading_of(
            request,
            answer,
            instrument=self.name,
            facts=facts,
            foreign=registry.is_foreign(request.oracle),
        )

    def close(self) -> None:
        """End the worker and whatever it runs."""
        with self._lock:
            if self._worker is not None:
                self._stop(self._worker)

    def _host(self, _request: ReadingRequest, _modules: Mapping[str, str]) -> str:
        """Under what name the oracle's process is kept; empty: it is not."""
        raise NotImplementedError

    def _variables(self) -> dict[str, str]:
        """Those of our variables that the oracle's process gets."""
        raise NotImplementedError

    def _stop(self, worker: WarmWorker) -> None:
        worker.stop()
        self._worker = None

    def _running(self) -> WarmWorker:
        if self._worker is None:
            for directory in self._closed:
                with contextlib.suppress(OSError):  # then nothing can be written there either
                    directory.mkdir(parents=True, exist_ok=True)
            path = [entry or str(Path.cwd()) for entry in sys.path]
            variables = self._variables()
            self._worker = WarmWorker(
                [self._python, "-P", "-m", "pytest_sremut.oracles.worker"],
                {**variables, **self._environment, "PYTHONPATH": str(_OURS.parent)},
                {
                    "path": [*path, str(self._root)],
                    "python_path": variables.get("PYTHONPATH", ""),
                    "root": str(self._root),
                    **walls_for(self._closed),
                },
            )
        return self._worker


class Isolated(_Beside):
    """A fresh process for each reading, with few of our variables."""

    name = "isolated"

    def _host(self, _request: ReadingRequest, _modules: Mapping[str, str]) -> str:
        return ""

    def _variables(self) -> dict[str, str]:
        return allowed_environment()


class InProcess(_Beside):
    """One process for each oracle, kept from one reading to the next, with all our variables.

    A new one is taken where the last one ended, or where a module of the oracle's was changed.
    """

    name = "in-process"

    def _host(self, request: ReadingRequest, modules: Mapping[str, str]) -> str:
        made_of = hashlib.sha256(repr((request.oracle, sorted(modules.items()))).encode())
        return f"{request.oracle.id} {made_of.hexdigest()}"

    def _variables(self) -> dict[str, str]:
        return dict(os.environ)
