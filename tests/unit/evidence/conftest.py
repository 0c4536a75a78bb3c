"""An evidence root on a clock that ticks when asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from evidence_doubles import TickingClock, identity
from hypothesis import settings

from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.root import EvidenceRoot

# No timed assertions: a busy machine is no finding.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def root(tmp_path: Path, clock: TickingClock) -> EvidenceRoot:
    return EvidenceRoot.open(tmp_path / "evidence", clock=clock)


@pytest.fixture
def attempt(root: EvidenceRoot) -> Attempt:
    return root.begin(identity())
