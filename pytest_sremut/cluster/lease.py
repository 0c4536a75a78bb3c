"""One session at a time on one cluster, and none on a cluster that was left mutated.

The lock is on the cluster's identity (UID of kube-system), so two contexts that lead to the same
cluster exclude each other. It is a lock of the operating system: it ends with its holder, however
that dies; its file is removed with it, since most clusters live for one session only. The *dirty
mark* is a file and outlives everybody: it says that a cluster was not put back, and where the
evidence is from which it can be. It is a finger-post only: what is true stands in the journal.

A cluster of our own keeps its lease in its own directory, however it is reached; any other one in
a directory of the user's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.errors import UsageError
from pytest_sremut.ground.durable.atomic import reason_of

__all__ = ["DirtyMark", "Lease", "default_directory", "directory_for", "marks", "own_directories"]

_POLL: Final = 0.05
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_OURS: Final = ("clusters", "kind")  # below the state directory: a directory per cluster


def _state(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "sremut"


def default_directory(environ: Mapping[str, str]) -> Path:
    """Where leases of this user are kept, but for clusters of our own."""
    return _state(environ) / "leases"


def directory_for(kubeconfig: Path, environ: Mapping[str, str]) -> Path:
    """Where the lease of the cluster behind a kubeconfig file is kept."""
    home = kubeconfig.absolute().parent
    ours = any(home.parent == (_state(environ) / kind).absolute() for kind in _OURS)
    return home if ours else default_directory(environ)


def own_directories(environ: Mapping[str, str]) -> list[Path]:
    """The directories of clusters that we made and that outlive a session."""
    return [one for kind in _OURS for one in sorted((_state(environ) / kind).glob("*"))]


def marks(environ: Mapping[str, str]) -> dict[Path, DirtyMark]:
    """Every dirty mark of this user, by its file."""
    places = [default_directory(environ), *own_directories(environ)]
    files = [file for place in places for file in sorted(place.glob("*.dirty"))]
    return {file: mark for file in files if (mark := _read_mark(file)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyMark:
    """Who left a cluster mutated."""

    session: str
    note: str  # one sentence: which run, what was left
    facts: Mapping[str, str] = field(default_factory=dict)
    """What recovery needs: `study`, `run`, `attempt` and `evidence` (directories), `project`, and
    of the cluster `kind`, `context`, `kubeconfig`. Empty in a mark that says nothing of it."""


def _read_mark(path: Path) -> DirtyMark | None:
    """A mark, one with question marks where it cannot be read; None where there is none."""
    try:
        body = json.loads(path.read_bytes())
        facts = body.get("facts", {})
        return DirtyMark(
            session=str(body["session"]),
            note=str(body["note"]),
            facts={str(key): str(value) for key, value in facts.items()},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return DirtyMark(session="?", note="the mark cannot be read")


class Lease:
    """An exclusive lease of one cluster. A context manager; `release` may be called twice."""

    def __init__(self, *, lock: int, stem: Path, session: str) -> None:
        self._lock: int | None = lock
        self._stem = stem
        self._session = session

    @classmethod
    def acquire(
        cls,
        identity: ClusterIdentity,
        *,
        holder: str,
        directory: Path | None = None,
        timeout: float = 0.0,
        allow_dirty: bool = False,
    ) -> Lease:
        """Lease the cluster, waiting for another session at most `timeout` seconds.

        Args:
            identity: Of the cluster.
            holder: The session that we are, for the other one's message.
            directory: Where lock and mark are kept (None: `default_directory`); made if need be.
            timeout: Seconds to wait.
            allow_dirty: For whoever puts the cluster back.

        Raises:
            UsageError: Another session holds it, it was left mutated, or the directory is not
                writable.
        """
        directory = default_directory(os.environ) if directory is None else directory
        uid = identity.kube_system_uid
        name = uid if _SAFE.fullmatch(uid) else hashlib.sha256(uid.encode()).hexdigest()
        stem = directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = _lock(stem.with_suffix(".lock"), timeout)
        except OSError as error:
            raise UsageError(
                f"cannot lease a cluster in {directory}: {reason_of(error)}"
            ) from error
        if lock is None:
            raise UsageError(
                f"cluster {identity.server} is in use by {_holder(stem)}; one session at a time "
                f"(waited {timeout:g} s)"
            )
        lease = cls(lock=lock, stem=stem, session=holder)
        try:
            if not allow_dirty and (mark := lease.dirty()) is not None:
                raise UsageError(  # noqa: TRY301 - the lock is given back below
                    f"cluster {identity.server} was left mutated by session {mark.session} "
                    f"({mark.note}): `sremut recover` puts it back; the mark is "
                    f"{stem.with_suffix('.dirty')}"
                )
            told = {"session": holder, "pid": os.getpid()}
            _write(stem.with_suffix(".holder"), json.dumps(told, sort_keys=True).encode())
        except BaseException:
            lease.release()
            raise
        return lease

    def dirty(self) -> DirtyMark | None:
        """The mark that stands, one with question marks where it cannot be read."""
        return _read_mark(self.mark_file)

    @property
    def mark_file(self) -> Path:
        """Where the mark stands, or would."""
        return self._stem.with_suffix(".dirty")

    def mark_dirty(self, note: str, facts: Mapping[str, str] | None = None) -> None:
        """Durably note that the cluster is, or is about to be, mutated. Raises UsageError."""
        mark = {"session": self._session, "note": note, "facts": dict(facts or {})}
        _write(self.mark_file, json.dumps(mark, sort_keys=True).encode())

    def keep_aside(self, body: bytes) -> None:
        """Durably keep what is needed to put a cluster back and may not be evidence.

        The file is its owner's alone, and goes with the mark. Raises UsageError.
        """
        _write(self._aside, body)

    def aside(self) -> bytes:
        """What was kept aside; empty where nothing was, or it cannot be read."""
        try:
            return self._aside.read_bytes()
        except OSError:
            return b""

    @property
    def _aside(self) -> Path:
        return self._stem.with_suffix(".target")

    def mark_clean(self) -> None:
        """Durably note that the cluster is as it was. Raises UsageError: the mark may stay then."""
        try:
            self._aside.unlink(missing_ok=True)
            self.mark_file.unlink(missing_ok=True)
            _sync_directory(self._stem.parent)
        except OSError as error:
            raise UsageError(
                f"the mark {self.mark_file} cannot be taken away, although the cluster was put "
                f"back: {reason_of(error)}"
            ) from error

    def release(self) -> None:
        """Give the cluster back; a dirty mark stays."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        with contextlib.suppress(OSError):
            self._stem.with_suffix(".holder").unlink(missing_ok=True)
            self._stem.with_suffix(".lock").unlink(missing_ok=True)
        os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _lock(path: Path, timeout: float) -> int | None:
    """The locked descriptor, None when another one holds the lock for `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return None
            threading.Event().wait(_POLL)  # a lock cannot be watched with a limit
            continue
        except BaseException:
            os.close(descriptor)
            raise
        # Its last holder may have removed the file between our opening and locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116 - same call
                return descriptor
        os.close(descriptor)


def _holder(stem: Path) -> str:
    try:
        body = json.loads(stem.with_suffix(".holder").read_bytes())
        return f"session {body['session']} (process {body['pid']})"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "another session"


def _write(path: Path, data: bytes) -> None:
    """Write durably, for the owner's eyes: a crash leaves the old file or the new one, whole."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {reason_of(error)}") from error


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
