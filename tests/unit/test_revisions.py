"""Predictions that were replaced are kept, byte for byte as they were registered."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(path.parent.name for path in (ROOT / "audits").glob("*/study.yaml"))


@pytest.mark.parametrize("revision", ["r01", "r02", "r03"])
@pytest.mark.parametrize("study", STUDIES)
def test_an_old_revision_is_kept_as_it_was_stamped(study: str, revision: str) -> None:
    folder = ROOT / "attestation" / study
    if revision == max(path.name for path in folder.iterdir()):
        assert not list((ROOT / "audits" / study).glob(f"*.{revision}.yaml"))  # it is in force
        return
    manifest = json.loads((folder / revision / "manifest.json").read_bytes())
    for role in ("predictions", "study"):
        kept = ROOT / "audits" / study / f"{role}.{revision}.yaml"
        digest = hashlib.sha256(kept.read_bytes()).hexdigest()
        assert digest == manifest["files"][role]["sha256"]
