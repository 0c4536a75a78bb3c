"""What makes a cell fail, and what its letter says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from pytest_sremut.session.cellreport import CellReport, Observed, requirement_of
from pytest_sremut.study.cells import cells
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import ContractVerdict, Expectation, State

ROOT = Path(__file__).resolve().parents[3]
FILE = PurePosixPath("audits/missing_service_social_network/study.yaml")


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(ROOT, FILE)


def report(
    study: Study,
    verdict: str,
    contract: ContractVerdict,
    *,
    state: State = State.FAULTED,
    oracle: str = "O3",
) -> CellReport:
    (cell,) = [
        one
        for one in cells(study)
        if (one.run.id, one.state, one.oracle) == ("ms-m01-r01", state, oracle)
    ]
    return CellReport(
        study=study,
        cell=cell,
        attempt=1,
        registration="EXPLORATORY",
        evidence="e",
        requirement=requirement_of(study, "predictions"),
        observed=(Observed(instrument="in-process", verdict=verdict, detail=""),),
        contract=contract,
        violated=frozenset(),
    )


PASS, REJECT = ContractVerdict.PASS, ContractVerdict.REJECT


@pytest.mark.parametrize(
    ("verdict", "contract", "state", "fails"),
    [
        ("ACCEPT", REJECT, State.FAULTED, True),  # an always-accepting grader does not end green
        ("REJECT", REJECT, State.FAULTED, False),
        ("REJECT", PASS, State.HEALTHY, True),  # nor does one that always rejects
        ("ACCEPT", PASS, State.RESTORED, False),
        ("ERROR", REJECT, State.FAULTED, True),
    ],
)
def test_without_predictions_a_grader_must_agree_with_the_contract(
    study: Study, verdict: str, contract: ContractVerdict, state: State, fails: bool
) -> None:
    open_study = replace(study, predictions=None)
    assert bool(report(open_study, verdict, contract, state=state).problems()) is fails


def test_predictions_decide_where_there_are_any(study: Study) -> None:
    assert requirement_of(study, "predictions") == "predictions"
    assert requirement_of(study, "soundness") == "soundness"
    assert not report(study, "ACCEPT", REJECT, oracle="O1").problems()  # O1 is predicted blind


@pytest.mark.parametrize(
    ("verdict", "contract", "expect", "fate"),
    [
        ("ACCEPT", REJECT, Expectation.REJECT, "SURVIVED"),
        ("REJECT", REJECT, Expectation.REJECT, "KILLED"),
        ("ACCEPT", PASS, Expectation.REJECT, "EQUIVALENT"),
        ("ACCEPT", PASS, Expectation.ACCEPT, "ACCEPTED"),
        ("REJECT", PASS, Expectation.ACCEPT, "REJECTED"),
        ("ERROR", PASS, Expectation.REJECT, "ERROR"),
    ],
)
def test_the_letter_of_a_faulted_cell(
    study: Study, verdict: str, contract: ContractVerdict, expect: Expectation, fate: str
) -> None:
    changed = replace(study, mutants=tuple(replace(one, expect=expect) for one in study.mutants))
    assert report(changed, verdict, contract).fate() == fate
