"""What we made, written down before it is made: so it is found again, whoever died meanwhile.

One directory per cluster under the user's state directory holds all that is ours of it: record,
kubeconfig, kind's configuration, kubectl's cache, the lease and its dirty mark. Its owner holds a
lock of the operating system on it for as long as it lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pytest_sremut.embedded.linux.processes import ProcessIdentity
from pytest_sremut.errors import UsageError
from pytest_sremut.evidence.identity import boot_id

__all__ = [
    "ClusterDirectory",
    "Record",
    "directories",
    "directory_of",
    "kept_clusters",
    "parse_record",
]

_SCHEMA: Final = "sremut/kind-cluster/v1"
_TEXTS: Final = (
    "name", "session", "started", "boot", "host", "created", "provider", "image", "evidence",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A cluster that we made, or were about to make."""

    name: str
    session: str
    pid: int  # of the owner, with its start time: a pid alone may be somebody else's by now
    started: str
    boot: str
    host: str
    created: str  # RFC 3339
    provider: str
    image: str
    evidence: str  # the session's evidence directory; empty: unknown
    containers: tuple[str, ...] = ()  # ids of its nodes; empty: not known to be complete
    kept: bool = False  # on purpose, so it is nobody's orphan

    @classmethod
    def of_this_process(
        cls, *, name: str, session: str, provider: str, image: str, evidence: str
    ) -> Self:
        """The record of a cluster that this process is about to make."""
        owner = ProcessIdentity.of(os.getpid())
        return cls(
            name=name,
            session=session,
            pid=owner.pid,
            started=owner.started,
            boot=boot_id(),
            host=platform.node(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            provider=provider,
            image=image,
            evidence=evidence,
        )

    def owner_alive(self) -> bool:
        """Whether its process is there. One of another machine cannot be asked, and is taken to
        be."""
        if self.boot == boot_id():
            return ProcessIdentity(pid=self.pid, started=self.started).alive()
        return self.host != platform.node()


def parse_record(data: bytes, *, what: str) -> Record:
    """The record in `data`. Raises UsageError naming `what`, the place, and what is allowed."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{what}: found no JSON; allowed: a record of schema {_SCHEMA}") from None
    if not isinstance(value, dict) or value.get("schema") != _SCHEMA:
        raise UsageError(f"{what}: schema: found another; allowed: {_SCHEMA}")
    fields: dict[str, Any] = {}
    for key in _TEXTS:
        fields[key] = _checked(value, key, isinstance(value.get(key), str), "text", what)
    pid = value.get("pid")
    right = isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < 1 << 31
    fields["pid"] = _checked(value, "pid", right, "a process id", what)
    kept = isinstance(value.get("kept"), bool)
    fields["kept"] = _checked(value, "kept", kept, "true or false", what)
    ids = value.get("containers")
    listed = isinstance(ids, list) and all(isinstance(one, str) for one in ids)
    fields["containers"] = tuple(_checked(value, "containers", listed, "a list of ids", what))
    return Record(**fields)


def _checked(value: Mapping[str, Any], key: str, right: bool, allowed: str, what: str) -> Any:
    if not right:
        raise UsageError(f"{what}: {key}: found {value.get(key)!r:.60}; allowed: {allowed}")
    return value[key]


def _base(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "sremut" / "kind"


def directory_of(name: str, environ: Mapping[str, str]) -> ClusterDirectory:
    """Where the cluster of that name has its directory, whether there is one or not."""
    return ClusterDirectory(_base(environ) / name)


def directories(environ: Mapping[str, str]) -> list[ClusterDirectory]:
    """Those of all clusters that we know of, by name."""
    return [ClusterDirectory(path.parent) for path in sorted(_base(environ).glob("*/record.json"))]


class ClusterDirectory:
    """One cluster's directory. Holding it (`hold`) says that its owner lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def kubeconfig(self) -> Path:
        """Its own kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def cache(self) -> Path:
        """kubectl's cache of it."""
        return self.path / "kubectl-cache"

    @property
    def config(self) -> Path:
        """kind's configuration of it."""
        return self.path / "config.yaml"

    def hold(self) -> bool:
        """Take its lock; False where somebody holds it. Makes the directory.

        Raises:
            UsageError: It cannot be made or locked.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be used: {error.strerror}") from error
        self._lock = descriptor
        return True

    def let_go(self) -> None:
        """Give the lock back; idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def held(self) -> bool:
        """Whether another process holds it."""
        if self._lock is not None:
            return False
        if not (self.path / "lock").exists():
            return False
        free = self.hold()
        self.let_go()
        return not free

    def record(self) -> Record:
        """What is written down. Raises UsageError."""
        file = self.path / "record.json"
        try:
            return parse_record(file.read_bytes(), what=str(file))
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror}") from error

    def write(self, record: Record) -> None:
        """Write down, durably. Raises UsageError."""
        file = self.path / "record.json"
        temporary = file.with_name(f".record-{os.getpid()}")
        body = json.dumps({"schema": _SCHEMA, **asdict(record)}, sort_keys=True, indent=1)
        try:
            with temporary.open("w", encoding="utf-8") as output:
                output.write(body + "\n")
                output.flush()
                os.fsync(output.fileno())
            temporary.replace(file)
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}") from error

    def change(self, **fields: Any) -> None:
        """Write the record down again with other fields. Raises UsageError."""
        self.write(replace(self.record(), **fields))

    def dirty(self) -> str:
        """What the lease's mark says of a cluster that was left mutated; empty if it was not."""
        for mark in self.path.glob("*.dirty"):
            try:
                body = json.loads(mark.read_bytes())
                return f"{body['note']} (session {body['session']})"
            except (OSError, ValueError, TypeError, KeyError, RecursionError):
                return "the mark cannot be read"
        return ""

    def remove(self) -> None:
        """Take it away with all that is in it: the cluster is gone."""
        self.let_go()
        shutil.rmtree(self.path, ignore_errors=True)


def kept_clusters(session: str) -> dict[str, Path]:
    """The clusters that processes of a session left on purpose: directories by name."""
    found = {}
    for directory in directories(os.environ):
        try:
            record = directory.record()
        except UsageError:
            continue  # somebody else's trouble
        if record.kept and record.session == session:
            found[record.name] = directory.path
    return found
