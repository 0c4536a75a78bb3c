"""Readings in a fresh process each, forked from a warm one (`worker`).

An oracle that exits, hangs, floods its output or changes its process cannot reach us or the next
reading. What goes wrong with the process itself (killed, no answer in time) is a HarnessError, and
the next reading starts a new worker.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest_sremut
from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.warm import ENVIRONMENT, WarmWorker, allowed_environment

__all__ = ["ENVIRONMENT", "Isolated"]


class Isolated:
    """See the module's docstring and `Instrument`.

    Args:
        modules: Foreign modules to import before the first fork (`registry.modules_of`).
        environment: Further variables for the oracle's process.
        python: The interpreter of the worker.
    """

    name = "isolated"

    def __init__(
        self,
        *,
        modules: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self._modules = list(modules)
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
        for node in request.oracle.walk():
            registry.known(node.use)
        with self._lock:
            worker = self._running()
            self._count += 1
            try:
                answer = worker.ask(
                    self._count,
                    {"type": "read", "request": request.to_json()},
                    timeout=request.timeout,
                )
            except BaseException:
                # Whatever stopped us, a Ctrl-C included: no oracle may go on by itself. The end of
                # its input makes the worker end the oracle with all its descendants.
                worker.stop()
                self._worker = None
                raise
        return _reading_of(answer)

    def close(self) -> None:
        """End the worker and whatever it runs."""
        with self._lock:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None

    def _running(self) -> WarmWorker:
        if self._worker is None:
            root = str(Path(pytest_sremut.__file__).parent.parent)
            self._worker = WarmWorker(
                [self._python, "-P", "-m", "pytest_sremut.oracles.worker"],
                {**allowed_environment(), **self._environment, "PYTHONPATH": root},
                {
                    "path": [entry or str(Path.cwd()) for entry in sys.path],
                    "modules": self._modules,
                },
            )
        return self._worker


def _reading_of(answer: Mapping[str, Any]) -> Reading:
    if "reading" in answer:
        return Reading.from_json(answer["reading"])
    if "usage" in answer:
        raise UsageError(str(answer["usage"]))
    if "refused" in answer:
        raise GuardRefusedError(str(answer["refused"]))
    raise HarnessError(str(answer.get("harness", "the oracle worker sent an empty result")))
