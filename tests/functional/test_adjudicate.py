"""`--sremut-adjudicate` as a user meets it: items from records, no cluster, a ledger."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from recorded import Recorded, recorded

from pytest_sremut.study.verdict import Outcome, State, Verdict

MAIN = "missing_service_social_network"
SELECT = ("-m", "mutant", "-k", MAIN)


def test_every_cell_is_judged_from_records(
    recorded: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    recorded.matrix()
    junit = "--junit-xml=out.xml"
    result = pytester.runpytest_subprocess("--sremut-adjudicate", *SELECT, junit, *how)
    result.assert_outcomes(passed=108, deselected=0 if "-n2" in how else 12)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*9 of 9 runs have a valid attempt*",
            "*O1*0 of 3*",
            "*sremut: ledger written: .sremut/ledger.json, SHA-256 *",
        ]
    )
    ledger = json.loads((recorded.root / ".sremut" / "ledger.json").read_bytes())
    assert ledger["schema"] == "sremut/ledger/v1"
    assert (recorded.root / ".sremut" / "ledger.md").read_text().startswith("<!-- sremut/ledger/v1")
    check_junit(recorded.root)


def check_junit(root: Path) -> None:
    """Properties are plain text, wherever a cell was judged."""
    cases = list(ElementTree.parse(root / "out.xml").iter("testcase"))
    assert len(cases) == 108
    (case,) = [case for case in cases if case.get("name") == "test_cell[ms-m01-r01-faulted-O1]"]
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["sremut.fate"] == "SURVIVED"
    assert properties["sremut.observed"] == "in-process=ACCEPT isolated=ACCEPT"
    assert properties["sremut.registration"] == "EXPLORATORY"
    assert str(root) not in "".join(v or "" for v in properties.values())


def test_the_option_alone_means_the_audits(recorded: Recorded, pytester: pytest.Pytester) -> None:
    recorded.matrix()
    result = pytester.runpytest_inprocess("--sremut-adjudicate")
    # The other study has no record: its cells are errors that say so, and nothing is skipped.
    result.assert_outcomes(passed=108, errors=12)
    result.stdout.fnmatch_lines(["*no valid attempt at ms-m04-r01: the evidence holds none at all"])


def test_no_cluster_and_no_gate(recorded: Recorded, pytester: pytest.Pytester) -> None:
    recorded.matrix()
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", *SELECT, "--sremut-cluster=context:production", "-v"
    )
    result.assert_outcomes(passed=108, deselected=12)
    assert result.outlines  # no registration stands in this project, and no context is allowed


def test_a_study_that_could_not_be_run_is_said_to_be_not_run(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    """Without its benchmark a study has no evidence: one skipped item, as in the live session."""
    root = Path(__file__).resolve().parents[2]
    name = "sregym_pinned_endpoints"
    if not (recorded.root / "audits" / name).exists():
        shutil.copytree(root / "audits" / name, recorded.root / "audits" / name)
    recorded.matrix()
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", "-m", "mutant", "-k", f"{MAIN} or {name}", "-rs"
    )
    assert result.parseoutcomes()["skipped"] == 1
    assert result.parseoutcomes()["passed"] == 108
    result.stdout.fnmatch_lines(["*pass a checkout of it with --sremut-benchmark=DIR*"])


def test_a_cell_without_a_valid_attempt_is_an_error_with_its_reason(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix(
        ms_m02_r01=recorded.told(
            outcome=Outcome.INFRASTRUCTURE_FAILURE, reason="the API went away", until=State.HEALTHY
        )
    )
    result = pytester.runpytest_inprocess("--sremut-adjudicate", *SELECT)
    result.assert_outcomes(passed=96, errors=12, deselected=12)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*no valid attempt at ms-m02-r01: attempt 1: INFRASTRUCTURE_FAILURE: the API went away"]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_cell_that_is_not_as_predicted_fails(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    faulted = State.FAULTED
    recorded.matrix(
        ms_m01_r01=recorded.told(
            verdicts={(faulted, "O1"): Verdict.REJECT},
            violated={faulted: ("MS-I1",)},
        )
    )
    result = pytester.runpytest_inprocess("--sremut-adjudicate", *SELECT)
    result.assert_outcomes(passed=106, failed=2, deselected=12)
    result.stdout.fnmatch_lines(
        [
            "*in-process: predicted ACCEPT, observed REJECT",
            "*contract: predicted violated {MS-I1, *}, observed {MS-I1}",
        ]
    )


def test_evidence_that_does_not_hold_together_fails_the_session(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    victim = recorded.directory / MAIN / "ms-m03-r03" / "a01"
    (victim / "raw" / "faulted-O3-isolated.json").write_text("{}")
    # Not one selected cell is of that run, and still nobody can miss it.
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", "-m", "mutant", "-k", f"{MAIN} and ms-m01"
    )
    result.assert_outcomes(passed=36, deselected=84)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ms-m03-r03 attempt 1: raw/faulted-O3-isolated.json: *"])


def test_collecting_only_reads_nothing(recorded: Recorded, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--sremut-adjudicate", "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.OK
    assert not (recorded.root / ".sremut" / "ledger.json").exists()


def test_the_ledger_does_not_depend_on_the_selection(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    ledger = recorded.root / ".sremut" / "ledger.json"
    pytester.runpytest_inprocess("--sremut-adjudicate", *SELECT)
    first = ledger.read_bytes()
    ledger.unlink()
    pytester.runpytest_inprocess(
        f"audits/{MAIN}/study.yaml", "--sremut-adjudicate", "-k", "ms-m02-r02 and O3"
    )
    assert ledger.read_bytes() == first


def test_a_file_of_somebody_else_is_not_overwritten(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    (recorded.root / ".sremut" / "ledger.md").write_text("my notes")
    result = pytester.runpytest_inprocess("--sremut-adjudicate", *SELECT)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ledger.md: is no ledger; it is not overwritten"])
    assert (recorded.root / ".sremut" / "ledger.md").read_text() == "my notes"


def test_a_bad_study_is_still_a_collection_error(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    study: Path = recorded.root / "audits" / "pinned_endpoints_social_network" / "study.yaml"
    study.write_text(study.read_text().replace("repetitions: 1", "repetitions: one"))
    result = pytester.runpytest_inprocess("--sremut-adjudicate")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*pinned_endpoints_social_network/study.yaml*repetitions*"])


__all__ = ["recorded"]
