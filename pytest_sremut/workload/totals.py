"""What happens in a round of load, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Counts", "Endpoint", "Totals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the load goes, and the numeric address that its name has now."""

    host: str
    port: int
    address: tuple[str, int] = ("", 0)


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened to one kind of request. `failed` is a status above 399."""

    sent: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(slots=True, kw_only=True)
class Totals:
    """What happened in a round. Times in seconds."""

    kinds: list[Counts]
    per_connection: list[int]
    calibrating: list[list[float]]  # latencies of each thread that calibration leaves out
    latencies: list[float] = field(default_factory=list)  # from when it was due
    due: int = 0  # requests that were due before the end
    late: int = 0  # of them: not sent in time although their connection was free
    latest: float = 0.0  # the worst of them
    stalled: float = 0.0  # how long the generator itself did not run when it should have
    connect: int = 0
    read: int = 0
    timeout: int = 0
    received: int = 0  # bytes
    elapsed: float = 0.0

    @property
    def sent(self) -> int:
        return sum(kind.sent for kind in self.kinds)

    @property
    def completed(self) -> int:
        return sum(kind.completed for kind in self.kinds)

    @property
    def failed(self) -> int:
        return sum(kind.failed for kind in self.kinds)

    @property
    def socket_errors(self) -> int:
        return self.connect + self.read + self.timeout
