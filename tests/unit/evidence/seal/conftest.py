"""A session's key, an evidence directory and a finished attempt in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from records import no_fsync
from sealed_doubles import SESSION, begin, evidence, finish

from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.evidence.seal import SessionKey


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with no_fsync(monkeypatch):
        yield


@pytest.fixture
def key() -> SessionKey:
    return SessionKey.generate(SESSION)


@pytest.fixture
def root(tmp_path: Path) -> EvidenceRoot:
    return evidence(tmp_path / "evidence")


@pytest.fixture
def finished(root: EvidenceRoot, key: SessionKey) -> Attempt:
    return finish(begin(root, key))
