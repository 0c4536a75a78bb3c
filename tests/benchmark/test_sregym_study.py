"""The fix-oracle study, run under its registration, gives the published readings cell for cell.

It takes minutes: `SREMUT_SLOW=1` runs it, and `SREMUT_FIX_EVIDENCE` names the evidence of a session
that ran already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real_checkout import ROOT, checkout

PUBLISHED = ROOT.parent / "shared" / "published" / "fix_oracle_study.json"
STUDY = "sregym_missing_service_fix"

pytestmark = pytest.mark.real_benchmark

States = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """As published."""
    if not PUBLISHED.is_file():
        pytest.skip("the published figures are not here")
    found: dict[str, Any] = json.loads(PUBLISHED.read_text())
    return found


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    """(mutant, state) -> its record, with the returned objects in place of their references."""
    checkout()
    named = os.environ.get("SREMUT_FIX_EVIDENCE", "")
    if not named and os.environ.get("SREMUT_SLOW") != "1":
        pytest.skip("runs for minutes; SREMUT_SLOW=1 runs it")
    evidence = Path(named) if named else run(tmp_path_factory.mktemp("study") / "evidence")
    found: States = {}
    for file in sorted((evidence / STUDY).glob("*/a01/attempt.json")):
        attempt = json.loads(file.read_text())
        record = json.loads((file.parent / "record.json").read_text())
        assert record["outcome"] == "COMPLETE", record["reason"]
        for path in (file.parent / "states").glob("*.json"):
            state = json.loads(path.read_text())
            for reading in state["readings"]:
                raw = json.loads((file.parent / reading["returned"]["path"]).read_text())
                reading["returned"] = raw["returned"]
            found[attempt["mutant"], state["state"]] = state
    return found


def run(evidence: Path) -> Path:
    """Run the study as anybody would; its evidence."""
    command = [
        sys.executable, "-m", "pytest", f"audits/{STUDY}", "-p", "no:cacheprovider",
        f"--sremut-benchmark={checkout()}", f"--sremut-evidence={evidence}",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return evidence


def readings(states: States) -> list[tuple[str, str, dict[str, Any]]]:
    """(row of the published table, oracle, reading)."""
    return [
        (state if state != "faulted" else mutant, reading["oracle"], reading)
        for (mutant, state), record in states.items()
        for reading in record["readings"]
    ]


def test_every_reading_is_the_published_one(states: States, figures: dict[str, Any]) -> None:
    table = figures["predicted_and_observed"]
    found = readings(states)
    assert len(found) == figures["barriers"]["checks"] == 36
    wrong = [
        (row, oracle, reading["verdict"])
        for row, oracle, reading in found
        if reading["verdict"] != ("ACCEPT" if table[oracle][row] else "REJECT")
    ]
    assert wrong == []
    assert {(oracle, row) for row, oracle, _ in found} == {
        (oracle, row) for oracle, cells in table.items() for row in cells
    }


def test_every_barrier_cleared_and_no_grader_changed_the_cluster(
    states: States, figures: dict[str, Any]
) -> None:
    facts = [reading["facts"] for _, _, reading in readings(states)]
    assert sum(one["barrier"]["cleared"] for one in facts) == figures["barriers"]["cleared"]
    assert [one["state"]["changes"] for one in facts if one["state"]["changes"]] == []


def test_the_diagnostics_are_the_published_ones(states: States, figures: dict[str, Any]) -> None:
    told = {
        oracle: [r["facts"]["diagnostic"] for _, name, r in readings(states) if name == oracle]
        for oracle in ("O2", "O3", "O4")
    }
    wanted = figures["diagnostics"]
    assert (
        sum(len(one["calls"]) for every in told.values() for one in every)
        == (wanted["direct_probe_calls"])
    )
    exception = {name: wanted["o2_exception"][name] for name in ("type", "message")}
    assert [one["exception"] for one in told["O2"]] == [exception] * wanted["o2_exception"]["count"]
    assert {call["attributes"]["expected_service_port"]["present"] for one in told["O2"]
            for call in one["calls"]} == {False}  # fmt: skip
    for one in (*told["O3"], *told["O4"]):
        assert one["exception"] is None
        assert [call["attributes"]["expected_service_port"] for call in one["calls"]] == [
            {"present": True, "value": 9090}
        ]


def test_the_composition_is_what_its_parts_are(states: States, figures: dict[str, Any]) -> None:
    wanted = figures["diagnostics"]
    for (_, state), record in states.items():
        by = {reading["oracle"]: reading for reading in record["readings"]}
        accepted = {name: reading["verdict"] == "ACCEPT" for name, reading in by.items()}
        assert accepted["O4"] is (accepted["O1"] and accepted["O3"])
        returned = by["O4"]["returned"]
        if state == "faulted":
            children = {child["name"]: child["success"] for child in returned["oracles"]}
            assert children == wanted["o4_children_when_faulted"]
        kind = "faulted" if state == "faulted" else "controls"
        assert returned["accuracy"] == wanted["o4_accuracy"][kind]


def test_the_oracle_rejects_in_the_published_place(states: States, figures: dict[str, Any]) -> None:
    """A reading that looked at its probe pod took at least the interval of that look."""
    for (mutant, state), record in states.items():
        (reading,) = (one for one in record["readings"] if one["oracle"] == "O3")
        published = figures["o3_elapsed_seconds"][mutant][state]
        if published >= 2.0:
            assert reading["elapsed"] >= 2.0, (mutant, state)
