"""An `EngineWorld` whose process can be killed at any step and recovered by another one.

    world = KilledWorld(tmp_path)
    world.kill("MS-M02", Step("api", 12, "after"))      # nothing of the process acts any more
    world.recoverer().recover(*world.pending())

A kill is an exception that whatever is called next raises again: no clean-up of the dying process
reaches the disk or the cluster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from engine_world import ROOT, EngineWorld

from pytest_sremut.engine.recovery import Pending, Recoverer, pending_attempts
from pytest_sremut.engine.run import Driver
from pytest_sremut.evidence import journal, stream
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.durable import atomic
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import State

__all__ = ["KilledError", "KilledWorld", "Step"]


class KilledError(BaseException):
    """The process is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a process is killed: at its n-th durable append, or its n-th write to the API."""

    what: Literal["journal", "api", "evidence"]
    number: int  # from 1
    when: Literal["before", "after", "half"]  # half: of a journal's line


class _Switch:
    """Counts what the main thread does, and once it struck stops everything."""

    def __init__(self, step: Step | None) -> None:
        self.step = step
        self.counts = {"journal": 0, "api": 0, "evidence": 0}
        self.dead = False

    def alive(self) -> None:
        # The sampler's thread is ended in an orderly way: it writes nothing that matters.
        if self.dead and threading.current_thread() is threading.main_thread():
            raise KilledError

    def passes(self, what: str, do: Callable[[], Any], half: Callable[[], Any]) -> Any:
        self.alive()
        if threading.current_thread() is not threading.main_thread():
            return do()
        self.counts[what] += 1
        step = self.step
        strikes = step is not None and step.what == what and step.number == self.counts[what]
        if not strikes or step is None:
            return do()
        if step.when == "after":
            do()
        elif step.when == "half":
            half()
        self.dead = True
        raise KilledError


class _Mortal:
    """The API as the process that is killed has it."""

    def __init__(self, kube: Any, switch: _Switch) -> None:
        self._kube = kube
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kube, name)
        if name in {"create", "delete", "replace"}:
            return lambda *a, **k: self._switch.passes(
                "api", lambda: call(*a, **k), lambda: call(*a, **k)
            )

        def read(*arguments: Any, **named: Any) -> Any:
            self._switch.alive()
            return call(*arguments, **named)

        return read


class KilledWorld(EngineWorld):
    """See the module."""

    def __init__(self, directory: Path, *, project: Path = ROOT) -> None:
        self._mortal: _Mortal | None = None
        super().__init__(directory)
        self.project = project
        self.prepare: Callable[[Driver], None] = lambda driver: None

    @property
    def api(self) -> Any:
        return self._mortal or self.kube

    def run(self, mutant: str, study: Study, step: Step | None = None) -> _Switch:
        """A whole run, or one until it is killed."""
        switch = self._switch = _Switch(step)
        self._mortal = _Mortal(self.kube, switch)
        for instrument in self.instruments:
            instrument._kube = self._mortal  # type: ignore[assignment]
        with _mortal_disk(switch), contextlib.suppress(KilledError):
            driver = self.driver(mutant, study=study)
            self.prepare(driver)
            driver.state(State.RESTORED)
        self._mortal = None
        for instrument in self.instruments:
            instrument._kube = self.kube
        self.stop()
        return switch

    def die(self) -> NoReturn:
        """Kill the process now."""
        self._switch.dead = True
        raise KilledError

    def pending(self) -> list[Pending]:
        """What is to be recovered here."""
        return list(pending_attempts([self.directory], self.uid, project=self.project))

    def recoverer(self, **changes: Any) -> Recoverer:
        """Whoever puts it back."""
        made = Recoverer(
            cluster=self,
            identity=self.identity(),
            allowed_contexts=frozenset({self.context}),
            session="rescuer",
            clock=self.clock,
            aside=self.aside,
        )
        return dataclasses.replace(made, **changes)

    def recover(self) -> list[Any]:
        return [self.recoverer().recover(pending) for pending in self.pending()]

    def recover_until_killed(self, step: Step | None) -> _Switch:
        """A recovery that is itself killed, or counted."""
        switch = _Switch(step)
        self._mortal = _Mortal(self.kube, switch)
        with _mortal_disk(switch), contextlib.suppress(KilledError):
            self.recover()
        self._mortal = None
        return switch

    def entries(self) -> Any:
        return EvidenceRoot.existing(self.directory).attempts()


@contextlib.contextmanager
def _mortal_disk(switch: _Switch) -> Iterator[None]:
    write = atomic.write_all

    def entry(descriptor: int, data: bytes) -> None:
        switch.passes(
            "journal",
            lambda: write(descriptor, data),
            lambda: write(descriptor, data[: len(data) // 2]),
        )

    def file(descriptor: int, data: bytes) -> None:
        switch.passes("evidence", lambda: write(descriptor, data), lambda: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "write_all", entry)
        patch.setattr(atomic, "write_all", file)
        patch.setattr(stream, "write_all", file)
        yield
