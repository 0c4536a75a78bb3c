"""The whole study on a real cluster, where somebody names one.

    SREMUT_TEST_CONTEXT=NAME pytest tests/cluster

The context is of $KUBECONFIG (or ~/.kube/config). On the cluster's nodes, or in a registry that the
profile names, must be the demo, load and probe images; the namespace of the study may be there,
empty, or we may create it. Further variables:

    SREMUT_TEST_PROFILE=NAME       of the study (default: the one for a context, which is `kind`)
    SREMUT_TEST_REPETITIONS=N      1 to 3 (default: 3, as the study has it)

With the published waits it takes well over an hour.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real_cluster

ROOT = Path(__file__).resolve().parents[2]
STUDY = "missing_service_social_network"
NAMESPACE = "social-network"
CONTEXT = os.environ.get("SREMUT_TEST_CONTEXT", "")
PATIENCE = 6 * 3600.0
# Per state and grader, of the faulted state; healthy and restored are accepted by all.
KILLED = {"ms-m01": "O3 O4", "ms-m02": "O3 O4", "ms-m03": "O3 O4"}


def project(directory: Path, repetitions: int) -> Path:
    """This repository's study, with so many repetitions."""
    for name in ("mutants", "contracts", f"audits/{STUDY}"):
        shutil.copytree(ROOT / name, directory / name)
    file = directory / "audits" / STUDY / "study.yaml"
    text = file.read_text()
    assert "\nrepetitions: 3\n" in text
    file.write_text(text.replace("\nrepetitions: 3\n", f"\nrepetitions: {repetitions}\n"))
    (directory / "pytest.ini").write_text("[pytest]\n")
    return directory


@pytest.mark.skipif(not CONTEXT, reason="SREMUT_TEST_CONTEXT names no context")
def test_the_whole_study(tmp_path: Path) -> None:
    repetitions = int(os.environ.get("SREMUT_TEST_REPETITIONS", "3"))
    profile = os.environ.get("SREMUT_TEST_PROFILE", "")
    around = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-m", "mutant", "-p", "no:cacheprovider",
            "--sremut-exploratory", f"--sremut-cluster=context:{CONTEXT}",
            f"--sremut-allow-context={CONTEXT}", f"--sremut-use-namespace={NAMESPACE}",
            *([f"--sremut-profile={profile}"] if profile else []),
        ],
        cwd=project(tmp_path, repetitions), env=around, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (evidence,) = (tmp_path / ".sremut" / "evidence").iterdir()
    attempts = sorted(evidence.glob(f"{STUDY}/*/a*/record.json"))
    assert len(attempts) == len(KILLED) * repetitions
    for file in attempts:
        record = json.loads(file.read_text())
        assert record["outcome"] == "COMPLETE", (file, record["reason"])
        head = json.loads(file.with_name("attempt.json").read_text())
        assert (head["cluster"]["kind"], head["cluster"]["context"]) == ("context", CONTEXT)
        assert head["cluster"]["kube_system_uid"]
        mutant = file.parent.parent.name.rpartition("-")[0]
        for state in ("healthy", "faulted", "restored"):
            found = json.loads((file.parent / "states" / f"{state}.json").read_text())
            killed = KILLED[mutant].split() if state == "faulted" else []
            assert verdicts(found) == {
                oracle: "REJECT" if oracle in killed else "ACCEPT" for oracle in ("O1", "O3", "O4")
            }
            wanted = "REJECT" if state == "faulted" else "PASS"
            assert found["contract"]["verdict"] == wanted
            clock = found["workload"]["facts"]["clock"]["ahead"]
            assert clock["least"] <= clock["most"]


def verdicts(state: dict[str, Any]) -> dict[str, str]:
    """What all instruments of each grader said; they must agree."""
    said: dict[str, set[str]] = {}
    for reading in state["readings"]:
        said.setdefault(reading["oracle"], set()).add(reading["verdict"])
    assert all(len(values) == 1 for values in said.values()), said
    return {oracle: values.pop() for oracle, values in said.items()}
