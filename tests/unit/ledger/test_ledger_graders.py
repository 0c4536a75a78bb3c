"""Graders and mutants of every kind, as all outputs show them: they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from ledger_world import Adjudicated, adjudicated
from records import Records, Told

from pytest_sremut.ledger.baseline.comparison import compare, taken
from pytest_sremut.ledger.baseline.document import Baseline
from pytest_sremut.ledger.renderings.step_summary import step_summary
from pytest_sremut.ledger.renderings.stryker import stryker_report
from pytest_sremut.ledger.renderings.text import summary_lines
from pytest_sremut.ledger.thresholds import scores_below
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Expectation, State, Verdict

A, R, E = Verdict.ACCEPT, Verdict.REJECT, Verdict.ERROR
STATES = (State.HEALTHY, State.FAULTED, State.RESTORED)


def everywhere(verdict: Verdict) -> Mapping[tuple[State, str], Verdict]:
    return {(state, "O1"): verdict for state in STATES}


def shown(given: Adjudicated) -> str:
    (judged,) = given.judged.studies
    return "\n".join(summary_lines(judged.study, judged.attempts))


def row(given: Adjudicated, grader: str = "O1") -> Mapping[str, Any]:
    (found,) = [one for one in given.study["scores"] if one["grader"] == grader]
    assert isinstance(found, Mapping)
    return found


def below(given: Adjudicated, threshold: float) -> list[str]:
    (judged,) = given.judged.studies
    return list(scores_below(judged.study, judged.attempts, threshold))


def statuses(given: Adjudicated, grader: str = "O1") -> dict[str, str]:
    files = stryker_report(given.ledger, {})["files"]
    return {
        mutant["mutatorName"]: mutant["status"]
        for name, file in files.items()
        if f"/{grader}/" in name
        for mutant in file["mutants"]
    }


def test_always_reject_is_worthless(records: Records, study: Study) -> None:
    for run in runs(study):
        records.attempt(run, Told(verdicts=everywhere(R)))
    given = adjudicated(study, records.directory)
    told = row(given)
    assert (told["killed"], told["scored"], told["brittle"], told["brittle_runs"]) == (0, 0, 3, 9)
    assert (told["percent"], told["informedness"]) == (None, 0)
    assert told["wrong_rejected"]["part"] == told["wrong_rejected"]["of"] == 9
    assert (told["right_accepted"]["part"], told["right_accepted"]["of"]) == (0, 18)
    assert set(statuses(given).values()) == {"RuntimeError"}  # in no viewer's denominator
    (line,) = [one for one in below(given, 0) if ": O1 " in one]
    assert "(no score), required 0 %; brittle: in 9 runs" in line
    text = shown(given)
    assert "brittle in 9 runs: it rejects its own controls" in text
    assert "O1        healthy  rejected in 9 of 9 runs" in text
    assert "brittle in 9 runs" in step_summary(given.ledger, "0" * 64)
    assert any(one["limit"] == "brittle-mutants O1" for one in given.study["limits"])


def test_always_accept_is_worthless(records: Records, study: Study) -> None:
    records.matrix()  # O1 accepts everything: it is predicted to
    given = adjudicated(study, records.directory)
    told = row(given)
    assert (told["killed"], told["scored"], told["percent"], told["informedness"]) == (0, 3, 0, 0)
    assert row(given, "O3")["informedness"] == 1
    text = shown(given)
    assert "accepted 6 of 6 faulted readings (3 runs, 2 instruments)" in text
    assert "O1        0 of 9 (0.0 %)          18 of 18 (100.0 %)      +0.00" in text


def test_a_raising_grader_has_no_score(records: Records, study: Study) -> None:
    for run in runs(study):
        records.attempt(run, Told(verdicts={(State.FAULTED, "O1"): E}))
    given = adjudicated(study, records.directory)
    told = row(given)
    assert (told["scored"], told["unscored"], told["informedness"]) == (0, 3, None)
    assert told["wrong_rejected"] == {
        "part": 0, "of": 0, "errors": 9, "differing": 0, "percent": None,
    }  # fmt: skip
    assert "0 of 0, 9 errors" in shown(given)
    assert any(": O1 " in line for line in below(given, 0))


def test_brittle_in_one_run_fails_the_threshold_with_its_reason(
    records: Records, study: Study
) -> None:
    for run in runs(study):
        told = Told()
        if run.id == "ms-m01-r02":
            told = Told(verdicts={(State.RESTORED, "O3"): R})
        records.attempt(run, told)
    given = adjudicated(study, records.directory)
    assert given.percent("O3") == 100.0
    (line,) = [one for one in below(given, 50) if ": O3 " in one]
    assert "killed 3 of 3 mutants (100.0 %), required 50 %; brittle: in 1 run it rejected" in line
    assert not [one for one in below(given, 50) if ": O4 " in one]
    assert "brittle in 1 run" in shown(given)


def test_an_equivalent_mutant_lowers_nobodys_score(records: Records, study: Study) -> None:
    """The contract passes MS-M01 in every run, and O3 accepts it."""
    for run in runs(study):
        told = Told()
        if run.mutant == "MS-M01":
            told = Told(
                verdicts={(State.FAULTED, name): A for name in ("O1", "O3", "O4")},
                violated={State.FAULTED: ()},
            )
        records.attempt(run, told)
    given = adjudicated(study, records.directory)
    assert given.fates("O3") == {"MS-M01": "equivalent", "MS-M02": "killed", "MS-M03": "killed"}
    assert given.percent("O3") == 100.0
    assert row(given, "O3")["wrong_rejected"]["of"] == 6
    assert statuses(given, "O3")["MS-M01"] == "Ignored"
    assert not [line for line in shown(given).splitlines() if "O3" in line and "accepted 6" in line]
    # Held against the author the contract let it survive, and the ledger says so.
    assert given.fates("contract")["MS-M01"] == "survived"
    assert given.percent("contract") == pytest.approx(66.6667)
    assert any(one["limit"] == "contract-against-authors" for one in given.study["limits"])


def with_control(study: Study) -> Study:
    """MS-M03 taken for a right repair."""
    return replace(
        study,
        mutants=tuple(
            replace(one, expect=Expectation.ACCEPT) if one.id == "MS-M03" else one
            for one in study.mutants
        ),
    )


@pytest.mark.parametrize("verdict", [A, R])
def test_a_right_repair_is_a_control(records: Records, study: Study, verdict: Verdict) -> None:
    for run in runs(study):
        told = Told()
        if run.mutant == "MS-M03":
            told = Told(
                verdicts={(State.FAULTED, name): verdict for name in ("O3", "O4")},
                violated={State.FAULTED: ()},
            )
        records.attempt(run, told)
    given = adjudicated(with_control(study), records.directory)
    told_of = row(given, "O3")
    assert (told_of["killed"], told_of["scored"], told_of["percent"]) == (2, 2, 100)
    assert (told_of["controls"], told_of["controls_accepted"]) == (1, verdict is A)
    assert told_of["right_accepted"]["of"] == 21
    assert told_of["right_accepted"]["part"] == (21 if verdict is A else 18)
    assert given.percent("contract") == 100.0
    assert statuses(given, "O3")["MS-M03"] == "Ignored"
    text = shown(given)
    survivors = text.partition("survivors")[2].partition("controls (")[0]
    assert "MS-M03" not in survivors
    rejects = text.partition("false rejects (")[2].partition("survivors")[0]
    assert ("O3        MS-M03" in rejects) is (verdict is R)
    assert text.index("false rejects (") < text.index("survivors") if verdict is R else True
    summary = step_summary(given.ledger, "0" * 64)
    assert ("rejected the control `MS-M03`" in summary) is (verdict is R)
    assert "Controls: right repairs" in given.markdown
    known = taken(given.ledger, "0" * 64)
    assert known.studies[study.id].scores["O3"].scored == 2
    assert compare(known, given.ledger).failed is False
    new = compare(Baseline(), given.ledger).studies[0].new
    assert any(str(one.what).startswith("O3: false reject of MS-M03") for one in new) is (
        verdict is R
    )


def test_without_a_valid_run_nothing_is_a_number(records: Records, study: Study) -> None:
    from pytest_sremut.study.verdict import Outcome

    for run in runs(study):
        records.attempt(run, Told(outcome=Outcome.INFRASTRUCTURE_FAILURE, until=State.HEALTHY))
    given = adjudicated(study, records.directory)
    for one in given.study["scores"]:
        assert (one["percent"], one["informedness"], one["scored"]) == (None, None, 0)
    assert "no score" in shown(given)
    assert "%" not in shown(given).partition("workload")[2].partition("two sides")[0]
