"""A pod's log, followed to its end over as many connections as that takes, every line once.

A connection ends for reasons that have nothing to do with the pod: the API server closes idle
streams, a kubelet restarts, a log is rotated. Each further one asks from the second of the last
line on (finer the API cannot be asked), so lines come again. A line is known by its text with the
kubelet's timestamp in nanoseconds, and counted: what one connection brought n times is kept n
times. If the last known line does not come again, history was cut between it and what came; that
is told as a gap, never passed over.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_sremut.cluster.port import Failed, KubeApi, ObjectRef, Present
from pytest_sremut.errors import ClusterError, ClusterUnavailableError

__all__ = ["LogAssembly", "LogRead", "read_log"]

_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d) ")
_LONGEST_LINE: Final = 1 << 20
_NOISE: Final = 10  # lines that were none of the log, as many as are kept
_STRETCH: Final = 60.0  # seconds of one connection: a dead peer is noticed after that
_OUTAGE: Final = 10.0  # seconds without contact that end the reading
_BACK_OFF: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """What was read: whole lines with their timestamps, in order, each once."""

    data: bytes
    connections: int
    repeated: int  # lines that came again and were left out
    gaps: tuple[str, ...]  # where history was cut, a phrase each
    noise: tuple[str, ...]  # what came without a timestamp: the kubelet's own complaints


class LogAssembly:
    """Puts a log together from connections that overlap. Pure: it is fed.

    Args:
        on_line: Told the timestamp of each line that is new, as it comes.
    """

    def __init__(self, on_line: Callable[[str], None] = lambda _stamp: None) -> None:
        self._on_line = on_line
        self._lines: list[bytes] = []
        self._known: Counter[bytes] = Counter()
        self._here: Counter[bytes] = Counter()  # of this connection
        self._rest = b""
        self._expected = b""  # the last known line, until it has come again
        self._connections = 0
        self._repeated = 0
        self._gaps: list[str] = []
        self._noise: list[str] = []

    def connect(self) -> str:
        """A connection begins; from when on it must bring lines, "" for all (RFC 3339)."""
        self._connections += 1
        self._here.clear()
        self._rest = b""
        self._expected = self._lines[-1] if self._lines else b""
        stamp = _STAMP.match(self._expected)
        return "" if stamp is None else (stamp[1] + stamp[2]).decode()

    def feed(self, chunk: bytes) -> bool:
        """Bytes came. False: what comes is no log, and the connection is of no use."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return all(self._line(line) for line in lines) and len(self._rest) <= _LONGEST_LINE

    def whole(self) -> None:
        """The connection has ended where the log ends: what it left without a newline counts."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    @property
    def data(self) -> bytes:
        """Every line so far."""
        return b"".join(line + b"\n" for line in self._lines)

    def result(self) -> LogRead:
        """All of it."""
        return LogRead(
            data=self.data,
            connections=self._connections,
            repeated=self._repeated,
            gaps=tuple(self._gaps),
            noise=tuple(self._noise),
        )

    def _line(self, line: bytes) -> bool:
        stamp = _STAMP.match(line)
        if stamp is None:
            if line and len(self._noise) < _NOISE:
                self._noise.append(line[:200].decode("utf-8", "replace"))
            return not line
        self._here[line] += 1
        if self._here[line] <= self._known[line]:
            self._repeated += 1
            if line == self._expected:
                self._expected = b""
            return True
        if self._expected:
            before, after = self._expected.split(b" ")[0], line.split(b" ")[0]
            self._gaps.append(f"between {before.decode()} and {after.decode()}")
            self._expected = b""
        self._known[line] += 1
        self._lines.append(line)
        self._on_line(line.split(b" ")[0].decode())
        return True


def read_log(
    api: KubeApi,
    pod: ObjectRef,
    *,
    enough: Callable[[bytes], bool],
    timeout: float,
    on_line: Callable[[str], None] = lambda _stamp: None,
    outage: float = _OUTAGE,
) -> LogRead:
    """Follow a pod's log until it holds enough, the pod has ended, or the time is over.

    Args:
        api: The cluster.
        pod: Whose log.
        enough: Asked with all lines so far whenever a connection has ended.
        timeout: Seconds.
        on_line: Told the timestamp of each new line as it comes.
        outage: Seconds without contact after which the cluster counts as gone.
    Raises:
        ClusterUnavailableError: The API was away for `outage` seconds.
        ClusterError: The server refused; the pod is gone.
    """
    log = LogAssembly(on_line)
    contact = time.monotonic()
    deadline = contact + timeout
    failures = 0
    ended, trouble = False, ""  # it was running when its log was asked for
    while True:
        known = len(log.data)
        left = max(deadline - time.monotonic(), 1.0)
        try:
            _once(api, pod, log, follow=not ended, timeout=min(left, _STRETCH))
            read = True
        except ClusterUnavailableError as error:
            read, trouble = False, str(error)
        now = time.monotonic()
        if read or len(log.data) > known:
            contact = now
        if enough(log.data) or (ended and read) or now >= deadline:
            return log.result()
        if now - contact >= outage:
            raise ClusterUnavailableError(f"following the log of {pod}: {trouble}")
        failures = 0 if len(log.data) > known else min(failures + 1, len(_BACK_OFF) - 1)
        threading.Event().wait(_BACK_OFF[failures])
        ended, trouble = _ended(api, pod)
        if not trouble:
            contact = time.monotonic()


def _ended(api: KubeApi, pod: ObjectRef) -> tuple[bool, str]:
    """Whether the pod will write no more, and why that cannot be told."""
    found = api.get(pod)
    if isinstance(found, Failed):
        return False, found.message
    if not isinstance(found, Present):
        raise ClusterError(f"{pod} is gone, and its log with it", status=404, reason="NotFound")
    return (found.body.get("status") or {}).get("phase") in {"Succeeded", "Failed"}, ""


def _once(api: KubeApi, pod: ObjectRef, log: LogAssembly, *, follow: bool, timeout: float) -> None:
    """One connection. What it brought stays, however it ends. Raises ClusterUnavailableError."""
    since = log.connect()
    pieces = api.logs(pod.namespace, pod.name, follow=follow, since=since, timeout=timeout)
    for piece in pieces:
        if not log.feed(piece):
            raise ClusterUnavailableError("what came is no log", reason="Malformed")
    if not follow:
        log.whole()
