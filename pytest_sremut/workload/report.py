"""Reading a load pod's log: the rounds in it, and what each of them can be believed.

Rules:

* Nothing is a pass by absence. wrk2 leaves error lines out when they would say zero, so a hung
  server looks like a report without errors: a round without completed requests, without a summary
  or without an end has an outcome of its own, and only `RoundOutcome.may_pass` ones can pass.
* A round begins at its `Running wrk2 on round #N` line and ends at `Transfer/sec:`, both as dated
  by the kubelet. A report outside a round has no begin that could be known.
* Latency and counts are believed separately: a latency without a unit, or that is not a number,
  was not measured; it is never a NaN that somebody could compare, and it violates nothing.
* A report is held against itself and, where it is known, against the load that was asked for. One
  that fits neither is no measurement.
* Builds of wrk2 differ in what they print. Where a build prints no timeouts, they are unknown.
* Whatever bytes come in, a `ParsedLog` comes out; lines that mean nothing to us are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pytest_sremut.workload.delivery import Asked, Delivery
from pytest_sremut.workload.fits import as_asked, consistent
from pytest_sremut.workload.outcomes import (
    GRAVITY,
    ParsedLog,
    ReportForm,
    Round,
    RoundOutcome,
    SocketErrors,
)
from pytest_sremut.workload.units import parse_time

__all__ = [
    "ParsedLog",
    "ReportForm",
    "Round",
    "RoundOutcome",
    "SocketErrors",
    "parse_log",
    "parse_timestamp",
]

LONGEST = 86_400.0
"""Seconds. A round that claims to have lasted longer measured nothing."""


_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_PREFIX = re.compile(r"\[(pod/[^\]\s]{1,512})\] ")
_ROUND = re.compile(r"Running (?:wrk2|sremut-load) on round #(\d{1,9})", re.ASCII)
_HEAD = re.compile(r"Running (\S{1,32}) test @ .*")
_CONNECTIONS = re.compile(r"\d{1,9} threads and (\d{1,9}) connections", re.ASCII)
_GENERATOR = re.compile(
    r"Generator: ([^,]{1,100}), variant (\w{1,32}), .{0,200}\bseed (\d{1,16})(?:\D.*)?", re.ASCII
)
_COLUMNS = re.compile(r"Thread Stats\s+Avg\s+Stdev\s+(99%|Max)\s+\+/- Stdev")
_DELIVERY = re.compile(
    r"sremut: due (\d{1,18}), sent (\d{1,18}), answered (\d{1,18}), late (\d{1,18}), "
    r"latest (\S{1,64}), stalled (\S{1,64})",
    re.ASCII,
)
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
    form: ReportForm = ReportForm.UNKNOWN
    announced: float | None = None  # seconds, of the head
    connections: int | None = None  # of the head
    generator: str = ""
    seed: int | None = None
    delivery: Delivery | None = None
    findings: set[RoundOutcome] = field(default_factory=set)


def parse_log(raw: bytes, *, asked: Asked | None = None) -> ParsedLog:
    """The rounds in a pod's log with timestamps, or in several pods' logs with `--prefix` or not.

    Never raises for what the log contains.

    Args:
        raw: The log.
        asked: What each round was asked to be; None: the reports are held against themselves only.
    """
    reader = _Reader(asked)
    lines = raw.decode("utf-8", "replace").split("\n")
    for line in lines:
        reader.feed(line)
    return reader.result(len(lines) - (lines[-1] == ""))


class _Reader:
    def __init__(self, asked: Asked | None) -> None:
        self._asked = asked
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
        elif (match := _HEAD.fullmatch(text)) is not None:
            current = self._current(source)
            current.announced = parse_time(match[1])
        elif (opened := self._open.get(source)) is None:
            return False
        elif (match := _GENERATOR.fullmatch(text)) is not None:
            # Said before anything is driven: no line of a report yet.
            opened.generator, opened.seed = match[1], int(match[3])
            return True
        elif _END.fullmatch(text) is not None:
            opened.end, opened.ended, opened.reporting = stamp, True, True
            self._close(source, interrupted=False)
            return True
        elif _take(opened, text):
            current = opened
        else:
            return False
        current.reporting = True
        return True

    def _close(self, source: str, *, interrupted: bool) -> None:
        current = self._open.pop(source, None)
        if current is not None:
            self._done.append(
                (current.order, _judge(current, self._asked, interrupted=interrupted))
            )


def _take(opened: _Open, text: str) -> bool:
    """Takes one line of a report into its round; False if it is none."""
    for pattern, take in _TAKERS:
        match = pattern.fullmatch(text)
        if match is not None:
            take(opened, match)
            return True
    return False


def _take_failures(opened: _Open, match: re.Match[str]) -> None:
    opened.failures.append(int(match[1]))


def _take_sockets(opened: _Open, match: re.Match[str]) -> None:
    connect, read, write, timeout = map(int, match.groups())
    opened.sockets = SocketErrors(connect=connect, read=read, write=write, timeout=timeout)


def _take_latency(opened: _Open, match: re.Match[str]) -> None:
    opened.latency = _latency(match[1], opened.findings)


def _take_rate(opened: _Open, match: re.Match[str]) -> None:
    opened.rate = float(match[1]) if _NUMBER.fullmatch(match[1]) else None


def _take_columns(opened: _Open, match: re.Match[str]) -> None:
    opened.form = ReportForm.GILTENE if match[1] == "Max" else ReportForm.DSB


def _take_connections(opened: _Open, match: re.Match[str]) -> None:
    opened.connections = int(match[1])


def _take_delivery(opened: _Open, match: re.Match[str]) -> None:
    latest, stalled = parse_time(match[5]), parse_time(match[6])
    if latest is None or stalled is None:
        return
    due, sent, answered, late = (int(match[place]) for place in range(1, 5))
    opened.delivery = Delivery(
        due=due, sent=sent, answered=answered, late=late, latest=latest, stalled=stalled
    )


_TAKERS: Final[tuple[tuple[re.Pattern[str], Callable[[_Open, re.Match[str]], None]], ...]] = (
    (_FAILURES, _take_failures),
    (_SOCKETS, _take_sockets),
    (_LATENCY, _take_latency),
    (_RATE, _take_rate),
    (_COLUMNS, _take_columns),
    (_CONNECTIONS, _take_connections),
    (_DELIVERY, _take_delivery),
)


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


_STOPPED = frozenset(
    {RoundOutcome.ENDPOINT_REFUSED, RoundOutcome.ENDPOINT_UNREACHABLE, RoundOutcome.DNS_FAILED}
)


def _judge(current: _Open, asked: Asked | None, *, interrupted: bool) -> Round:
    findings = set(current.findings)
    requests, duration, received = 0, None, None
    if current.summaries:
        requests, took, size = current.summaries[-1]
        duration, received = parse_time(took), _received(size)
    if not current.ended:
        torn = current.reporting or not interrupted
        findings.add(RoundOutcome.TORN if torn else RoundOutcome.HARNESS_FAILED)
    elif not findings & _STOPPED:
        findings |= _of_counts(current, requests, duration)
        if asked is not None and duration is not None and not _fits(current, asked, duration):
            findings.add(RoundOutcome.NOT_AS_ASKED)
    sockets = current.sockets
    if sockets is not None and sockets.timeout:
        findings.add(RoundOutcome.TIMEOUTS)
    if sockets is not None and sockets.total > sockets.timeout:
        findings.add(RoundOutcome.SOCKET_ERRORS)
    ordered = tuple(sorted(findings, key=GRAVITY.__getitem__))
    return Round(
        number=current.number,
        source=current.source,
        begin=current.begin,
        end=current.end,
        requests=requests,
        failures=max(current.failures, default=0),
        socket_errors=sockets,
        duration=duration,
        received=received,
        rate=current.rate,
        latency=current.latency,
        outcome=ordered[0] if ordered else RoundOutcome.OK,
        findings=ordered,
        form=current.form,
        generator=current.generator,
        seed=current.seed,
        delivery=current.delivery,
    )


def _of_counts(current: _Open, requests: int, duration: float | None) -> set[RoundOutcome]:
    """What is wrong with the counts of a report that is whole, held against themselves."""
    findings = set()
    if not current.summaries:
        findings.add(RoundOutcome.MISSING_SUMMARY)
    else:
        if not _possible(duration, current.begin, current.end):
            findings.add(RoundOutcome.IMPOSSIBLE_DURATION)
        if requests == 0:
            findings.add(RoundOutcome.NO_COMPLETED_REQUESTS)
        told = current.delivery
        odd = told is not None and (told.answered != requests or told.sent < requests)
        if odd or not consistent(requests, current.summaries[-1][1], current.rate):
            findings.add(RoundOutcome.CONTRADICTS_ITSELF)
    failures = max(current.failures, default=0)
    if len(current.summaries) > 1 or len(current.failures) > 1 or failures > requests:
        findings.add(RoundOutcome.INCONSISTENT_COUNTS)
    return findings


def _fits(current: _Open, asked: Asked, duration: float) -> bool:
    return as_asked(
        asked,
        requests=current.summaries[-1][0],
        duration=duration,
        announced=current.announced,
        connections=current.connections,
        embedded=current.delivery is not None,
        drain=asked.drain,
    )
