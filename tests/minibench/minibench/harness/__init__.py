"""The campaign runner: as in real benchmarks, importing anything below imports everything here."""

from minibench.harness.campaign import Campaign

__all__ = ["Campaign"]
