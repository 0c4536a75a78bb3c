"""Was the load delivered that was asked for? Pure; decides nothing about the system under load.

Three different things can leave a window with fewer requests than were asked for:

* The *generator* was late: requests were due, their connections were free, and still they were not
  sent in time, or its whole process did not run. That is a fault of the machine.
* The *system* was slow in a state in which it should not be: a control window that achieves less
  than 90 % of the asked load, without a failure that would explain it, was driven or answered by a
  machine that is too busy. A fresh window of repair persistence has no volume that anything is
  compared with: it must achieve as many requests as the contract needs.
* The system collapsed because it is broken. That is a finding, and nothing is said of it here: a
  faulted window is judged by the generator's own lateness alone, and a control window with failures
  is left to the contract.

The embedded generator tells its own lateness. Real wrk2 does not: its windows are judged by what
they achieved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "LATE_SHARE",
    "LEAST_ACHIEVED",
    "Asked",
    "Delivery",
    "DeliveryFacts",
    "Judgement",
    "add_up",
    "judge",
    "late_after",
]

LATE_SHARE = 0.05
"""A generator is late if more of its due requests, or of its time, than this share were."""

LEAST_ACHIEVED = 0.9
"""Of the asked requests, in a control window."""


def late_after(interval: float) -> float:
    """Seconds after which a request that could have been sent counts as late.

    Args:
        interval: Mean gap of one connection, in seconds.
    """
    return max(0.02, 0.1 * interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The load that a round was asked to be. Seconds, and requests a second."""

    rate: float
    duration: float
    connections: int
    drain: float = 0.0  # seconds for which answers are waited for after the duration

    @property
    def requests(self) -> float:
        """Of one round."""
        return self.rate * self.duration

    def record(self, *, rounds: int) -> dict[str, Any]:
        """JSON-ready, for a window of so many rounds."""
        return {
            "rate": self.rate,
            "duration": self.duration,
            "connections": self.connections,
            "rounds": rounds,
            "requests": round(self.requests * rounds),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What the embedded generator says of one round, or the sum over several."""

    due: int  # requests that were drawn to be due before the end
    sent: int
    answered: int
    late: int  # due, connection free, not sent in time
    latest: float  # seconds, of the worst of them
    stalled: float  # seconds that the generator did not run when it should have

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "due": self.due,
            "sent": self.sent,
            "answered": self.answered,
            "late": self.late,
            "latest": round(self.latest, 6),
            "stalled": round(self.stalled, 6),
        }


def add_up(rounds: Iterable[Delivery]) -> Delivery | None:
    """The sum over rounds, and the worst lateness; None of none."""
    found = list(rounds)
    if not found:
        return None
    return Delivery(
        due=sum(one.due for one in found),
        sent=sum(one.sent for one in found),
        answered=sum(one.answered for one in found),
        late=sum(one.late for one in found),
        latest=max(one.latest for one in found),
        stalled=sum(one.stalled for one in found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFacts:
    """A window as this module needs it."""

    asked: Asked
    rounds: int  # that were asked for
    requests: int  # completed, of the usable rounds
    failures: int  # of them, and socket errors
    told: Delivery | None  # by the generator; None: it does not tell
    misfits: tuple[str, ...] = ()  # rounds that are no measurement of what was asked, each why
    began: bool = True  # False: there was no endpoint to load


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a window was delivered, and if not why."""

    delivered: bool
    late: bool  # the generator was
    under_achieved: bool  # a control window answered too little
    misfit: bool  # a round contradicts itself or what was asked
    asked: int  # requests due, as drawn where the generator tells it
    achieved_percent: float | None  # completed of asked; None: nothing was asked
    reason: str  # one sentence with the counts

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        achieved = self.achieved_percent
        return {
            "delivered": self.delivered,
            "late": self.late,
            "under_achieved": self.under_achieved,
            "misfit": self.misfit,
            "asked": self.asked,
            "achieved_percent": None if achieved is None else round(achieved, 4),
            "reason": self.reason,
        }


def judge(facts: DeliveryFacts, *, control: bool, least: int | None = None) -> Judgement:
    """Judge a window.

    Args:
        facts: The window.
        control: Whether the system is expected to be well: what it achieves counts then, too.
        least: Requests that are enough; 90 % of the asked ones where left out.
    """
    told = facts.told
    asked = round(facts.asked.requests * facts.rounds) if told is None else told.due
    achieved = 100 * facts.requests / asked if asked else None
    late = told is not None and _late(told, facts)
    needed = LEAST_ACHIEVED * asked if least is None else least
    under = control and facts.began and facts.failures == 0 and 0 < facts.requests < needed
    counts = f"asked {asked}, sent {_sent(told)}, answered {facts.requests}, {_lateness(told)}"
    why = _reasons(facts, late=late, under=needed if under else None, achieved=achieved)
    return Judgement(
        delivered=not why,
        late=late,
        under_achieved=under,
        misfit=bool(facts.misfits),
        asked=asked,
        achieved_percent=achieved,
        reason="; ".join([counts, *why]),
    )


def _late(told: Delivery, facts: DeliveryFacts) -> bool:
    planned = facts.rounds * facts.asked.duration
    return told.late > LATE_SHARE * told.due or told.stalled > LATE_SHARE * planned


def _sent(told: Delivery | None) -> str:
    return "unknown" if told is None else str(told.sent)


def _lateness(told: Delivery | None) -> str:
    if told is None:
        return "late unknown"
    return f"late {told.late} (worst {told.latest:.3f} s, generator held up {told.stalled:.3f} s)"


def _reasons(
    facts: DeliveryFacts, *, late: bool, under: float | None, achieved: float | None
) -> list[str]:
    why = []
    if facts.misfits:
        why.append(f"no measurement of what was asked: {', '.join(facts.misfits)}")
    if late:
        why.append("the generator itself was late: this machine is too busy to drive the load")
    if under is not None:
        why.append(
            f"a control window achieved {achieved:.1f} % of the asked load, {facts.requests} "
            f"requests where {math.ceil(under)} are needed"
        )
    return why
