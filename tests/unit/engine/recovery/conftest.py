"""An application of two Deployments, and waits that do not outlast a test."""

from __future__ import annotations

import pytest
from engine_world import small_application

from pytest_sremut.engine.steps import deploy


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    monkeypatch.setattr("pytest_sremut.cluster.waiting._OUTAGE", 0.2)
