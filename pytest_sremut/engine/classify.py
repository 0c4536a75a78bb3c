"""What a surprising reading was: the adjudicator's own rule, asked while the run still stands.

One rule for both, so that an attempt is never taken for something else afterwards.
"""

from __future__ import annotations

from pytest_sremut.ledger.timeline import (
    PodCondition,
    Sample,
    application_down,
    pods_during,
)

__all__ = ["PodCondition", "Sample", "application_down", "pods_during"]
