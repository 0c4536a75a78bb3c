"""One session at a time on one cluster, and none on a cluster that was left mutated.

The lock is on the cluster's identity (UID of kube-system), so two contexts that lead to the same
cluster exclude each other. It is a lock of the operating system: it ends with its holder, however
that dies; its file is removed with it, since most clusters live for one session only. The *dirty
mark* is a file and outlives everybody: it says that a cluster was not put back.
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
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.errors import UsageError

__all__ = ["DirtyMark", "Lease", "default_directory"]

_POLL: Final = 0.05
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


def default_directory(environ: Mapping[str, str]) -> Path:
    """Where leases of this user are kept."""
    state = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "sremut" / "leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyMark:
    """Who left a cluster mutated."""

    session: str
    note: str  # one sentence: which run, what was left


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
            raise UsageError(f"cannot lease a cluster in {directory}: {error}") from error
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
                    f"({mark.note}): put it back by that journal's open intents and the captured "
                    f"target beside it, or take the cluster down; then remove "
                    f"{stem.with_suffix('.dirty')}"
                )
            _write(stem.with_suffix(".holder"), {"session": holder, "pid": os.getpid()})
        except BaseException:
            lease.release()
            raise
        return lease

    def dirty(self) -> DirtyMark | None:
        """The mark that stands, one with question marks where it cannot be read."""
        try:
            body = json.loads(self._stem.with_suffix(".dirty").read_bytes())
            return DirtyMark(session=str(body["session"]), note=str(body["note"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return DirtyMark(session="?", note="the mark cannot be read")

    def mark_dirty(self, note: str) -> None:
        """Durably note that the cluster is, or is about to be, mutated. Raises UsageError."""
        mark = {"session": self._session, "note": note}
        _write(self._stem.with_suffix(".dirty"), mark)

    def mark_clean(self) -> None:
        """Durably note that the cluster is as it was."""
        self._stem.with_suffix(".dirty").unlink(missing_ok=True)
        _sync_directory(self._stem.parent)

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


def _write(path: Path, body: Mapping[str, Any]) -> None:
    """Write durably: a crash leaves the old file or the new one, whole."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(body, sort_keys=True).encode())
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
