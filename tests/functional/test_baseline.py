"""`--sremut-baseline` and `sremut baseline`: what is known does not fail, what is new does."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from recorded import Recorded, recorded
from records import Records, main_study, no_fsync

from pytest_sremut.cli import main
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.ledger.baseline.comparison import taken
from pytest_sremut.ledger.baseline.document import baseline_bytes
from pytest_sremut.ledger.renderings.store import MARK
from pytest_sremut.study.cells import runs
from pytest_sremut.study.verdict import State, Verdict

__all__ = ["recorded"]

STUDY = "missing_service_social_network"
SELECT = ("--sremut-adjudicate", "-m", "mutant", "-k", STUDY)
SOUND = (*SELECT, "--sremut-require=soundness", "--sremut-baseline=known.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a complete matrix gave: its evidence, its ledger and the baseline of that."""

    evidence: Path
    ledger: bytes
    baseline: bytes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Made once, and copied into each test's project."""
    from ledger_world import adjudicated  # beside `records`, to which `recorded` knows the way

    directory = tmp_path_factory.mktemp("made") / "evidence"
    with pytest.MonkeyPatch.context() as patch, no_fsync(patch):
        Records(directory, main_study()).matrix()
    judged = adjudicated(main_study(), directory)
    baseline = baseline_bytes(taken(judged.ledger, sha256(judged.data)))
    return Made(evidence=directory, ledger=judged.data, baseline=baseline)


@pytest.fixture
def whole(recorded: Recorded, made: Made) -> Recorded:
    """Records of a complete matrix, its ledger, and the baseline that was made from that."""
    shutil.copytree(made.evidence, recorded.directory, dirs_exist_ok=True)
    (recorded.root / ".sremut" / "ledger.json").write_bytes(made.ledger)
    (recorded.root / ".sremut" / "ledger.md").write_text(f"{MARK}\n")
    (recorded.root / "known.json").write_bytes(made.baseline)
    return recorded


def again(recorded: Recorded, **told: object) -> str:
    """The matrix once more, in a directory of its own; the option that names it."""
    recorded.matrix(recorded.root / "again", **told)  # type: ignore[arg-type]
    return "--sremut-evidence=again"


@pytest.mark.parametrize(("how", "deselected"), [("-pno:xdist", 12), ("-n2", 0)])
def test_known_disagreements_are_expected_failures(
    whole: Recorded, pytester: pytest.Pytester, how: str, deselected: int
) -> None:
    result = pytester.runpytest_subprocess(*SOUND, "-rx", "--sremut-report=md:page.md", how)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=99, xfailed=9, deselected=deselected)
    result.stdout.fnmatch_lines(
        [
            "sremut: baseline known.json: 3 known disagreements seen, 0 new, 0 stale, 0 not read",
            "XFAIL *ms-m01-r01-faulted-O1] - known: in-process: false accept: *; known: isolated:*",
        ]
    )
    page = (whole.root / "page.md").read_text()
    assert page.startswith("- baseline known.json: 3 known disagreements seen, 0 new")


def test_a_new_disagreement_fails_its_cell_and_is_told(
    whole: Recorded, pytester: pytest.Pytester
) -> None:
    """And an error beside a known disagreement fails: it is no verdict, so it is never known."""
    accepts = whole.told(by_instrument={(State.FAULTED, "O3", "isolated"): Verdict.ACCEPT})
    breaks = whole.told(by_instrument={(State.FAULTED, "O1", "isolated"): Verdict.ERROR})
    given = again(whole, ms_m02_r01=accepts, ms_m03_r01=breaks)
    result = pytester.runpytest_inprocess(*SOUND, given, "-p", "no:xdist")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=98, xfailed=8, failed=2, deselected=12)
    result.stdout.fnmatch_lines(
        [
            f"{STUDY} ms-m02-r01-faulted-O3 (attempt 1)",
            "  isolated: false accept: ACCEPT, while the contract says REJECT {*}",
            f"{STUDY} ms-m03-r01-faulted-O1 (attempt 1)",
            "  isolated: ERROR: *",
            "  known: in-process: false accept: ACCEPT, *",
            "sremut: baseline known.json: 3 known disagreements seen, 1 new, *, 1 scores lower",
            f"  new: {STUDY}: O3: false accept of MS-M02, faulted (1 of 6 readings)",
        ]
    )


def test_what_vanished_is_told_and_what_is_missing_fails(
    whole: Recorded, pytester: pytest.Pytester
) -> None:
    builder = whole.records(whole.root / "again")
    told = whole.told(verdicts={(State.FAULTED, "O1"): Verdict.REJECT})
    for run in runs(whole.study):
        if run.mutant != "MS-M02":
            builder.attempt(run, told if run.mutant == "MS-M03" else None)
    result = pytester.runpytest_inprocess(*SOUND, "--sremut-evidence=again", "-p", "no:xdist")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=69, xfailed=3, errors=36, deselected=12)
    result.stdout.fnmatch_lines(
        [
            "sremut: baseline known.json: 1 known disagreements seen, 0 new, 1 stale, 1 not read",
            f"  baseline is stale: {STUDY}: O1: false accept of MS-M03, *: none of 6 readings",
            f"  not read: {STUDY}: 1 known disagreements",
        ]
    )


def test_under_edited_mutants_nothing_is_known(whole: Recorded, pytester: pytest.Pytester) -> None:
    """The same ids, other bytes: what MS-M01 is has changed, whatever it is called."""
    registry = whole.root / "mutants" / "missing_service.yaml"
    registry.write_text(registry.read_text() + "\n# edited\n")
    edited = Recorded(whole.root)
    edited.matrix(whole.root / "again")
    result = pytester.runpytest_inprocess(*SOUND, "--sremut-evidence=again", "-p", "no:xdist")
    result.assert_outcomes(passed=99, failed=9, deselected=12)
    result.stdout.fnmatch_lines([f"  does not apply: {STUDY}: made under other mutants: *"])


def test_the_ini_file_names_it_from_the_root(whole: Recorded, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsremut_require = soundness\nsremut_baseline = known.json\n")
    chosen = ("-k", f"{STUDY} and ms-m01-r01 and faulted", "-p", "no:xdist")
    result = pytester.runpytest_inprocess(*SELECT, *chosen)
    result.assert_outcomes(passed=3, xfailed=1, deselected=116)


def test_misuse_stops_before_anything(recorded: Recorded, pytester: pytest.Pytester) -> None:
    (recorded.root / "bad.json").write_text('{"schema": "sremut/baseline/v1", "studies": 7}')
    live = ("-m", "mutant", "--sremut-exploratory", "--sremut-baseline=bad.json")
    judging = ("--sremut-adjudicate", "--sremut-baseline=bad.json", "-p", "no:xdist")
    bad = "bad.json: studies (line 1, column *): found 7; allowed: a mapping"
    for result, told in (
        (pytester.runpytest_subprocess(*live, "--sremut-require=soundness", "-n2"), bad),
        (pytester.runpytest_inprocess(*judging, "--sremut-require=soundness"), bad),
        (pytester.runpytest_inprocess(*judging), "allowed only with --sremut-require=soundness"),
    ):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*--sremut-baseline: {told}"])


# -- the command ----------------------------------------------------------------------------------


def test_the_command_never_overwrites_unasked(
    whole: Recorded, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, file = ".sremut/ledger.json", whole.root / "known.json"
    before = file.read_bytes()
    assert main(["baseline", ledger, "-o", "known.json"]) == 2
    assert "known.json: exists already; --update changes it" in capsys.readouterr().err
    assert file.read_bytes() == before
    value = json.loads(before)
    del value["studies"][STUDY]["disagreements"]["O1"]["MS-M02"]
    file.write_text(json.dumps(value))
    assert main(["baseline", ledger, "-o", "known.json", "--update"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"+ {STUDY}: O1: false accept of MS-M02, faulted",
        "known.json: 3 known disagreements in 1 studies",
    ]
    assert file.read_bytes() == before


def test_nothing_is_taken_from_evidence_that_does_not_hold(
    whole: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    file = whole.root / ".sremut" / "ledger.json"
    value = json.loads(file.read_bytes())
    value["problems"] = [{"evidence": 1, "problem": "a file is missing"}]
    file.write_text(json.dumps(value))
    assert main(["baseline", ".sremut/ledger.json", "-o", "other.json"]) == 1
    told = "its evidence does not hold together, so nothing is taken from it: a file is missing"
    assert told in capsys.readouterr().err
    assert not (whole.root / "other.json").exists()


@pytest.mark.parametrize("command", [["baseline", "-o", "x.json"], ["scores"]])
def test_what_is_no_ledger(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some.json").write_text("{}")
    for name, told in (("some.json", "found no key"), ("none.json", "cannot be read: No such")):
        assert main([command[0], name, *command[1:]]) == 1
        assert f"sremut: {name}" in (said := capsys.readouterr().err)
        assert told in said
    assert not Path("x.json").exists()


def test_scores_are_one_line(whole: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", ".sremut/ledger.json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)[STUDY]["O1"] == {"killed": 0, "scored": 3, "percent": 0}
