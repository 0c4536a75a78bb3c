"""Records in, ledger out: what counts, what is said of it, and that nothing else goes in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_world import Adjudicated, adjudicate, adjudicated, inputs
from records import ROOT, Records, Told, pod_down

from pytest_sremut.ledger.judge import ConflictError
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Run, Study
from pytest_sremut.study.verdict import Outcome, Registration, State, Verdict

A, R, E = Verdict.ACCEPT, Verdict.REJECT, Verdict.ERROR
F, H = State.FAULTED, State.HEALTHY
Judge = Callable[..., Adjudicated]


def run_of(study: Study, name: str) -> Run:
    return next(run for run in runs(study) if run.id == name)


def rest(records: Records, *names: str) -> None:
    """As predicted, every run but these."""
    for run in runs(records.study):
        if run.id not in names:
            records.attempt(run)


# -- the complete matrix ------------------------------------------------------------------------


def test_a_complete_matrix(judged_whole: Adjudicated) -> None:
    study = judged_whole.study
    assert judged_whole.ledger["problems"] == []
    assert judged_whole.ledger["kind"] == "EXPLORATORY"
    assert study["runs_without_valid_attempt"] == []
    totals = study["totals"]
    assert totals["oracle_readings"]["of"] == totals["oracle_readings"]["matched"] == 9 * 3 * 6
    assert totals["oracle_cells"]["of"] == totals["oracle_cells"]["matched"] == 9 * 3 * 3
    assert totals["contract_cells"]["of"] == totals["contract_cells"]["matched"] == 9 * 3
    assert totals["table_cells"]["of"] == totals["table_cells"]["matched"] == 3 * 5
    assert [judged_whole.percent(g) for g in ("O1", "O3", "O4", "contract")] == [0, 100, 100, 100]
    assert study["surprises"] == []
    assert all(rule["fired"] == 0 for rule in study["falsification"])
    assert all(row["agree"] for row in study["violated"])
    assert all(row["agreed"] == row["compared"] == 27 for row in study["agreement"])
    assert all(row["identical"] for row in study["instruments"])
    (composed,) = study["compositions"]
    assert (composed["equal"], composed["compared"]) == (54, 54)


def test_false_accepts_have_denominators(judged_whole: Adjudicated) -> None:
    rows = {row["oracle"]: row for row in judged_whole.study["disagreements"]}
    assert (rows["O1"]["false_accepts"], rows["O1"]["of_contract_rejects"]) == (18, 18)
    assert (rows["O1"]["false_rejects"], rows["O1"]["of_contract_passes"]) == (0, 36)
    assert (rows["O3"]["false_accepts"], rows["O3"]["of_contract_rejects"]) == (0, 18)


def test_windows_and_quantities(judged_whole: Adjudicated) -> None:
    study = judged_whole.study
    (row,) = [r for r in study["windows"] if r["run"] == "ms-m02-r01" and r["state"] == F.value]
    assert (row["requests"], row["failures"], row["rounds"]) == (270, 30, 10)
    assert row["per_round"] == [[27, 3]] * 10
    assert row["retained_full_window"]["percent"] == row["retained_post_mutation"]["percent"] == 24
    assert row["retained_full_window"]["healthy_successes"] == 1000
    quantities = {q["id"]: q for q in study["quantities"]}
    assert (quantities["Q1"]["matched"], quantities["Q1"]["missed"]) == (9, 0)
    assert quantities["Q1"]["matched_interval_percent"] == [70.0855, 100]
    assert quantities["Q3"]["compared"][0]["interval_percent"] == [8.2909, 12.0152]
    # A volume is no proportion of trials: it has no binomial interval.
    assert quantities["Q5"]["compared"][0]["interval_percent"] is None


def test_a_number_is_compared_under_the_profile_that_it_is_predicted_for(
    judged_whole: Adjudicated,
) -> None:
    quantities = {q["id"]: q for q in judged_whole.study["quantities"]}
    # All ran under `embedded`: what is predicted for `kind` is neither matched nor missed.
    assert len(quantities["Q5"]["compared"]) == 3
    assert quantities["Q7"]["compared"] == []
    assert (quantities["Q7"]["matched"], quantities["Q7"]["missed"]) == (0, 0)


def test_no_interval_without_independent_draws(records: Records, study: Study) -> None:
    """Exact cycles are one sample however often they are repeated, and so is one seed twice."""
    cycles = {"ms_m01_r01": Told(drawn=False), "ms_m02_r01": Told(drawn_as="ms-m02-r02")}
    records.matrix(**cycles)
    found = adjudicated(study, records.directory).study
    quantities = {q["id"]: q for q in found["quantities"]}
    assert quantities["Q3"]["compared"][0]["interval_percent"] is None
    assert quantities["Q3"]["compared"][1]["interval_percent"] == [8.2909, 12.0152]
    assert quantities["Q3"]["matched_interval_percent"] is None
    assert quantities["Q4"]["matched_interval_percent"] == [43.8503, 100]
    assert quantities["Q6"]["matched_interval_percent"] is None  # two runs with one seed
    (limit,) = [one for one in found["limits"] if one["limit"] == "requests-not-drawn"]
    assert (limit["count"], limit["of"]) == (3, 27)


def test_a_second_instrument_narrows_no_interval(tmp_path: Path, study: Study) -> None:
    """Two instruments that agree look at the same runs and the same load."""
    alone = replace(
        study,
        oracles=tuple(replace(one, instruments=one.instruments[:1]) for one in study.oracles),
    )
    found = []
    for name, one in (("both", study), ("alone", alone)):
        Records(tmp_path / name, one).matrix()
        found.append(adjudicated(one, tmp_path / name).study)
    both, single = found
    for block in ("quantities", "retained"):
        assert [{**row, "from": 0} for row in both[block]] == [
            {**row, "from": 0} for row in single[block]
        ]
    for with_two, with_one in zip(both["scores"], single["scores"], strict=True):
        for name in ("killed", "scored", "percent", "wrong_rejected", "right_accepted"):
            assert with_two[name] == with_one[name]


def test_no_percentage_comes_of_load_that_was_not_driven(records: Records, study: Study) -> None:
    records.matrix(ms_m02_r01=Told(undelivered=(State.FAULTED,)))
    found = adjudicated(study, records.directory).study
    (row,) = [row for row in found["retained"] if row["mutant"] == "MS-M02"]
    assert row["post_mutation"]["retained_percent"] == [24, 24]  # of the other two runs
    assert not [
        row for row in found["windows"] if (row["run"], row["state"]) == ("ms-m02-r01", F.value)
    ]


# -- purity -------------------------------------------------------------------------------------

_ELSEWHERE = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ledger_world import adjudicated
from records import main_study
found = adjudicated(main_study(), *map(Path, sys.argv[3:]))
Path(sys.argv[2]).write_bytes(found.data + found.markdown.encode())
"""


def elsewhere(tmp_path: Path, directories: list[Path], **environment: str) -> bytes:
    """The ledger as another process makes it, in another place, locale and time zone."""
    out = tmp_path / "out"
    support = str(Path(__file__).parents[1] / "support")
    command = [sys.executable, "-c", _ELSEWHERE, support, str(out), *map(str, directories)]
    place = tmp_path / "somewhere else"
    place.mkdir(exist_ok=True)
    subprocess.run(command, check=True, cwd=place, env={**os.environ, **environment})
    return out.read_bytes()


def split(whole: Path, tmp_path: Path, study: Study) -> list[Path]:
    """The matrix as a CI matrix would hand it in: a directory for each repetition."""
    directories = []
    for repetition in (1, 2, 3):
        directory = tmp_path / f"job-{repetition}"
        builder = Records(directory, study)
        builder.clock.seconds = 1000.0 * repetition
        for run in runs(study):
            if run.repetition == repetition:
                builder.attempt(run)
        directories.append(directory)
    return directories


def test_same_records_same_ledger_wherever_and_in_whatever_order(
    whole: Path, tmp_path: Path, study: Study
) -> None:
    directories = split(whole, tmp_path, study)
    here = adjudicated(study, *directories)
    expected = here.data + here.markdown.encode()
    moved = [Path(shutil.move(d, tmp_path / f"moved-{n}")) for n, d in enumerate(directories)]
    found = elsewhere(
        tmp_path, moved[::-1], TZ="Pacific/Kiritimati", LC_ALL="C", PYTHONHASHSEED="77"
    )
    assert found == expected
    assert str(tmp_path).encode() not in found
    assert str(ROOT).encode() not in found
    assert here.study["totals"]["oracle_readings"]["of"] == 162


def test_the_order_of_the_studies_changes_nothing(whole: Path, study: Study) -> None:
    from records import PINNED

    from pytest_sremut.study.load import load_study

    both = inputs([study, load_study(ROOT, PINNED)])
    assert adjudicate(both, whole).data == adjudicate(both[::-1], whole).data


# -- what counts --------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.COMPLETE])
def test_an_invalid_attempt_is_told_and_not_counted(
    records: Records, judge_it: Judge, outcome: Outcome
) -> None:
    rest(records, "ms-m01-r01")
    records.attempt(
        run_of(records.study, "ms-m01-r01"), Told(outcome=outcome, reason="why", until=H)
    )
    found = judge_it(records.directory)
    attempt = found.attempt("ms-m01-r01")
    assert (attempt["outcome"], attempt["counted"]) == (outcome.value, False)
    (missing,) = found.study["runs_without_valid_attempt"]
    assert missing["run"] == "ms-m01-r01"
    assert f"{outcome.value}: why" in missing["why"]
    assert found.study["totals"]["oracle_cells"]["of"] == 8 * 9
    assert found.problems == []  # it holds together: it says that it failed


def test_an_attempt_that_died_is_told(records: Records, judge_it: Judge) -> None:
    records.attempt(run_of(records.study, "ms-m01-r01"), Told(outcome=None, until=F))
    found = judge_it(records.directory)
    assert found.attempt("ms-m01-r01")["outcome"] is None
    assert "died" in found.attempt("ms-m01-r01")["reason"]
    assert found.percent("O3") is None
    assert found.percent("O1") is None


def test_no_record_is_no_score(records: Records, judge_it: Judge) -> None:
    found = judge_it(records.directory)
    assert found.ledger["kind"] is None
    assert found.percent("contract") is None
    assert len(found.study["runs_without_valid_attempt"]) == 9


def test_a_retry_after_an_infrastructure_failure_counts(records: Records, judge_it: Judge) -> None:
    run = run_of(records.study, "ms-m01-r01")
    records.attempt(run, Told(outcome=Outcome.INFRASTRUCTURE_FAILURE, until=H))
    rest(records)
    found = judge_it(records.directory)
    assert [a["counted"] for a in found.study["attempts"]][:2] == [False, True]
    assert found.study["runs_without_valid_attempt"] == []


def test_an_error_is_no_verdict(records: Records, judge_it: Judge) -> None:
    rest(records, "ms-m01-r01")
    records.attempt(
        run_of(records.study, "ms-m01-r01"),
        Told(by_instrument={(F, "O3", "isolated"): E}),
    )
    found = judge_it(records.directory)
    assert found.fates("O3")["MS-M01"] == "unscored"
    (agreement,) = [r for r in found.study["agreement"] if r["oracle"] == "O3"]
    assert (agreement["agreed"], agreement["compared"]) == (26, 27)
    assert agreement["differ"][0]["verdicts"] == {"in-process": "REJECT", "isolated": "ERROR"}
    assert [s["meaning"] for s in found.study["surprises"]] == ["INVESTIGATE"]


# -- unexpected readings --------------------------------------------------------------------------


def rejecting(pods: list[dict[str, object]]) -> Told:
    """O1 rejects the faulted state, with these pods in the samples from its begin on."""
    return Told(verdicts={(F, "O1"): R, (F, "O4"): R}, samples={F: pods})


QUIET, DOWN = pod_down(), pod_down("user-service-1")


@pytest.mark.parametrize(
    ("pods", "meaning", "outcome", "rules"),
    [
        ([QUIET] * 16, "PREDICTION_FALSIFIED", "COMPLETE", {"F1"}),
        ([DOWN] * 6 + [QUIET] * 10, "HARNESS_TIMING_FAILURE", "HARNESS_TIMING_FAILURE", set()),
        ([DOWN] * 16, "RESEARCH_VERDICT", "COMPLETE", {"F3"}),
        ([{"failed": "no answer"}] * 16, "INVESTIGATE", "COMPLETE", set()),
        # The grader's own probe pod is not the application.
        ([pod_down("service-connectivity-check-ab")] * 6 + [QUIET] * 10, "PREDICTION_FALSIFIED",
         "COMPLETE", {"F1"}),
    ],
)  # fmt: skip
def test_the_sampler_decides_what_a_rejection_was(
    records: Records,
    judge_it: Judge,
    pods: list[dict[str, object]],
    meaning: str,
    outcome: str,
    rules: set[str],
) -> None:
    rest(records, "ms-m01-r01")
    records.attempt(run_of(records.study, "ms-m01-r01"), rejecting(pods))
    found = judge_it(records.directory)
    meanings = {s["meaning"] for s in found.study["surprises"] if s["grader"] == "O1"}
    assert meanings == {meaning}
    attempt = found.attempt("ms-m01-r01")
    assert (attempt["recorded"], attempt["outcome"]) == ("COMPLETE", outcome)
    assert attempt["counted"] is (outcome == "COMPLETE")
    fired = {rule["rule"] for rule in found.study["falsification"] if rule["fired"]}
    # A rejection that stands also makes the repetitions differ.
    assert fired == (rules | {"F9"} if outcome == "COMPLETE" else set())


def test_pods_repaired_only_by_our_restoration_did_not_recover(
    records: Records, judge_it: Judge
) -> None:
    rest(records, "ms-m01-r01")
    told = replace(rejecting([DOWN] * 40), until=State.RESTORED)
    records.attempt(run_of(records.study, "ms-m01-r01"), told)
    found = judge_it(records.directory)
    assert {s["meaning"] for s in found.study["surprises"]} == {"RESEARCH_VERDICT"}


def test_without_a_timeline_somebody_looks(records: Records, judge_it: Judge) -> None:
    rest(records, "ms-m01-r01")
    told = replace(rejecting([]), sampler=False)
    records.attempt(run_of(records.study, "ms-m01-r01"), told)
    found = judge_it(records.directory)
    assert {s["meaning"] for s in found.study["surprises"]} == {"INVESTIGATE"}
    assert "unexplained-rejection" in {limit["limit"] for limit in found.study["limits"]}


@pytest.mark.parametrize(
    ("active", "meaning", "outcome"),
    [
        (True, "CONTRACT_INSUFFICIENT", "COMPLETE"),
        (False, "MUTANT_ACTIVATION_FAILURE", "MUTANT_ACTIVATION_FAILURE"),
    ],
)
def test_oracle_and_contract_both_pass(
    records: Records, judge_it: Judge, active: bool, meaning: str, outcome: str
) -> None:
    rest(records, "ms-m01-r01")
    told = Told(verdicts={(F, "O3"): A, (F, "O4"): A}, violated={F: ()}, active=active)
    records.attempt(run_of(records.study, "ms-m01-r01"), told)
    found = judge_it(records.directory)
    assert {s["meaning"] for s in found.study["surprises"]} == {meaning}
    assert found.attempt("ms-m01-r01")["outcome"] == outcome


def test_oracle_rejects_contract_passes(records: Records, judge_it: Judge) -> None:
    rest(records, "ms-m01-r01")
    records.attempt(run_of(records.study, "ms-m01-r01"), Told(violated={F: ()}))
    found = judge_it(records.directory)
    by_grader = {s["grader"]: s["meaning"] for s in found.study["surprises"]}
    assert by_grader["O3"] == "INVESTIGATE"
    assert by_grader["contract"] == "CONTRACT_INSUFFICIENT"
    rows = {row["oracle"]: row for row in found.study["disagreements"]}
    assert (rows["O3"]["false_rejects"], rows["O3"]["of_contract_passes"]) == (2, 38)


def test_repetitions_that_differ_are_told_and_never_averaged(
    records: Records, judge_it: Judge
) -> None:
    rest(records, "ms-m02-r02")
    told = Told(verdicts={(F, "O3"): A, (F, "O4"): A}, violated={F: ("MS-I3", "MS-I4", "MS-I6")})
    records.attempt(run_of(records.study, "ms-m02-r02"), told)
    found = judge_it(records.directory)
    assert found.fates("O3")["MS-M02"] == "unstable"
    assert found.percent("O3") == pytest.approx(66.6667)
    (row,) = [r for r in found.study["violated"] if r["mutant"] == "MS-M02"]
    assert row["agree"] is False
    assert [one["runs"] for one in row["sets"]] == [["ms-m02-r01", "ms-m02-r03"], ["ms-m02-r02"]]
    fired = {rule["rule"]: rule for rule in found.study["falsification"]}
    assert fired["F4"]["fired"] == 2  # both instruments
    assert {w["grader"] for w in fired["F9"]["where"]} == {"O3", "O4"}


def test_instruments_that_changed_are_told(records: Records, judge_it: Judge) -> None:
    rest(records, "ms-m03-r03")
    records.attempt(run_of(records.study, "ms-m03-r03"), Told(modules="b" * 64))
    rows = judge_it(records.directory).study["instruments"]
    assert {row["identical"] for row in rows} == {False}
    assert {tuple(sorted(row["digests"].values())) for row in rows} == {(3, 24)}


def test_what_was_not_evaluated_weakens_a_pass_and_no_reject(
    records: Records, judge_it: Judge
) -> None:
    for run in runs(records.study):
        records.attempt(run, Told(not_evaluated=["MS-I6"]))
    found = judge_it(records.directory)
    (limit,) = [x for x in found.study["limits"] if x["limit"] == "not-evaluated MS-I6"]
    assert (limit["count"], limit["of"]) == (27, 27)
    assert limit["leaves"].startswith("9 REJECT stand")
    assert "18 PASS say nothing about MS-I6" in limit["leaves"]
    assert found.study["surprises"] == []


# -- evidence as a whole ------------------------------------------------------------------------


def test_the_same_evidence_twice_is_refused(whole: Path, judge_it: Judge, tmp_path: Path) -> None:
    again = shutil.copytree(whole, tmp_path / "again")
    with pytest.raises(ConflictError, match="the same evidence is given 2 times"):
        judge_it(whole, Path(again))


def test_the_same_record_in_two_directories_is_refused(
    whole: Path, judge_it: Judge, tmp_path: Path
) -> None:
    again = Path(shutil.copytree(whole, tmp_path / "again"))
    for path in again.glob("attempts/000009-*"):
        path.unlink()
    with pytest.raises(ConflictError, match="the same record stands in"):
        judge_it(whole, again)


def test_two_completed_verdicts_of_a_run_are_refused(
    records: Records, judge_it: Judge, tmp_path: Path
) -> None:
    other = Records(tmp_path / "other", records.study)
    other.clock.seconds = 5000.0
    run = run_of(records.study, "ms-m01-r01")
    records.attempt(run)
    other.attempt(run, Told(verdicts={(F, "O1"): R}))
    with pytest.raises(ConflictError, match="ms-m01-r01 has a completed verdict in 2 evidence"):
        judge_it(records.directory, other.directory)


def test_a_failed_job_and_its_repetition_go_together(
    records: Records, judge_it: Judge, tmp_path: Path
) -> None:
    other = Records(tmp_path / "other", records.study)
    other.clock.seconds = 5000.0
    run = run_of(records.study, "ms-m01-r01")
    records.attempt(run, Told(outcome=Outcome.INFRASTRUCTURE_FAILURE, until=H))
    other.attempt(run)
    found = judge_it(other.directory, records.directory)
    assert [(a["evidence"], a["counted"]) for a in found.study["attempts"]] == [
        (1, False),
        (2, True),
    ]


def test_regimes_are_never_mixed(records: Records, judge_it: Judge, tmp_path: Path) -> None:
    other = Records(tmp_path / "other", records.study)
    records.attempt(run_of(records.study, "ms-m01-r01"))
    other.attempt(
        run_of(records.study, "ms-m02-r01"), Told(registration=Registration.PREREGISTERED)
    )
    with pytest.raises(ConflictError, match="never mixed in one ledger: 1 EXPLORATORY, 1 PREREG"):
        judge_it(records.directory, other.directory)


def registered(digest: str, gen_time: str = "2026-08-29T09:00:00+00:00") -> Told:
    return Told(
        registration=Registration.PREREGISTERED,
        facts={
            "registration": {
                "digest": digest,
                "predictions": {"gen_time": gen_time, "independence": "self-issued"},
            }
        },
    )


def test_registrations_are_never_mixed(records: Records, judge_it: Judge) -> None:
    records.attempt(run_of(records.study, "ms-m01-r01"), registered("a" * 64))
    records.attempt(run_of(records.study, "ms-m02-r01"), registered("b" * 64))
    with pytest.raises(ConflictError, match="more than one registration"):
        judge_it(records.directory)


@pytest.mark.parametrize(
    ("gen_time", "before"),
    [("2026-08-29T09:00:00+00:00", True), ("2026-08-29T23:00:00+00:00", False)],
)
def test_the_order_of_token_and_first_mutation_is_looked_at(
    records: Records, judge_it: Judge, gen_time: str, before: bool
) -> None:
    records.attempt(run_of(records.study, "ms-m01-r01"), registered("a" * 64, gen_time))
    given = judge_it(records.directory).study["registration"]
    assert given["kind"] == "PREREGISTERED"
    assert given["first_mutation"].startswith("2026-08-29T10:")
    assert [order["before_first_mutation"] for order in given["order"]] == [before]
    assert given["records"][0]["predictions"]["independence"] == "self-issued"
