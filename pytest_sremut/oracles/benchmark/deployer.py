"""Deploying an application with the benchmark's own code, and taking it away with it.

Deployers write beside what they deploy (`helm dependency update` rewrites archives and a lock),
and a checkout has to stay what was pinned. So they run from a copy of what git tracks in it,
submodules included, in a process of their own.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.kubeconfig import write_single_context
from pytest_sremut.oracles.benchmark.launching import Launcher
from pytest_sremut.oracles.conclude import Answer, done
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.warm import WarmWorker
from pytest_sremut.study.model import BenchmarkPins

__all__ = ["BenchmarkDeployer"]


class BenchmarkDeployer:
    """See the module's docstring.

    Args:
        checkout: The pinned one; it is only read.
        launcher: Under which interpreter. Its scratch directory is ours alone.
    """

    def __init__(self, checkout: Checkout, launcher: Launcher) -> None:
        self._checkout = checkout
        self._launcher = launcher
        self._copy: Path | None = None
        self._worker: WarmWorker | None = None
        self._key: tuple[str, str] = ("", "")
        self._count = 0

    def problem(self, pins: BenchmarkPins, name: str) -> str:
        """Why the application cannot be deployed here; empty where nothing speaks against it.

        Waits for the deployer's imports. Raises UsageError for an application that the benchmark
        does not have.
        """
        needs = self._checkout.layout.application(name).needs
        absent = [program for program in needs if shutil.which(program) is None]
        if absent:
            return f"it needs {', '.join(absent)} on PATH"
        try:
            return "; ".join(self._running(pins, name).ready()["problems"])
        except HarnessError as error:
            return str(error)

    def operate(self, action: str, request: ReadingRequest, name: str) -> Mapping[str, Any]:
        """`deploy` the application, or `remove` it.

        Returns:
            `returned`, `elapsed`, `stdout` and `stderr`.
        Raises:
            UsageError: The benchmark has no such application.
            GuardRefusedError: It would deploy into another namespace.
            HarnessError: It failed, or overran `request.timeout`; how far it came is unknown.
        """
        if request.benchmark is None:
            raise HarnessError(f"application {name}: the study pins no benchmark")
        worker = self._running(request.benchmark, name)
        write_single_context(Path(request.kubeconfig), request.context, self._launcher.kubeconfig)
        own = replace(request, kubeconfig=str(self._launcher.kubeconfig))
        self._count += 1
        message = {"type": action, "request": own.to_json(), "classes": {}, "name": name}
        try:
            answer = Answer.of(worker.ask(self._count, message, timeout=request.timeout))
        except BaseException:
            # Whatever stopped us, no deployer may go on by itself.
            self.close()
            raise
        told = done(f"{action} {request.oracle.id}", request.timeout, answer)
        return {**told["done"], "stdout": told["stdout"], "stderr": told["stderr"]}

    def close(self) -> None:
        """End its process and whatever that runs."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _running(self, pins: BenchmarkPins, name: str) -> WarmWorker:
        """The process that has, or will have, the deployer imported."""
        layout = self._checkout.layout
        module = layout.application(name).deployer.partition(":")[0]
        key = (module, pins.imports)
        if self._worker is None or key != self._key:
            self.close()
            self._worker = self._launcher.start(
                self._copied(), layout, imports=pins.imports, modules=(module,)
            )
            self._key = key
        return self._worker

    def _copied(self) -> Path:
        if self._copy is None:
            copy = self._launcher.scratch / "checkout"
            shutil.rmtree(copy, ignore_errors=True)  # what an interrupted copy left
            self._checkout.copy_to(copy)
            self._copy = copy
        return self._copy
