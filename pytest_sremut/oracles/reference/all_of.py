"""Accepts where every one of its graders accepts.

All are asked, in order, whatever the earlier ones said. One that raises, or returns no verdict,
raises here: an error is not a rejection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_sremut.oracles.oracle_port import (
    CapturesBaseline,
    Oracle,
    json_ready,
    why_no_verdict,
)

__all__ = ["AllOf"]


class AllOf:
    """The conjunction of named graders."""

    def __init__(self, children: Sequence[tuple[str, Oracle]]) -> None:
        if not children:
            raise ValueError("all-of nothing would accept everything")
        self._children = tuple(children)

    def capture_baseline(self) -> dict[str, Any]:
        """Let every child that wants to see the healthy state see it."""
        return {
            name: child.capture_baseline()
            for name, child in self._children
            if isinstance(child, CapturesBaseline)
        }

    def evaluate(self) -> dict[str, Any]:
        """`success`, the children's results under `oracles`, and `accuracy` in percent."""
        results: list[dict[str, Any]] = []
        for name, child in self._children:
            returned = json_ready(child.evaluate())  # looked at once, as what it is then
            if why := why_no_verdict(returned):
                raise TypeError(f"{name}: {why}")
            results.append({**returned, "name": name})
        accepted = sum(result["success"] for result in results)
        return {
            "success": accepted == len(results),
            "oracles": results,
            "accuracy": 100.0 * accepted / len(results),
        }
