"""A window of load: the rounds that count, and what they add up to.

A round counts if it began after the boundary, wholly: a round that was under way when a mutant
was applied shows both worlds. A last round that is still being written is left out; any other
round that cannot be read stays in the window and keeps it from passing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_sremut.workload.delivery import Asked, Delivery, DeliveryFacts, add_up
from pytest_sremut.workload.outcomes import Round, RoundOutcome

__all__ = [
    "Window",
    "achieved_percent",
    "delivery_facts",
    "functional",
    "retained_percent",
    "window",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Rounds wholly begun after `boundary` (None: all of them), in their order."""

    boundary: datetime | None
    at_least: int  # rounds that make it complete
    rounds: tuple[Round, ...]
    before: int  # rounds left out: begun before the boundary, or at a time not known
    unfinished: int  # rounds left out: the last of a log, still being written

    @property
    def usable(self) -> tuple[Round, ...]:
        """The rounds whose counts say something."""
        return tuple(item for item in self.rounds if item.outcome.counts_usable)

    @property
    def complete(self) -> bool:
        return len(self.usable) >= self.at_least

    @property
    def requests(self) -> int:
        return sum(item.requests for item in self.usable)

    @property
    def failures(self) -> int:
        """Completed with a status above 399."""
        return sum(item.failures for item in self.usable)

    @property
    def successes(self) -> int:
        return self.requests - self.failures

    @property
    def socket_errors(self) -> int:
        return sum(item.socket_errors.total for item in self.usable if item.socket_errors)

    @property
    def timeouts_known(self) -> bool:
        """Whether every usable round says how many requests timed out."""
        return all(item.timeouts_known for item in self.usable)

    @property
    def generator(self) -> str:
        """What drove the load, as its log names it; empty where it does not, or names several."""
        named = {item.generator for item in self.rounds}
        return named.pop() if len(named) == 1 else ""

    @property
    def delivery(self) -> Delivery | None:
        """What the generator says of its own delivery; None: not every round says it."""
        told = [item.delivery for item in self.rounds if item.delivery is not None]
        return add_up(told) if len(told) == len(self.rounds) else None

    @property
    def error_rate_percent(self) -> float | None:
        """Failures in percent of the completed requests; None without any."""
        return 100 * self.failures / self.requests if self.requests else None

    @property
    def successes_per_round(self) -> float | None:
        """None without a usable round."""
        return self.successes / len(self.usable) if self.usable else None

    def record(self) -> dict[str, Any]:
        """JSON-ready, as a state record keeps it (without the reference to the raw log)."""
        return {
            "rounds": [item.record() for item in self.rounds],
            "requests": self.requests,
            "failures": self.failures,
            "successes": self.successes,
        }


def window(rounds: Iterable[Round], *, after: datetime | None, at_least: int) -> Window:
    """The window of the rounds that began after `after` (an aware time; None takes all).

    Args:
        rounds: As `parse_log` gives them.
        after: The boundary; a round counts if it began later than this, not at it.
        at_least: How many usable rounds make the window complete.
    """
    given = tuple(rounds)
    last = {item.source: item for item in given}
    kept: list[Round] = []
    before = unfinished = 0
    for item in given:
        if after is not None and (item.begin is None or item.begin <= after):
            before += 1
        elif item.outcome is RoundOutcome.TORN and item is last[item.source]:
            unfinished += 1
        else:
            kept.append(item)
    return Window(
        boundary=after,
        at_least=at_least,
        rounds=tuple(kept),
        before=before,
        unfinished=unfinished,
    )


def retained_percent(observed: Window, healthy: Window) -> float | None:
    """Successful responses per round in percent of those of the healthy window.

    None where one of the two cannot say: no usable round, or nothing that succeeded when healthy.
    """
    seen, reference = observed.successes_per_round, healthy.successes_per_round
    if seen is None or not reference:
        return None
    return 100 * seen / reference


def achieved_percent(observed: Window, *, rate: float, duration: float) -> float | None:
    """Completed requests in percent of those that were asked for; None without a usable round.

    Args:
        observed: The window.
        rate: Requests a second over all connections.
        duration: Seconds of one round.
    """
    if not observed.usable:
        return None
    return 100 * observed.requests / (len(observed.usable) * rate * duration)


_NO_ENDPOINT = frozenset(
    {RoundOutcome.ENDPOINT_REFUSED, RoundOutcome.ENDPOINT_UNREACHABLE, RoundOutcome.DNS_FAILED}
)
_NO_MEASUREMENT = frozenset(
    {
        RoundOutcome.IMPOSSIBLE_DURATION,
        RoundOutcome.CONTRADICTS_ITSELF,
        RoundOutcome.NOT_AS_ASKED,
    }
)


def delivery_facts(observed: Window, asked: Asked) -> DeliveryFacts:
    """What `delivery.judge` needs of a window of which every round was asked to be `asked`."""
    misfits = tuple(
        f"round {item.number} {item.outcome.value} ({item.requests} requests in "
        f"{'no time' if item.duration is None else f'{item.duration:.2f} s'})"
        for item in observed.rounds
        if item.outcome in _NO_MEASUREMENT
    )
    return DeliveryFacts(
        asked=asked,
        rounds=observed.at_least,
        requests=observed.requests,
        failures=observed.failures + observed.socket_errors,
        told=observed.delivery,
        misfits=misfits,
        began=not any(item.outcome in _NO_ENDPOINT for item in observed.rounds),
    )


def functional(observed: Window, minimum_requests: int) -> tuple[bool, str]:
    """Whether the window shows a working service (MS-I4), and one sentence that says why.

    It does if it is complete, at least `minimum_requests` were completed, none of them failed,
    no socket error happened that the report can tell, and every round could be read. The build of
    wrk2 that the published study used tells no timeouts, and the contract counts statuses: so
    timeouts that are unknown fail no window, and the sentence says that they are.
    """
    counts = (
        f"{observed.requests} requests in {len(observed.usable)} rounds, "
        f"{observed.failures} non-2xx, {observed.socket_errors} socket errors"
        f"{'' if observed.timeouts_known else ' (timeouts unknown)'}"
    )
    if not observed.complete:
        return False, f"{counts}: only {len(observed.usable)} of {observed.at_least} rounds"
    if observed.requests < max(minimum_requests, 1):
        return False, f"{counts}: fewer than {max(minimum_requests, 1)} requests"
    if observed.failures:
        return False, f"{counts}: {observed.error_rate_percent:.1f} % of the requests failed"
    if observed.socket_errors:
        return False, f"{counts}: connections failed or timed out"
    for item in observed.rounds:
        if not item.outcome.may_pass:
            return False, f"{counts}: round {item.number} reads {item.outcome.value}"
    return True, counts
