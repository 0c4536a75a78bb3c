"""Reading a load pod's log: the rounds in it, and what each of them can be believed.

Rules:

* Nothing is a pass by absence. wrk2 leaves error lines out when they would say zero, so a hung
  server looks like a report without errors: a round without completed requests, without a summary
  or without an end has an outcome of its own, and only `RoundOutcome.may_pass` ones can pass.
* A round begins at its `Running wrk2 on round #N` line and ends at `Transfer/sec:`, both as dated
  by the kubelet. A report outside a round has no begin that could be known.
* Latency and counts are believed separately: a latency without a unit, or that is not a number,
  is missing; it is never a NaN that somebody could compare.
* Whatever bytes come in, a `ParsedLog` comes out; lines that mean nothing to us are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pytest_sremut.workload.units import parse_time

__all__ = ["ParsedLog", "Round", "RoundOutcome", "SocketErrors", "parse_log", "parse_timestamp"]

LONGEST = 86_400.0
"""Seconds. A round that claims to have lasted longer measured nothing."""


class RoundOutcome(StrEnum):
    """What reading one round came to, gravest first."""

    TORN = "TORN"  # the log ends, or the next round begins, inside it
    HARNESS_FAILED = "HARNESS_FAILED"  # the load tool said nothing that belongs to a report
    ENDPOINT_REFUSED = "ENDPOINT_REFUSED"
    ENDPOINT_UNREACHABLE = "ENDPOINT_UNREACHABLE"  # timed out, no route
    DNS_FAILED = "DNS_FAILED"
    MISSING_SUMMARY = "MISSING_SUMMARY"  # ended without a readable `N requests in T, B read`
    INCONSISTENT_COUNTS = "INCONSISTENT_COUNTS"  # two summaries, or more failures than requests
    IMPOSSIBLE_DURATION = "IMPOSSIBLE_DURATION"
    NO_COMPLETED_REQUESTS = "NO_COMPLETED_REQUESTS"
    LATENCY_NOT_A_NUMBER = "LATENCY_NOT_A_NUMBER"
    TIMEOUTS = "TIMEOUTS"
    SOCKET_ERRORS = "SOCKET_ERRORS"  # connect, read or write errors
    LATENCY_WITHOUT_UNIT = "LATENCY_WITHOUT_UNIT"
    OK = "OK"

    @property
    def counts_usable(self) -> bool:
        """Whether the counts are a statement about the service (zero may be one)."""
        return self not in _UNUSABLE

    @property
    def may_pass(self) -> bool:
        """Whether a round of this outcome can be part of a pass, if its counts say so."""
        return self in _MAY_PASS


_UNUSABLE = frozenset(
    {
        RoundOutcome.TORN,
        RoundOutcome.HARNESS_FAILED,
        RoundOutcome.MISSING_SUMMARY,
        RoundOutcome.INCONSISTENT_COUNTS,
        RoundOutcome.IMPOSSIBLE_DURATION,
    }
)
_MAY_PASS = frozenset({RoundOutcome.OK, RoundOutcome.LATENCY_WITHOUT_UNIT})
_GRAVITY = {outcome: place for place, outcome in enumerate(RoundOutcome)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketErrors:
    """wrk2's socket errors. It counts a timeout once per connection and tick, not per request."""

    connect: int = 0
    read: int = 0
    write: int = 0
    timeout: int = 0

    @property
    def total(self) -> int:
        return self.connect + self.read + self.write + self.timeout

    def record(self) -> dict[str, int]:
        """JSON-ready."""
        return {
            "connect": self.connect,
            "read": self.read,
            "write": self.write,
            "timeout": self.timeout,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round. Counts are 0 where the report gave none: ask `outcome.counts_usable` first."""

    number: int  # as the pod numbered it; 0 for a report outside a round
    source: str  # which pod, where the log names it
    begin: datetime | None
    end: datetime | None
    requests: int  # completed, whatever their status
    failures: int  # status above 399
    socket_errors: SocketErrors | None  # None: no such line
    duration: float | None  # seconds, as reported
    received: int | None  # bytes, as precise as wrk2 prints them
    rate: float | None  # Requests/sec as reported
    latency: float | None  # mean, seconds
    outcome: RoundOutcome
    findings: tuple[RoundOutcome, ...]  # all that is wrong, gravest first; empty for OK

    @property
    def successes(self) -> int:
        return self.requests - self.failures

    def record(self) -> dict[str, Any]:
        """JSON-ready, as a state record keeps it."""
        return {
            "number": self.number,
            "begin": None if self.begin is None else _rfc3339(self.begin),
            "end": None if self.end is None else _rfc3339(self.end),
            "parse": self.outcome.value,
            "requests": self.requests,
            "failures": self.failures,
            "duration": self.duration,
            "socket_errors": None if self.socket_errors is None else self.socket_errors.record(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLog:
    """The rounds in the order in which they began; `ignored` lines meant nothing to us."""

    rounds: tuple[Round, ...]
    lines: int
    ignored: int


_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_PREFIX = re.compile(r"\[(pod/[^\]\s]{1,512})\] ")
_ROUND = re.compile(r"Running wrk2 on round #(\d{1,9})", re.ASCII)
_HEAD = re.compile(r"Running \S{1,32} test @ .*")
_SUMMARY = re.compile(r"(\d{1,18}) requests in (\S{1,64}), (\S{1,64}) read", re.ASCII)
_FAILURES = re.compile(r"Non-2xx or 3xx responses: (\d{1,18})", re.ASCII)
_SOCKETS = re.compile(
    r"Socket errors: connect (\d{1,18}), read (\d{1,18}), write (\d{1,18}), timeout (\d{1,18})",
    re.ASCII,
)
_RATE = re.compile(r"Requests/sec:\s+(\S{1,64})")
_END = re.compile(r"Transfer/sec:\s+\S{1,64}")
_LATENCY = re.compile(r"Latency\s+(\S{1,64})\s+(\S{1,64})\s+(\S{1,64})\s+(\S{1,64})")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?", re.ASCII)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)B", re.ASCII)
_UNRESOLVED = (
    "unable to resolve",
    "Name or service not known",
    "nodename nor servname",
    "Temporary failure in name resolution",
    "Name does not resolve",
)


def parse_timestamp(text: str) -> datetime | None:
    """An RFC 3339 timestamp in UTC, cut (never rounded up) to microseconds; None if it is none."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    zone = "+00:00" if match[3] == "Z" else match[3]
    micros = (match[2] or "").ljust(6, "0")[:6]
    try:
        return datetime.fromisoformat(f"{match[1]}.{micros}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True, kw_only=True)
class _Open:
    """A round that is being read."""

    number: int
    source: str
    order: int
    begin: datetime | None
    end: datetime | None = None
    ended: bool = False
    reporting: bool = False  # some line of a report has been seen
    summaries: list[tuple[int, str, str]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    sockets: SocketErrors | None = None
    rate: float | None = None
    latency: float | None = None
    findings: set[RoundOutcome] = field(default_factory=set)


def parse_log(raw: bytes) -> ParsedLog:
    """The rounds in a pod's log with timestamps, or in several pods' logs with `--prefix` or not.

    Never raises for what stands in the log.
    """
    reader = _Reader()
    lines = raw.decode("utf-8", "replace").split("\n")
    for line in lines:
        reader.feed(line)
    return reader.result(len(lines) - (lines[-1] == ""))


class _Reader:
    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._done: list[tuple[int, Round]] = []
        self._begun = 0
        self._ignored = 0

    def feed(self, line: str) -> None:
        if not line:
            return
        source, stamp, text = _parts(line)
        text = text.strip()
        match = _ROUND.fullmatch(text)
        if match is not None:
            self._close(source, interrupted=True)
            self._begin(int(match[1]), source, stamp)
        elif not self._report_line(source, stamp, text):
            self._ignored += 1

    def result(self, lines: int) -> ParsedLog:
        for source in tuple(self._open):
            self._close(source, interrupted=False)
        rounds = tuple(item for _, item in sorted(self._done, key=lambda pair: pair[0]))
        return ParsedLog(rounds=rounds, lines=lines, ignored=self._ignored)

    def _begin(self, number: int, source: str, stamp: datetime | None) -> _Open:
        self._begun += 1
        opened = _Open(number=number, source=source, order=self._begun, begin=stamp)
        self._open[source] = opened
        return opened

    def _current(self, source: str) -> _Open:
        """The open round of that source; a report without one opens a round without a begin."""
        return self._open.get(source) or self._begin(0, source, None)

    def _report_line(self, source: str, stamp: datetime | None, text: str) -> bool:
        """Takes one line of a report in; False if it is none."""
        unusable = _endpoint_finding(text)
        if unusable is not None:
            current = self._current(source)
            if current.reporting and current.summaries:
                return False
            current.findings.add(unusable)
            current.end = stamp
            current.ended = True
            self._close(source, interrupted=False)
            return True
        if (match := _SUMMARY.fullmatch(text)) is not None:
            current = self._current(source)
            current.summaries.append((int(match[1]), match[2], match[3]))
        elif _HEAD.fullmatch(text) is not None:
            current = self._current(source)
        elif (opened := self._open.get(source)) is None:
            return False
        elif _END.fullmatch(text) is not None:
            current = opened
            current.end, current.ended, current.reporting = stamp, True, True
            self._close(source, interrupted=False)
            return True
        elif _detail(opened, text):
            current = opened
        else:
            return False
        current.reporting = True
        return True

    def _close(self, source: str, *, interrupted: bool) -> None:
        current = self._open.pop(source, None)
        if current is not None:
            self._done.append((current.order, _judge(current, interrupted=interrupted)))


def _detail(current: _Open, text: str) -> bool:
    """Takes in a line that only a report has that has begun; False if it is none."""
    if (match := _FAILURES.fullmatch(text)) is not None:
        current.failures.append(int(match[1]))
    elif (match := _SOCKETS.fullmatch(text)) is not None:
        connect, read, write, timeout = map(int, match.groups())
        current.sockets = SocketErrors(connect=connect, read=read, write=write, timeout=timeout)
    elif (match := _LATENCY.fullmatch(text)) is not None:
        current.latency = _latency(match[1], current.findings)
    elif (match := _RATE.fullmatch(text)) is not None:
        current.rate = float(match[1]) if _NUMBER.fullmatch(match[1]) else None
    else:
        return False
    return True


def _parts(line: str) -> tuple[str, datetime | None, str]:
    """Source, timestamp and text of a log line; the first two only where they stand there."""
    source = ""
    prefix = _PREFIX.match(line)
    if prefix is not None:
        source, line = prefix[1], line[prefix.end() :]
    first, _, rest = line.partition(" ")
    stamp = parse_timestamp(first.rstrip("\r"))
    return (source, None, line) if stamp is None else (source, stamp, rest)


def _endpoint_finding(text: str) -> RoundOutcome | None:
    """What wrk2's one line on stderr says about an endpoint that cannot be used."""
    if any(words in text for words in _UNRESOLVED):
        return RoundOutcome.DNS_FAILED
    if text.startswith("unable to connect to "):
        refused = "refused" in text
        return RoundOutcome.ENDPOINT_REFUSED if refused else RoundOutcome.ENDPOINT_UNREACHABLE
    return None


def _latency(text: str, findings: set[RoundOutcome]) -> float | None:
    """Seconds; None, and a finding, for a latency that says nothing."""
    value = parse_time(text)
    if value is None:
        without_unit = _NUMBER.fullmatch(text) is not None
        findings.add(
            RoundOutcome.LATENCY_WITHOUT_UNIT if without_unit else RoundOutcome.LATENCY_NOT_A_NUMBER
        )
    return value


def _received(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** " KMGTP".index(match[2] or " "))


def _possible(duration: float | None, begin: datetime | None, end: datetime | None) -> bool:
    """Whether a round can have lasted so long: above zero, and not longer than the log saw it."""
    if duration is None or not 0 < duration <= LONGEST:
        return False
    if begin is None or end is None:
        return True
    seen = (end - begin).total_seconds()
    return duration <= seen * 1.1 + 1.0


def _judge(current: _Open, *, interrupted: bool) -> Round:
    findings = set(current.findings)
    requests, failures, duration, received = 0, max(current.failures, default=0), None, None
    stopped = findings & {
        RoundOutcome.ENDPOINT_REFUSED,
        RoundOutcome.ENDPOINT_UNREACHABLE,
        RoundOutcome.DNS_FAILED,
    }
    if current.summaries:
        requests, took, size = current.summaries[-1]
        duration, received = parse_time(took), _received(size)
    if not current.ended:
        torn = current.reporting or not interrupted
        findings.add(RoundOutcome.TORN if torn else RoundOutcome.HARNESS_FAILED)
    elif not stopped:
        if not current.summaries:
            findings.add(RoundOutcome.MISSING_SUMMARY)
        else:
            if not _possible(duration, current.begin, current.end):
                findings.add(RoundOutcome.IMPOSSIBLE_DURATION)
            if requests == 0:
                findings.add(RoundOutcome.NO_COMPLETED_REQUESTS)
        if len(current.summaries) > 1 or len(current.failures) > 1 or failures > requests:
            findings.add(RoundOutcome.INCONSISTENT_COUNTS)
    sockets = current.sockets
    if sockets is not None and sockets.timeout:
        findings.add(RoundOutcome.TIMEOUTS)
    if sockets is not None and sockets.total > sockets.timeout:
        findings.add(RoundOutcome.SOCKET_ERRORS)
    ordered = tuple(sorted(findings, key=_GRAVITY.__getitem__))
    return Round(
        number=current.number,
        source=current.source,
        begin=current.begin,
        end=current.end,
        requests=requests,
        failures=failures,
        socket_errors=sockets,
        duration=duration,
        received=received,
        rate=current.rate,
        latency=current.latency,
        outcome=ordered[0] if ordered else RoundOutcome.OK,
        findings=ordered,
    )
