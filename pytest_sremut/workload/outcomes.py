"""What reading a load's log comes to: rounds, and what each of them can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from pytest_sremut.workload.delivery import Delivery

__all__ = ["GRAVITY", "ParsedLog", "ReportForm", "Round", "RoundOutcome", "SocketErrors"]


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
    CONTRADICTS_ITSELF = "CONTRADICTS_ITSELF"  # requests over time is not the rate it prints
    NOT_AS_ASKED = "NOT_AS_ASKED"  # another duration, more load, or other connections than asked
    NO_COMPLETED_REQUESTS = "NO_COMPLETED_REQUESTS"
    TIMEOUTS = "TIMEOUTS"
    SOCKET_ERRORS = "SOCKET_ERRORS"  # connect, read or write errors
    LATENCY_NOT_A_NUMBER = "LATENCY_NOT_A_NUMBER"  # not measured: wrk2 calibrated all the time
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
        RoundOutcome.CONTRADICTS_ITSELF,
        RoundOutcome.NOT_AS_ASKED,
    }
)
_MAY_PASS = frozenset(
    {RoundOutcome.OK, RoundOutcome.LATENCY_NOT_A_NUMBER, RoundOutcome.LATENCY_WITHOUT_UNIT}
)
GRAVITY: Final = {outcome: place for place, outcome in enumerate(RoundOutcome)}


class ReportForm(StrEnum):
    """Which build of wrk2 a report is of, or is modelled on; builds can say different things."""

    GILTENE = "giltene"
    DSB = "dsb"  # DeathStarBench's; it prints no timeouts
    UNKNOWN = "unknown"  # no line that tells them apart

    @property
    def tells_timeouts(self) -> bool:
        """Whether no line about timeouts means that there were none."""
        return self is ReportForm.GILTENE


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
    form: ReportForm = ReportForm.UNKNOWN
    generator: str = ""  # as the log names it; empty: it does not
    seed: int | None = None  # of the draws, where the log tells it
    delivery: Delivery | None = None  # what the embedded generator says of itself

    @property
    def timeouts_known(self) -> bool:
        """Whether the report says how many requests timed out; False is unknown, never none."""
        seen = self.socket_errors is not None and self.socket_errors.timeout > 0
        return seen or self.form.tells_timeouts

    @property
    def successes(self) -> int:
        return self.requests - self.failures

    def record(self) -> dict[str, Any]:
        """JSON-ready, as a state record keeps it."""
        return {
            "number": self.number,
            "begin": None if self.begin is None else rfc3339(self.begin),
            "end": None if self.end is None else rfc3339(self.end),
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


def rfc3339(moment: datetime) -> str:
    """A moment in UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
