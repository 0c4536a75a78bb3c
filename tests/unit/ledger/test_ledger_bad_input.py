"""Evidence that is not as it was written: named, counted, never dropped, never a better score.

The base is a matrix in which O3 lets one mutant survive in one repetition only: whoever could make
that attempt disappear would raise O3's score from 66.7 to 100 %.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_world import Adjudicated, adjudicated
from records import MAIN, PINNED, ROOT, Records, Told

from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.study.cells import runs
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Outcome, State, Verdict

VICTIM = "ms-m02-r02"
GRADERS = ("O1", "O3", "O4", "contract")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    directory = tmp_path_factory.mktemp("base") / "evidence"
    records = Records(directory, study)
    for run in runs(study):
        survives = {(State.FAULTED, "O3"): Verdict.ACCEPT, (State.FAULTED, "O4"): Verdict.ACCEPT}
        records.attempt(run, Told(verdicts=survives) if run.id == VICTIM else None)
    return directory


@pytest.fixture
def evidence(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "evidence"))


@pytest.fixture(scope="module")
def before(base: Path, study: Study) -> Adjudicated:
    return adjudicated(study, base)


def attempt(evidence: Path, run: str = VICTIM) -> Path:
    return evidence / MAIN.parent.name / run / "a01"


def edited(path: Path, change: Callable[[Any], None]) -> None:
    """Edit a JSON file by hand, canonically, as somebody would who knows the form."""
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical_json(value))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def reordered(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))


def accepts(state: dict[str, Any]) -> None:
    for reading in state["readings"]:
        reading["verdict"] = "REJECT"


def version(value: dict[str, Any]) -> None:
    value["schema"] = value["schema"].replace("/v1", "/v2")


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def remove_entry(evidence: Path) -> None:
    for path in evidence.glob(f"attempts/*-{VICTIM}-*"):
        path.unlink()


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated record": (lambda e: truncated(attempt(e) / "record.json"), "record.json"),
    "truncated state": (lambda e: truncated(attempt(e) / "states/faulted.json"), "faulted.json"),
    "truncated journal": (lambda e: truncated(attempt(e) / "journal.jsonl"), "journal.jsonl"),
    "truncated sampler": (lambda e: truncated(attempt(e) / "sampler.jsonl"), "sampler.jsonl"),
    "edited state": (
        lambda e: edited(attempt(e) / "states/faulted.json", accepts), "states/faulted.json",
    ),
    "edited outcome": (
        lambda e: edited(attempt(e) / "record.json", lambda r: r.update(outcome="DRIVER_ABORTED")),
        "record.json",
    ),
    "edited entry": (
        lambda e: edited(
            next(e.glob(f"attempts/*-{VICTIM}-a01.closed.json")),
            lambda r: r.update(outcome="DRIVER_ABORTED"),
        ),
        "DRIVER_ABORTED",
    ),
    "entry of another mutant": (
        lambda e: edited(
            next(e.glob(f"attempts/*-{VICTIM}-a01.closed.json")),
            lambda r: r.update(mutant="MS-M01"),
        ),
        "MS-M01",
    ),
    "reordered journal": (lambda e: reordered(attempt(e) / "journal.jsonl"), "TAMPERED"),
    "foreign version of a state": (
        lambda e: edited(attempt(e) / "states/faulted.json", version), "sremut/state/v2",
    ),
    "foreign version of the record": (
        lambda e: edited(attempt(e) / "record.json", version), "sremut/record/v2",
    ),
    "foreign version of the identity": (
        lambda e: edited(attempt(e) / "attempt.json", version), "sremut/attempt/v2",
    ),
    "missing raw file": (
        lambda e: (attempt(e) / "raw/faulted-O3-isolated.json").unlink(),
        "raw/faulted-O3-isolated.json: missing",
    ),
    "changed raw file": (
        lambda e: (attempt(e) / "raw/faulted-O3-isolated.json").write_text('{"success":false}'),
        "raw/faulted-O3-isolated.json",
    ),
    "changed log": (
        lambda e: append(attempt(e) / "raw/workload-faulted.log", b"x"), "workload-faulted.log",
    ),
    "added raw file": (
        lambda e: (attempt(e) / "raw/more.json").write_text("{}"), "nothing in the record speaks",
    ),
    "missing state": (
        lambda e: (attempt(e) / "states/faulted.json").unlink(), "states/faulted.json: missing",
    ),
    "missing record": (lambda e: (attempt(e) / "record.json").unlink(), "record.json: missing"),
    "missing closing entry": (
        lambda e: next(e.glob(f"attempts/*-{VICTIM}-a01.closed.json")).unlink(),
        "no closing entry, yet there is a record",
    ),
    "missing opening entry": (
        lambda e: next(e.glob(f"attempts/*-{VICTIM}-a01.open.json")).unlink(), "open.json: missing",
    ),
    "missing entries": (remove_entry, "the ledger of attempts does not know it"),
    "missing directory": (lambda e: shutil.rmtree(attempt(e)), "attempt.json: missing"),
    "swapped states": (
        lambda e: shutil.copy(
            attempt(e, "ms-m02-r01") / "states/faulted.json", attempt(e) / "states/faulted.json"
        ),
        "states/faulted.json",
    ),
    "swapped attempt": (
        lambda e: (
            shutil.rmtree(attempt(e)), shutil.copytree(attempt(e, "ms-m02-r01"), attempt(e)),
        ),
        "ms-m02-r01",
    ),
    "link in the place of a file": (
        lambda e: (
            (attempt(e) / "raw/faulted-O3-isolated.json").unlink(),
            (attempt(e) / "raw/faulted-O3-isolated.json").symlink_to(
                attempt(e, "ms-m02-r01") / "raw/faulted-O3-isolated.json"
            ),
        ),
        "a symbolic link",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_never_a_better_score(
    evidence: Path, before: Adjudicated, study: Study, damage: str
) -> None:
    change, named = DAMAGE[damage]
    change(evidence)
    found = adjudicated(study, evidence)
    # Named, with the run it belongs to, and counted.
    assert any(named in problem and VICTIM in problem for problem in found.problems), found.problems
    # Not dropped: it stands in the ledger, not counted, and its cells are not judged.
    assert found.attempt(VICTIM)["damaged"]
    assert not found.attempt(VICTIM)["counted"]
    assert [m["run"] for m in found.study["runs_without_valid_attempt"]] == [VICTIM]
    assert named in found.markdown.replace("\\", "")
    # Never a better score.
    for grader in GRADERS:
        score, reference = found.percent(grader), before.percent(grader)
        assert score is None or (reference is not None and score <= reference), grader
    assert found.fates("O3")["MS-M02"] == "unproven"


def test_the_base_is_what_makes_the_test_sharp(before: Adjudicated) -> None:
    assert before.fates("O3")["MS-M02"] == "unstable"
    assert before.percent("O3") == pytest.approx(66.6667)
    assert before.problems == []


def test_everything_damaged_is_no_score(evidence: Path, study: Study) -> None:
    for path in evidence.glob("*/*/a01/record.json"):
        truncated(path)
    found = adjudicated(study, evidence)
    assert [found.percent(grader) for grader in GRADERS] == [None] * 4
    assert len(found.study["runs_without_valid_attempt"]) == 9


def test_an_attempt_that_was_taken_away_leaves_a_gap(evidence: Path, study: Study) -> None:
    remove_entry(evidence)
    shutil.rmtree(attempt(evidence))
    found = adjudicated(study, evidence)
    assert "attempts/: number 5 is missing; an attempt was taken away" in found.problems
    assert [m["run"] for m in found.study["runs_without_valid_attempt"]] == [VICTIM]


def test_a_strange_file_among_the_entries_is_told(evidence: Path, study: Study) -> None:
    (evidence / "attempts" / "notes.txt").write_text("x")
    found = adjudicated(study, evidence)
    assert any("notes.txt" in problem for problem in found.problems)


def test_an_attempt_copied_as_a_second_one_is_told(
    evidence: Path, study: Study, before: Adjudicated
) -> None:
    shutil.copytree(
        attempt(evidence, "ms-m01-r01"), attempt(evidence, "ms-m01-r01").with_name("a02")
    )
    found = adjudicated(study, evidence)
    assert any("ms-m01-r01/a02" in problem for problem in found.problems)
    assert found.attempt("ms-m01-r01", 2)["damaged"]
    assert found.attempt("ms-m01-r01", 1)["counted"]
    assert found.percent("O3") <= before.percent("O3")  # type: ignore[operator]


def test_an_entry_copied_under_another_number_is_told(evidence: Path, study: Study) -> None:
    for event in ("open", "closed"):
        path = next(evidence.glob(f"attempts/*-ms-m01-r01-a01.{event}.json"))
        shutil.copy(path, path.with_name(f"000010-ms-m01-r01-a01.{event}.json"))
    found = adjudicated(study, evidence)
    assert any("000010-ms-m01-r01-a01" in problem for problem in found.problems)


def test_evidence_of_another_study_is_told(evidence: Path, study: Study) -> None:
    pinned = load_study(ROOT, PINNED)
    Records(evidence, pinned).matrix()
    found = adjudicated(study, evidence)
    assert found.ledger["foreign"] == [
        {
            "study": "pinned_endpoints_social_network",
            "run": "ms-m04-r01",
            "attempt": 1,
            "evidence": 1,
            "directory": "pinned_endpoints_social_network/ms-m04-r01/a01",
        }
    ]
    assert any("no study of this project" in problem for problem in found.problems)


def test_evidence_of_the_study_as_it_was_before_an_edit_is_told(
    tmp_path: Path, study: Study
) -> None:
    records = Records(tmp_path / "evidence", study)
    records.files = {**records.files, "predictions": "f" * 64}
    records.matrix()
    found = adjudicated(study, records.directory)
    assert len(found.problems) == 9
    assert "made under another study: predictions ffffffffffffffff, here" in found.problems[0]
    assert [found.percent(grader) for grader in GRADERS] == [None] * 4


def test_a_run_that_the_study_does_not_have_is_told(tmp_path: Path, study: Study) -> None:
    records = Records(tmp_path / "evidence", replace(study, repetitions=4))
    records.matrix()
    found = adjudicated(study, records.directory)
    assert len(found.problems) == 3
    assert "the study has no run 'ms-m01-r04'" in found.problems[0]
    assert found.study["totals"]["oracle_cells"]["of"] == 81


def test_a_run_of_another_mutant_is_told(tmp_path: Path, study: Study) -> None:
    records = Records(tmp_path / "evidence", study)
    first = next(iter(runs(study)))
    records.attempt(first, Told(mutant="MS-M09"))
    found = adjudicated(study, records.directory)
    assert "it names mutant MS-M09, the run is of MS-M01" in found.problems[0]
    assert found.fates("O3")["MS-M01"] == "unproven"


def test_half_written_attempts_are_told_and_hold_together(tmp_path: Path, study: Study) -> None:
    records = Records(tmp_path / "evidence", study)
    for number, run in enumerate(runs(study)):
        outcome = None if number == 4 else Outcome.COMPLETE
        until = State.FAULTED if number == 4 else State.RESTORED
        records.attempt(run, Told(outcome=outcome, until=until))
    journal = attempt(records.directory) / "journal.jsonl"
    truncated(journal)  # within a line: what a crash leaves
    found = adjudicated(study, records.directory)
    assert found.problems == []
    assert [m["run"] for m in found.study["runs_without_valid_attempt"]] == [VICTIM]
    assert "the process died" in found.study["runs_without_valid_attempt"][0]["why"]


def test_counts_that_do_not_add_up_are_told(tmp_path: Path, study: Study) -> None:
    from records import _Writer

    class Liar(_Writer):
        def _workload(self, state: State) -> dict[str, Any]:
            return {**super()._workload(state), "failures": 0}

    records = Records(tmp_path / "evidence", study)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("records._Writer", Liar)
        records.matrix()
    found = adjudicated(study, records.directory)
    assert any("its rounds add up to" in problem for problem in found.problems)
    assert found.percent("O3") is None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, study: Study) -> tuple[Study, Path]:
    """Two repetitions of one mutant, of which O3 lets one survive."""
    less = replace(study, repetitions=2, mutants=study.mutants[1:2])
    directory = tmp_path_factory.mktemp("small") / "evidence"
    records = Records(directory, less)
    for run in runs(less):
        survives = {(State.FAULTED, "O3"): Verdict.ACCEPT, (State.FAULTED, "O4"): Verdict.ACCEPT}
        records.attempt(run, Told(verdicts=survives) if run.id == VICTIM else None)
    return less, directory


def test_no_single_changed_byte_ever_makes_a_better_score(small: tuple[Study, Path]) -> None:
    study, evidence = small
    reference = adjudicated(study, evidence)
    scores = {grader: reference.percent(grader) for grader in GRADERS}
    chance = random.Random(20260829)
    files = sorted(p for p in evidence.rglob("*.json*") if not p.name.startswith("."))
    for path in files:
        original = path.read_bytes()
        for _ in range(2):
            place = chance.randrange(len(original))
            byte = chance.choice([b for b in range(256) if b != original[place]])
            path.write_bytes(original[:place] + bytes([byte]) + original[place + 1 :])
            found = adjudicated(study, evidence)
            assert found.problems, (path, place, byte)
            for grader, before in scores.items():
                score = found.percent(grader)
                assert score is None or (before is not None and score <= before), (path, place)
        path.write_bytes(original)
