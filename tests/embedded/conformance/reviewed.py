"""Differences from the recorded cluster that were looked at, with the reason of each.

An entry here is a promise that somebody has understood the difference; a difference without one
fails the suite.
"""

from __future__ import annotations

from .outcome import Reviewed

REVIEWED: tuple[Reviewed, ...] = ()
