"""Makes the test doubles in `support/` importable by name, and no example depend on the clock."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from evidence_doubles import FailingCalls

sys.path.insert(0, str(Path(__file__).parent / "support"))

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingCalls:
    """System calls that fail when a test says so."""
    from evidence_doubles import FailingCalls

    return FailingCalls(monkeypatch)
