"""Every random change of a sealed directory is seen.

`benchmarks/tampering.py` makes thousands, of stamped evidence.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sealed_doubles import sealed_evidence
from tampering_kit import KINDS, tampered

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.seal.evidence import verify_evidence

EACH = 22


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return sealed_evidence(tmp_path / "evidence", attempts=1).directory


def holds(directory: Path) -> bool:
    try:
        return all(check.ok is True for check in verify_evidence(directory).checks)
    except EvidenceError:  # what stands there is no evidence directory any more
        return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_is_seen(sealed: Path, kind: str) -> None:
    rng = random.Random(f"20260829 {kind}")
    assert holds(sealed)
    for number in range(EACH):
        with tampered(sealed, kind, rng):
            assert not holds(sealed), f"{kind}, change {number} was not seen"
    assert holds(sealed)  # each was taken back
