"""What a round of load is to be: its parameters, and which wrk2 it behaves like.

`Variant` names two builds of wrk2 that differ in what they do and print, and a way of our own. Both
builds were recorded:

* `dsb`: DeathStarBench's build. It draws gaps (`-D exp`), sends a request when it is due whether
  or not earlier ones were answered, and counts no timeouts.
* `giltene`: the original. Gaps are fixed, one request is outstanding at most, and timeouts are
  counted.

`drain` is no wrk2. It is for rounds shorter than what they are to show: gaps are drawn, one request
is outstanding at most, and a round that is over sends nothing more but waits for the answers of
what it sent. In a round of half a second wrk2 would drop exactly the request that hangs for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_sremut.workload.mix import Kind

__all__ = ["Calibration", "Distribution", "Plan", "Variant"]

CALIBRATES = 10.0
"""Seconds after which wrk2 calibrates a thread, and forgets the latencies that it has recorded."""


class Variant(StrEnum):
    """The build of wrk2 whose semantics and report a generator follows, or `drain`."""

    DSB = "dsb"
    GILTENE = "giltene"
    DRAIN = "drain"


class Distribution(StrEnum):
    """How the gaps between the requests of one connection are spread."""

    EXP = "exp"
    FIXED = "fixed"


class Calibration(StrEnum):
    """Which latencies are left out of a report."""

    NONE = "none"  # none of them
    WRK2 = "wrk2"  # as wrk2 does: those of the first ten seconds, in a round that lasts so long
    ALWAYS = "always"  # also those of shorter rounds: a report as of ten seconds, sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a round. Times in seconds, `rate` in requests a second."""

    connections: int
    threads: int
    rate: float
    duration: float
    timeout: float
    kinds: tuple[Kind, ...]
    variant: Variant = Variant.DSB
    distribution: Distribution = Distribution.EXP
    calibration: Calibration = Calibration.NONE

    @property
    def interval(self) -> float:
        """Mean gap between two requests of one connection, in seconds.

        DeathStarBench's build divides the rate by its threads in whole numbers: 100 requests a
        second over three threads are 99.
        """
        rate = self.rate
        if self.variant is Variant.DSB and rate >= self.threads:
            rate = rate // self.threads * self.threads
        return self.connections / rate

    def starts(self, connection: int) -> float:
        """When that connection is begun, in seconds after the round's begin.

        Each thread begins its own connections one after the other.
        """
        step = 0.005 if self.variant is Variant.GILTENE else 0.001
        return connection // self.threads * step

    @property
    def drains(self) -> bool:
        """Whether a round waits for the answers of what it sent, at most for the timeout."""
        return self.variant is Variant.DRAIN

    @property
    def forgotten(self) -> float:
        """Seconds from the begin whose latencies are left out of the report.

        wrk2 calibrates once, and a shorter round ends before that: its latencies are all there.
        """
        if self.calibration is Calibration.NONE:
            return 0.0
        if self.calibration is Calibration.WRK2 and self.duration < CALIBRATES:
            return 0.0
        return self._calibrates

    @property
    def is_sampled(self) -> bool:
        """Whether threads have a rate of their own: wrk2 samples it after it has calibrated."""
        return self.calibration is Calibration.NONE or self.duration > self._calibrates

    @property
    def _calibrates(self) -> float:
        step = 0.005 if self.variant is Variant.GILTENE else 0.001
        return CALIBRATES + self.connections // self.threads * step
