"""The two instruments that read a benchmark's unmodified classes: `own` and `pinned`.

They differ in the interpreter and with it in every library that the oracle uses: `own` runs under
ours, `pinned` under the benchmark's. Both fork each reading from a warm worker. Before anything is
asked of the worker the pinned files are hashed here; what the worker says that it compiled is
compared besides, and can only make matters worse.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.deployer import BenchmarkDeployer
from pytest_sremut.oracles.benchmark.kubeconfig import write_single_context
from pytest_sremut.oracles.benchmark.launching import Launcher
from pytest_sremut.oracles.benchmark.layout import Layout
from pytest_sremut.oracles.benchmark.turn import Turn
from pytest_sremut.oracles.conclude import Answer, done, reading_lost, reading_of
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.warm import WarmWorker, WorkerLostError
from pytest_sremut.study.model import BenchmarkPins, Study
from pytest_sremut.study.names import Instrument

__all__ = ["BenchmarkInstrument"]


class BenchmarkInstrument:
    """See the module's docstring and `Instrument`.

    Args:
        kind: `own` or `pinned`.
        directory: The checkout.
        layouts: Adapters by the benchmark's name.
        python: The interpreter of `pinned`; `own` runs under ours.
        closed: Directories that no oracle may write to; the checkout is another.
    """

    def __init__(
        self,
        kind: Instrument,
        *,
        directory: Path,
        layouts: Mapping[str, Layout],
        python: str = sys.executable,
        closed: Sequence[Path] = (),
    ) -> None:
        self.name = kind.value
        self._directory = directory
        self._layouts = layouts
        self._checkouts: dict[str, Checkout] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="sremut-benchmark-"))
        self._launcher = Launcher(
            instrument=kind, python=python, scratch=self._scratch, closed=tuple(closed)
        )
        self._deployers: dict[str, BenchmarkDeployer] = {}
        self._worker: WarmWorker | None = None
        self._key: tuple[Any, ...] = ()
        self._lock = threading.Lock()
        self._count = 0
        self._turn: Turn | None = None

    def start(self) -> None:
        """Nothing to start before it is known what is to be read: see `prepare`."""

    def prepare(self, study: Study) -> None:
        """Start the worker for a study's oracles; it imports while we go on.

        Raises:
            UsageError: The benchmark or a class of it does not exist here.
        """
        if study.benchmark is None:
            return
        checkout = self.checkout(study.benchmark.name)
        graded = Checkout.graded(study)
        modules = {checkout.place(spec.use).partition(":")[0] for spec in graded}
        with self._lock:
            self._running(study.benchmark, frozenset(modules))

    def problems(self, study: Study) -> list[str]:
        """Why this instrument cannot read this study here and now; waits for its imports."""
        try:
            self.prepare(study)
            with self._lock:
                if self._worker is None:
                    return []
                return [str(problem) for problem in self._worker.ready()["problems"]]
        except (UsageError, HarnessError) as error:
            return [str(error)]

    def checkout(self, benchmark: str) -> Checkout:
        """The checkout, read as that benchmark. Raises UsageError."""
        if benchmark not in self._checkouts:
            if benchmark not in self._layouts:
                raise UsageError(
                    f"benchmark {benchmark!r}: no adapter; "
                    f"allowed: {', '.join(sorted(self._layouts))}"
                )
            self._checkouts[benchmark] = Checkout(self._directory, self._layouts[benchmark])
        return self._checkouts[benchmark]

    def read(self, request: ReadingRequest) -> Reading:
        """See `Instrument`. One reading at a time; others wait."""
        pins = _pins(request)
        checkout = self.checkout(pins.name)
        layout = checkout.layout
        classes = self._classes(request)
        facts: dict[str, Any] = {
            "commit": pins.commit,
            "classes": classes,
            "key": layout.success,  # whoever judges the kept object again must know it
            "baseline": "captured" if request.captured else "not captured",
        }
        try:
            answer, ready = self._ask("read", request)
        except WorkerLostError as error:
            return reading_lost(request, str(error), instrument=self.name, facts=facts)
        facts |= {**ready["versions"], "walls": ready["walls"]}
        reading = reading_of(
            request, answer, instrument=self.name, facts=facts, key=layout.success, notes=True
        )
        return replace(reading, facts=self._checked(reading.facts, pins))

    def capture(self, request: ReadingRequest) -> Mapping[str, Any]:
        """What the oracle's `capture_baseline()` changed in it; empty where it has none.

        Called in the healthy state; `ReadingRequest.captured` of every later reading.
        Raises what `read` raises.
        """
        captured: Mapping[str, Any] = self._done("capture", request)["captured"]
        return captured

    def diagnose(self, request: ReadingRequest) -> Mapping[str, Any]:
        """What a direct call of the oracle's `diagnostic` method gives, as JSON-ready facts.

        Raises what `read` raises; the caller must not let it touch a verdict.
        """
        told: Mapping[str, Any] = self._done("diagnose", request)["diagnostic"]
        return told

    def operate(self, action: str, request: ReadingRequest, fault: str) -> Mapping[str, Any]:
        """Let the benchmark's own injector `inject` or `recover`.

        What the injector keeps in directories that the layout calls `private` is kept from one
        action to the next, and from every other process; where the machine does not let us, from
        the injection to the recovery no other process of ours injects.

        Returns:
            `returned`, `elapsed`, `stdout`, `stderr`, and how it was kept `apart`.
        Raises:
            HarnessError: It failed, or overran `request.timeout`; how far it came is unknown.
        """
        layout = self.checkout(_pins(request).name).layout
        absent = [name for name in layout.needs if shutil.which(name) is None]
        if absent:
            raise HarnessError(f"the injector of {layout.name} needs {', '.join(absent)} on PATH")
        own = ""
        if layout.private and self._may_be_private(_pins(request)):
            folder = self._scratch / "private"
            folder.mkdir(mode=0o700, exist_ok=True)
            own = str(folder)
        elif layout.private:
            self._turn = self._turn or Turn(layout.name)
            self._turn.take()
        answer = self._done(action, request, fault=fault, private=own)
        if action == "recover" and self._turn is not None:
            self._turn.give()
        return {
            **answer["done"],
            "stdout": answer["stdout"],
            "stderr": answer["stderr"],
            "apart": "mount namespace" if own else "turn" if layout.private else "nothing to keep",
        }

    def deployer(self, benchmark: str) -> BenchmarkDeployer:
        """What deploys that benchmark's applications. Raises UsageError."""
        if benchmark not in self._deployers:
            scratch = self._scratch / f"deploying-{benchmark}"
            scratch.mkdir(mode=0o700, exist_ok=True)
            launcher = replace(self._launcher, scratch=scratch)
            self._deployers[benchmark] = BenchmarkDeployer(self.checkout(benchmark), launcher)
        return self._deployers[benchmark]

    def close(self) -> None:
        """End the worker and whatever it runs, and remove what was written for it."""
        with self._lock:
            self._stop()
        for deployer in self._deployers.values():
            deployer.close()
        if self._turn is not None:
            self._turn.give()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # -- pieces -------------------------------------------------------------------------------

    def _done(self, task: str, request: ReadingRequest, **more: Any) -> dict[str, Any]:
        answer, _ = self._ask(task, request, **more)
        of_an_oracle = task in ("capture", "diagnose")
        name = f"{'oracle' if of_an_oracle else task} {request.oracle.id}"
        return done(name, request.timeout, answer)

    def _classes(self, request: ReadingRequest) -> dict[str, str]:
        checkout = self.checkout(_pins(request).name)
        return {node.use: checkout.place(node.use) for node in request.oracle.walk() if node.use}

    def _ask(
        self, task: str, request: ReadingRequest, **more: Any
    ) -> tuple[Answer, Mapping[str, Any]]:
        pins = _pins(request)
        classes = self._classes(request)
        if task != "recover":  # what was broken is put back, whatever else is wrong
            self._refuse_other_files(pins)
        with self._lock:
            worker = self._running(pins, frozenset())
            kubeconfig = self._launcher.kubeconfig
            write_single_context(Path(request.kubeconfig), request.context, kubeconfig)
            own = replace(request, kubeconfig=str(kubeconfig))
            self._count += 1
            message = {"type": task, "request": own.to_json(), "classes": classes, **more}
            try:
                ready = worker.ready()
                answer = worker.ask(self._count, message, timeout=request.timeout)
            except BaseException:
                # As in `Isolated`: whatever stopped us, no oracle may go on by itself.
                self._stop()
                raise
        return Answer.of(answer), ready

    def _may_be_private(self, pins: BenchmarkPins) -> bool:
        """Whether the worker can enter a mount namespace of its own. Raises HarnessError."""
        with self._lock:
            return bool(self._running(pins, frozenset()).ready()["private"])

    def _running(self, pins: BenchmarkPins, modules: frozenset[str]) -> WarmWorker:
        key = (pins.name, pins.imports)
        if self._worker is not None and key == self._key[:2] and modules <= self._key[2]:
            return self._worker
        self._stop()
        layout = self.checkout(pins.name).layout
        directory = self.checkout(pins.name).directory
        launcher = replace(self._launcher, closed=(directory, *self._launcher.closed))
        self._worker = launcher.start(
            directory,
            layout,
            imports=pins.imports,
            modules=modules | _client_module(layout),
        )
        self._key = (*key, modules)
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _refuse_other_files(self, pins: BenchmarkPins) -> None:
        """The pinned files are the pinned ones. Raises GuardRefusedError, a protocol violation."""
        checkout = self.checkout(pins.name)
        for file, pinned in pins.files.items():
            self._refuse_other(file, checkout.digest(file) or "no such file", pinned)

    def _checked(self, facts: Mapping[str, Any], pins: BenchmarkPins) -> dict[str, Any]:
        """What was compiled is what was pinned; the facts with our own digests of it.

        Raises GuardRefusedError, a protocol violation.
        """
        checkout = self.checkout(pins.name)
        compiled = _texts(facts.get("compiled"))
        needed = {file for files in _lists(facts.get("sources")) for file in files}
        modules = {}
        for file, told in compiled.items():
            found = checkout.digest(file) if ".." not in Path(file).parts else ""
            if file in pins.files or file in needed:
                pinned = pins.files.get(file, "nothing")
                self._refuse_other(file, told, pinned)
                self._refuse_other(file, found, pinned)
            modules[file] = found
        rest = {name: value for name, value in facts.items() if name != "compiled"}
        return {**rest, "modules": dict(sorted(modules.items()))}

    def _refuse_other(self, file: str, found: str, pinned: str) -> None:
        if found != pinned:
            raise GuardRefusedError(
                f"{self._directory / file}: SHA-256 as loaded: found {found}; pinned: {pinned}"
            )


def _texts(value: Any) -> dict[str, str]:
    """The texts of a mapping that a grader's process has sent."""
    found = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in found if isinstance(text, str)}


def _lists(value: Any) -> list[list[str]]:
    """The lists of texts of a mapping that a grader's process has sent."""
    found = value.values() if isinstance(value, dict) else ()
    return [[one for one in item if isinstance(one, str)] for item in found if type(item) is list]


def _client_module(layout: Layout) -> frozenset[str]:
    return frozenset({layout.client.partition(":")[0]} - {""})


def _pins(request: ReadingRequest) -> BenchmarkPins:
    if request.benchmark is None:
        raise UsageError(f"oracle {request.oracle.id}: the study pins no benchmark")
    return request.benchmark
