"""Projects to run the plugin in, and the three ways to run it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ("audits", "mutants", "contracts")


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """A project with this repository's studies and nothing else."""
    for name in DATA:
        shutil.copytree(ROOT / name, pytester.path / name)
    return pytester.path


@pytest.fixture(params=["no xdist", "-n0", "-n2"])
def how(request: pytest.FixtureRequest) -> list[str]:
    """Arguments for each way a session can be distributed."""
    return {"no xdist": ["-p", "no:xdist"], "-n0": ["-n0"], "-n2": ["-n2"]}[request.param]
