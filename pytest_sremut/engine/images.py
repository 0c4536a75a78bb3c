"""Names of the images the engine itself puts into pods, the same on every kind of cluster."""

from __future__ import annotations

from typing import Final

__all__ = ["DEMO", "LOAD", "PROBE"]

DEMO: Final = "sremut/demo:1"
LOAD: Final = "sremut/wrk2:1"
PROBE: Final = "busybox:1.36"
