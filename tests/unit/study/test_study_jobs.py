"""The jobs of a CI matrix: every run in exactly one, selected by nothing but its own id."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from _pytest.mark.expression import Expression

from pytest_sremut.cli import main
from pytest_sremut.study.cells import cells, runs
from pytest_sremut.study.jobs import By, jobs, least_seconds
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.names import Check

ROOT = Path(__file__).resolve().parents[3]
MAIN = "missing_service_social_network"


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(ROOT, PurePosixPath(f"audits/{MAIN}/study.yaml"))


def chosen(keyword: str, study: Study) -> list[str]:
    """The runs of which `-k` chooses a cell; as pytest does, by a part of the item's name."""
    expression = Expression.compile(keyword)
    found = [
        cell.run.id
        for cell in cells(study)
        if expression.evaluate(lambda name, c=cell, **_: name in f"test_cell[{c.id}]")  # type: ignore[misc]
    ]
    return list(dict.fromkeys(found))


def test_by_run_each_job_chooses_its_run_alone(study: Study) -> None:
    many = replace(study, repetitions=101)  # r10 begins r100 and r101
    tricky = replace(study.mutants[0], id="MS-M0", slug="ms-m0")  # and ms-m0 begins ms-m01
    many = replace(many, mutants=(*many.mutants, tricky))
    found = jobs(many, by=By.RUN, profile="kind")
    assert [job.name for job in found] == [run.id for run in runs(many)]
    for job in (job for job in found if job.name.endswith(("r01", "r10", "r100"))):
        assert chosen(job.keyword, many) == [job.name]


def test_by_mutant_each_job_chooses_the_mutants_repetitions(study: Study) -> None:
    found = jobs(study, by=By.MUTANT, profile="kind")
    assert [(job.name, job.runs) for job in found] == [(f"ms-m0{n}", 3) for n in (1, 2, 3)]
    assert chosen(found[1].keyword, study) == [f"ms-m02-r0{n}" for n in (1, 2, 3)]


def test_by_study_a_job_chooses_everything(study: Study) -> None:
    (job,) = jobs(study, by=By.STUDY, profile="embedded")
    assert (job.keyword, job.runs, job.needs_benchmark) == ("", 9, False)
    assert job.path == f"audits/{MAIN}/study.yaml"


def test_the_protocols_own_waiting(study: Study) -> None:
    """kind: 60 s, three windows of ten rounds of 10 s and 1 s, two fresh ones of one round."""
    assert least_seconds(study, study.profiles["kind"]) == 60 + 3 * 10 * 11 + 2 * 11
    assert least_seconds(study, study.profiles["embedded"]) == pytest.approx(2 + 30 * 1.05 + 2.1)
    invariants = tuple(
        one for one in study.contract.invariants if Check(one.check) is not Check.REPAIR_PERSISTENCE
    )
    without = replace(study, contract=replace(study.contract, invariants=invariants))
    assert least_seconds(without, study.profiles["kind"]) == 60 + 3 * 10 * 11
    (job,) = jobs(study, by=By.STUDY, profile="kind")
    assert job.least_seconds == 9 * 412


# -- the command ----------------------------------------------------------------------------------


def matrix(*arguments: str) -> int:
    return main(["matrix", f"--root={ROOT}", *arguments])


def test_json_is_one_line_for_a_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix("--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    include = json.loads(line)["include"]
    assert {job["study"] for job in include} == {p.name for p in (ROOT / "audits").iterdir()}
    assert len({(job["study"], job["name"]) for job in include}) == len(include)
    assert include[0] == {
        "study": MAIN,
        "name": "ms-m01-r01",
        "path": f"audits/{MAIN}/study.yaml",
        "keyword": "[ms-m01-r01-",
        "runs": 1,
        "needs_benchmark": False,
        "least_seconds": 412,
    }


def test_without_a_benchmark_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix("--json", "--without-benchmark", "--by=study") == 0
    said = capsys.readouterr()
    assert {job["needs_benchmark"] for job in json.loads(said.out)["include"]} == {False}
    assert "left out: sregym_missing_service: it needs a benchmark's checkout" in said.err


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix(MAIN, "--by=study", "--profile=kind") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{MAIN}  all                 9 runs    61.8 min waiting",
        "1 job, at least 61.8 min of the protocol's own waiting in all",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["moon"], "found no study 'moon'; allowed: missing_service_social_network, "),
        (["--profile=moon"], "--profile: found 'moon', which missing_service_social_network"),
        (["--audits=nowhere"], "nowhere: found no study; allowed: none"),
        (
            ["sregym_missing_service", "--without-benchmark"],
            "found no job; allowed: at least one",
        ),
    ],
)
def test_misuse(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix(*arguments) == 2
    assert told in capsys.readouterr().err


def test_more_jobs_than_a_matrix_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_sremut.study.matrix_command._MOST_JOBS", 8)
    assert matrix(MAIN, "--json") == 2
    assert "found 9 jobs; allowed: 8 (a matrix has no more); --by mutant" in capsys.readouterr().err
