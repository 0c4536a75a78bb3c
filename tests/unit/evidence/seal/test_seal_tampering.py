"""Every random change of a sealed directory is seen; `benchmarks/tampering.py` makes thousands."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sealed_doubles import sealed_evidence
from tampering_kit import KINDS, tampered

from pytest_sremut.attestation.anchoring import OfflineStamps, TimestampAnchor
from pytest_sremut.attestation.authority import SelfIssuedAuthority
from pytest_sremut.attestation.trust import TrustStore
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.seal.evidence import verify_evidence

EACH = 22
STAMPS = OfflineStamps(TrustStore(roots=()))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    anchor = TimestampAnchor(SelfIssuedAuthority(), TrustStore(roots=()))
    return sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor).directory


def holds(directory: Path) -> bool:
    try:
        reading = verify_evidence(directory, verifier=STAMPS)
        return all(check.ok is True for check in reading.checks)
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
