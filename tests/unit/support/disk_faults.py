"""A disk that refuses, at the n-th of the calls by which files of a whole run come to be.

    run = DiskRun(tmp_path, monkeypatch)
    run.disk.plan("fsync", 17, errno.EIO, lasting=False)
    run.go()
    assert run.problems(expected, lasting=False) == []

Failed are the creation of a file, its writes, its fsync, its name: of evidence and of the lease.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from api_faults import FaultedWorld, run_to_its_end
from engine_world import small_application

from pytest_sremut.cluster.lease import Lease
from pytest_sremut.engine.steps import deploy
from pytest_sremut.errors import SremutError
from pytest_sremut.evidence.journal import JournalStatus, read_journal
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.durable.atomic import TEMPORARY
from pytest_sremut.study.verdict import Outcome, State

__all__ = ["CALLS", "ERRORS", "Disk", "DiskRun"]

CALLS: Final = ("open", "write", "fsync", "link")
ERRORS: Final = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)


class Disk:
    """Counts this thread's calls that change a directory, and fails the n-th, or all from there."""

    def __init__(self, patch: pytest.MonkeyPatch, below: Path) -> None:
        self.counts = dict.fromkeys(CALLS, 0)
        self.struck: list[str] = []
        self._plan: tuple[str, int, int, bool] | None = None
        self._below = str(below)
        self._thread = threading.get_ident()
        self._ours: set[int] = set()
        for name in CALLS:
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def plan(self, name: str, at: int, code: int, *, lasting: bool) -> None:
        self._plan = (name, at, code, lasting)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread and self._concerns(name, args):
                self.counts[name] += 1
                self._strike(name, str(args[0]))
            result = real(*args, **kwargs)
            if name == "open" and str(args[0]).startswith(self._below):
                self._ours.add(result)
            return result

        return call

    def _concerns(self, name: str, args: tuple[Any, ...]) -> bool:
        if name in {"write", "fsync"}:
            return args[0] in self._ours and _is_below(args[0], self._below)
        creates = name == "link" or bool(args[1] & os.O_CREAT)
        return creates and str(args[0]).startswith(self._below)

    def _strike(self, name: str, what: str) -> None:
        if self._plan is None:
            return
        named, at, code, lasting = self._plan
        if self.struck and lasting:
            raise OSError(code, os.strerror(code), what)
        if name == named and self.counts[name] == at:
            self.struck.append(what)
            raise OSError(code, os.strerror(code), what)


def _is_below(descriptor: int, below: str) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(below)
    except OSError:
        return False


class Marks(list[str]):
    """Notes of a driver, kept in a real lease."""

    def __init__(self, lease: Lease) -> None:
        super().__init__()
        self._lease = lease

    def append(self, note: str) -> None:
        super().append(note)
        if note:
            self._lease.mark_dirty(note)
        else:
            self._lease.mark_clean()


class DiskRun:
    """A whole run on a disk that may refuse."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(deploy, "manifests_of", small_application)
        self.world = FaultedWorld(directory / "evidence")
        self.lease = Lease.acquire(
            self.world.identity(), holder="test", directory=directory / "leases"
        )
        self.world.marks = Marks(self.lease)
        self.disk = Disk(patch, directory)
        self.driver: Any = None
        self.error: SremutError | None = None
        self.seen: dict[State, dict[str, str]] = {}

    def go(self) -> None:
        try:
            self.driver = self.world.small_driver("MS-M02")
        except SremutError as error:
            self.error = error
            return
        self.seen, self.error = run_to_its_end(self.driver)
        self.world.stop()

    def problems(self, expected: Mapping[State, Mapping[str, str]], *, lasting: bool) -> list[str]:
        found = [f"{state}: {told}" for state, told in self.seen.items() if told != expected[state]]
        found += self._half_written()
        if self.error is None:
            found.append("nobody was told")
        elif not any(name in str(self.error) for name in map(errno.errorcode.get, ERRORS)):
            found.append(f"no reason: {self.error}")
        if self.driver is None:  # nothing was touched that could not be recorded
            return found + [f"left: {key}" for key in self.world.left]
        outcome = self.driver.outcome
        marked = self.lease.dirty() is not None
        if outcome is Outcome.COMPLETE and "the mark" in str(self.error):
            return found  # all was done and recorded; only the mark may stay
        if lasting and outcome is Outcome.RESTORATION_FAILURE:
            found += [] if marked else ["not restored and not marked"]
        elif outcome is not Outcome.DRIVER_ABORTED:
            found.append(f"its outcome is {outcome}: {self.error}")
        if self.world.left and not (marked and self.driver.dirty):
            found.append(f"left unmarked: {self.world.left}, {self.driver.dirty!r}")
        if not lasting and self.world.left:
            found.append(f"not put back: {self.world.left}, {self.error}")
        (entry,) = EvidenceRoot.existing(self.world.directory).attempts()
        if entry.outcome not in {None, outcome} or entry.problem:
            found.append(f"the ledger says {entry.outcome}, {entry.problem}")
        return found

    def _half_written(self) -> list[str]:
        found = []
        for path in self.world.directory.rglob("*"):
            if path.is_dir() or path.name == f"{TEMPORARY}lock":
                continue
            if path.name.startswith(TEMPORARY):
                found.append(f"left: {path}")
            elif path.name == "journal.jsonl":
                if read_journal(path).status is not JournalStatus.INTACT:
                    found.append(f"{path}: {read_journal(path).problem}")
            elif path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".jsonl":
                [json.loads(line) for line in path.read_bytes().splitlines()]
        return found
