"""Projects to run the plugin in, and the three ways to run it.

What is asked of each way runs in processes of its own; the rest may run in the test's own process.
Such a session takes away again whatever it was the first to import, and extension modules cannot
be imported twice: so they are imported here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import cryptography.x509  # noqa: F401
import pytest
import rfc3161_client  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ("missing_service_social_network", "pinned_endpoints_social_network")


@pytest.fixture(autouse=True)
def lean_sessions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions in projects of their own do without this suite's other plugin: a second each."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # forgets the options of the outer session
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """A project with the studies that need nothing but this repository."""
    for name in ("mutants", "contracts", *(f"audits/{study}" for study in STUDIES)):
        shutil.copytree(ROOT / name, pytester.path / name)
    return pytester.path


@pytest.fixture(params=["no xdist", "-n0", "-n2"])
def how(request: pytest.FixtureRequest) -> list[str]:
    """Arguments for each way a session can be distributed."""
    return {"no xdist": ["-p", "no:xdist"], "-n0": ["-n0"], "-n2": ["-n2"]}[request.param]
