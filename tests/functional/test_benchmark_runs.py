"""Whole runs of the miniature benchmark's oracles on the embedded cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench_project import PROFILE, SAY, STUDY, make_bench_project
from minibench import git
from quick import HOW, Result, require_clusters, run, session

pytestmark = pytest.mark.usefixtures("clusters")
WITH = ("-m", "mutant", "--sremut-benchmark=checkout", *HOW["no xdist"])
PYTHON = f"--sremut-benchmark-python={sys.executable}"
ONE = '\n  P1: {use: "minibench:PodsRunning"}\n'
SAYS_ONE = {"P1": SAY["P1"]}
LITTERS = """


def pytest_runtest_logfinish():
    from pathlib import Path

    ORACLES = Path(__file__).parent / "checkout/minibench/harness/oracles"
    (ORACLES / "litter.txt").write_text("litter")
    (ORACLES / "__pycache__").mkdir(exist_ok=True)
    (ORACLES / "__pycache__/rogue.cpython-311.pyc").write_bytes(b"bytecode")
"""
"""Somebody who writes to the checkout during the session, and is no oracle."""


@pytest.fixture(scope="module")
def clusters() -> None:
    require_clusters()


@pytest.fixture(scope="module")
def sessions(clusters: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Sessions mostly wait, so they run side by side."""

    def project(name: str, **more: Any) -> Path:
        made = make_bench_project(tmp_path_factory.mktemp(name), **more)
        if name == "litter":
            with (made / "conftest.py").open("a") as conftest:
                conftest.write(LITTERS)
        return made

    litter = '\n  W1: {use: "minibench:WritesHome"}\n'
    litter += "".join(f'  Q{number}: {{use: "minibench:Prober"}}\n' for number in (1, 2))
    fault = PROFILE.replace("    settle:", '    fault: "minibench:gone_service"\n    settle:')
    fault = fault.replace("    settle:", "    chaos: {kill: 2}\n    settle:")
    with session(project("whole", small=True), *WITH, PYTHON) as whole:
        found = {
            "absent": run(project("absent", oracles=ONE, say=SAYS_ONE), *WITH),
            "litter": run(
                project(
                    "litter",
                    oracles=litter,
                    say=dict.fromkeys(("W1", "Q1", "Q2"), SAY["P1"]),
                    instruments="[own]",
                    probes=[{"minibench": "probe"}],
                    small=True,
                ),
                *WITH,
            ),
            "fault": run(
                project("fault", oracles=ONE, say=SAYS_ONE, instruments="[own]", profile=fault),
                *WITH,
            ),
        }
        found["whole"] = whole.end()
        assert whole.left() == []
    return found


@pytest.fixture(scope="module")
def whole(sessions: dict[str, Result]) -> Result:
    return sessions["whole"]


def readings(result: Result) -> dict[tuple[str, str, str], dict[str, Any]]:
    """(state, oracle, instrument) -> the reading as recorded."""
    (attempt,) = result.attempts()
    return {
        (state, reading["oracle"], reading["instrument"]): reading
        for state, record in result.states(attempt).items()
        for reading in record["readings"]
    }


def test_every_cell_is_as_predicted_under_both_instruments(whole: Result) -> None:
    assert whole.code == 0, whole.out
    assert {
        (state, oracle, instrument): reading["verdict"]
        for (state, oracle, instrument), reading in readings(whole).items()
    } == {
        (state, oracle, instrument): verdicts[i]
        for oracle, verdicts in SAY.items()
        for i, state in enumerate(("healthy", "faulted", "restored"))
        for instrument in ("own", "pinned")
    }


def test_what_an_oracle_changed_in_the_cluster_is_told(whole: Result) -> None:
    for (_, oracle, _), reading in readings(whole).items():
        state = reading["facts"]["state"]
        assert state["unread"] == []
        assert (state["before"] != state["after"]) is bool(state["changes"])
        if oracle == "M5":
            kinds = [line.partition(" ")[0] for line in state["changes"]]
            assert kinds == ["ConfigMap", "Pod"]
        else:
            assert state["changes"] == []
    assert "M5 own changed the cluster while it graded" in whole.out


def test_baselines_are_captured_once_and_carried(whole: Result) -> None:
    for (_, oracle, _), reading in readings(whole).items():
        expected = "captured" if oracle in {"P1", "C4"} else "not captured"
        assert reading["instrument_facts"]["baseline"] == expected


def test_diagnostics_stand_beside_the_readings(whole: Result) -> None:
    for (_, oracle, _), reading in readings(whole).items():
        diagnostic = reading["facts"].get("diagnostic")
        if oracle == "E2":
            assert diagnostic["exception"] == {
                "type": "AttributeError",
                "message": "'GoneService' object has no attribute 'expected_port'",
            }
        elif oracle == "E3":
            assert diagnostic["method"] == "has_ready_port"
            assert diagnostic["calls"][0]["attributes"]["expected_port"]["value"] == 9090
        else:
            assert diagnostic is None
        assert reading["facts"]["barrier"]["cleared"] is True


def test_attributes_are_set_on_the_problem_and_deleted(whole: Result) -> None:
    for (_, oracle, _), reading in readings(whole).items():
        problem = reading["instrument_facts"]["problem"]
        assert (problem.get("asserted_absent") == ["expected_port"]) is (oracle == "E2")
        for noted in problem["set"].values():
            assert (noted["before"], noted["after"]) == ({"present": False}, {"present": False})


def test_the_record_names_the_benchmark_to_the_byte(whole: Result) -> None:
    checkout = whole.project / "checkout"
    for reading in readings(whole).values():
        facts = reading["instrument_facts"]
        assert facts["commit"] == git(checkout, "rev-parse", "HEAD").strip()
        assert "minibench/harness/oracles/base.py" in facts["modules"]
    assert git(checkout, "status", "--porcelain", "--ignored") == ""


def test_an_absent_instrument_is_an_outcome_with_a_reason(sessions: dict[str, Result]) -> None:
    result = sessions["absent"]
    assert result.code == 1
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "INFRASTRUCTURE_FAILURE"
    assert attempt["reason"] == (
        "preflight: instrument-pinned: it is not here; pass --sremut-benchmark=DIR and "
        "--sremut-benchmark-python=EXE"
    )
    assert attempt["reason"] in result.out


def test_a_checkout_that_was_changed_fails_the_session(sessions: dict[str, Result]) -> None:
    result = sessions["litter"]
    assert result.code == 1
    assert "after the session the benchmark is not clean" in result.out
    assert "?? minibench/harness/oracles/litter.txt" in result.out
    cache = "minibench/harness/oracles/__pycache__/rogue.cpython-311.pyc"
    assert f"found {cache}, written meanwhile; allowed: nothing new" in result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE"  # it is about the session, not about this reading


def test_an_oracle_cannot_change_the_checkout(sessions: dict[str, Result]) -> None:
    for (_, oracle, _), reading in readings(sessions["litter"]).items():
        if oracle == "W1":
            assert reading["instrument_facts"]["walls"]["closed"], reading
            (attempt,) = sessions["litter"].attempts()
            raw = sessions["litter"].directory(attempt) / reading["returned"]["path"]
            told = json.loads(raw.read_text())["returned"]
            assert told == {"solved": True, "refused": ["Read-only file system"] * 3}


def test_a_probe_pod_that_the_study_names_is_waited_for_and_is_no_change(
    sessions: dict[str, Result],
) -> None:
    found = readings(sessions["litter"])
    for (_, oracle, _), reading in found.items():
        if oracle in {"Q1", "Q2"}:  # it rejects where an earlier one's pod is still there
            assert reading["verdict"] == "ACCEPT", reading
            assert reading["facts"]["state"]["changes"] == []
            assert float(reading["facts"]["barrier"]["waited"]) >= 0
    assert len(found) == 9


def test_the_benchmarks_own_injector_and_noise_by_profile(sessions: dict[str, Result]) -> None:
    result = sessions["fault"]
    assert result.code == 0, result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE"
    directory = result.directory(attempt)
    journal = result.journal(attempt)
    intents = [entry["facts"] for entry in journal if entry["transition"] == "INTENT"]
    receipts = {
        entry["facts"]["operation"] for entry in journal if entry["transition"] == "RECEIPT"
    }
    kinds = [intent["kind"] for intent in intents]
    assert {intent["operation"] for intent in intents} <= receipts
    assert "delete-target" not in kinds
    assert "restore-target" not in kinds
    assert [kind for kind in kinds if kind.startswith("benchmark-") or kind == "kill-pods"] == [
        "benchmark-inject", "kill-pods", "benchmark-recover", "kill-pods",
    ]  # fmt: skip
    told = json.loads((directory / "raw" / "benchmark-01-inject.json").read_text())
    assert told["stdout"] == "deleted user-service\n"
    states = result.states(attempt)
    assert [len(states[name]["facts"]["killed"]) for name in ("faulted", "restored")] == [2, 2]
    assert STUDY in result.out
