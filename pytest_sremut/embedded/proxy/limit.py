"""How often a node tells one peer that a destination is unreachable: the kernel's own limit.

A Service without endpoints is answered with ICMP messages, and Linux sends one peer of those only
six at once and one a second (`net.ipv4.icmp_ratelimit` is 1000 ms, its bucket holds six). So of
many clients that connect at the same time most hear nothing, and time out. The kernel exempts the
loopback device, over which everything in an embedded cluster goes; so what a real node does is
done here. Measured between two network namespaces by `benchmarks/unreachable.py`.

A real node's limit is per peer, whatever the destination. Here it is per peer and destination: pods
that bind no address share their node's, and must not answer for each other.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["BURST", "Limit"]

BURST = 6
"""Messages that a peer which was silent for long may get at once."""

PERIOD = 1.0  # seconds a message
_REMEMBERED = 4096


class Limit:
    """A token bucket for each key, the keys that were used last alone."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def take(self, key: tuple[str, str], now: float) -> bool:
        """Whether one more message may go out at `now`, in seconds of a clock that never goes back.

        Args:
            key: Address of the peer, and of the destination that it asked for.
            now: The time.
        """
        tokens, last = self._buckets.pop(key, (float(BURST), now))
        tokens = min(tokens + (now - last) / PERIOD, float(BURST))
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return allowed
