"""The baseline: what it lists is known, what it does not is new, what was not read is neither."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_world import Adjudicated
from records import Records, Told

from pytest_sremut.errors import InputError
from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.ledger.baseline.comparison import Comparison, compare, taken
from pytest_sremut.ledger.baseline.document import (
    Baseline,
    Known,
    Tally,
    baseline_bytes,
    parse_baseline,
    read_baseline,
)
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Outcome,
    State,
    Verdict,
    disagreement,
)

ID = "missing_service_social_network"
FILE = PurePosixPath("baseline.json")
Judge = Callable[..., Adjudicated]


def blind(mutant: str, oracle: str = "O1", state: State = State.FAULTED) -> Known:
    return Known(oracle=oracle, mutant=mutant, state=state, kind="false accept")


def of(ledger: Mapping[str, Any]) -> Baseline:
    return taken(ledger, "0" * 64)


def lines(comparison: Comparison) -> list[str]:
    return [line for line, _ in comparison.lines()]


@pytest.fixture
def known(judged_whole: Adjudicated) -> Baseline:
    """The baseline of the matrix in which everything is as predicted."""
    return of(judged_whole.ledger)


def changed(known: Baseline, **parts: Any) -> Baseline:
    """The same with other parts in the study's entry of the file."""
    value = json.loads(baseline_bytes(known))
    value["studies"][ID] |= parts
    return parse_baseline(json.dumps(value).encode(), FILE)


@pytest.mark.parametrize(
    ("verdict", "contract", "kind"),
    [
        (Verdict.ACCEPT, ContractVerdict.REJECT, "false accept"),
        (Verdict.REJECT, ContractVerdict.PASS, "false reject"),
        (Verdict.ACCEPT, ContractVerdict.PASS, ""),
        (Verdict.REJECT, ContractVerdict.REJECT, ""),
        (Verdict.ERROR, ContractVerdict.PASS, ""),
        (Verdict.ERROR, ContractVerdict.REJECT, ""),
    ],
)
def test_what_a_disagreement_is(verdict: Verdict, contract: ContractVerdict, kind: str) -> None:
    assert disagreement(verdict, contract) == kind


# -- from a ledger --------------------------------------------------------------------------------


def test_a_baseline_lists_what_the_ledger_shows(known: Baseline) -> None:
    study = known.studies[ID]
    assert study.disagreements == {blind(f"MS-M0{n}") for n in (1, 2, 3)}
    assert study.scores == {
        "O1": Tally(killed=0, scored=3),
        "O3": Tally(killed=3, scored=3),
        "O4": Tally(killed=3, scored=3),
        "contract": Tally(killed=3, scored=3),
    }
    assert study.oracles["O4"] == "all-of O1 O3"
    assert study.profiles == ("embedded",)


def test_same_ledger_same_bytes_and_back(known: Baseline, judged_whole: Adjudicated) -> None:
    data = baseline_bytes(known)
    assert data == baseline_bytes(of(judged_whole.ledger))
    assert parse_baseline(data, FILE) == known
    assert data.count(b'"false accept"\n') == 3  # one value a line


def test_under_its_own_ledger_everything_is_known(
    known: Baseline, judged_whole: Adjudicated
) -> None:
    found = compare(known, judged_whole.ledger)
    assert not found.failed
    assert found.head() == "3 known disagreements seen, 0 new, 0 stale, 0 not read"
    assert lines(found) == []
    assert [str(seen) for seen in found.studies[0].known] == [
        f"O1: false accept of MS-M0{n}, faulted (6 of 6 readings)" for n in (1, 2, 3)
    ]


def test_without_a_baseline_of_the_study_everything_is_new(judged_whole: Adjudicated) -> None:
    found = compare(Baseline(), judged_whole.ledger)
    assert found.failed
    assert lines(found)[0] == f"new: {ID}: O1: false accept of MS-M01, faulted (6 of 6 readings)"


# -- what changed ---------------------------------------------------------------------------------


def test_one_new_reading_is_new(known: Baseline, records: Records, judge_it: Judge) -> None:
    """A single instrument in a single repetition: there is no majority."""
    told = Told(by_instrument={(State.FAULTED, "O3", "isolated"): Verdict.ACCEPT})
    records.matrix(ms_m02_r02=told)
    found = compare(known, judge_it(records.directory).ledger)
    assert found.failed
    assert lines(found) == [
        f"new: {ID}: O3: false accept of MS-M02, faulted (1 of 6 readings)",
        f"score: {ID}: O3 killed 2 of 3 mutants, the baseline says 3",
    ]


def test_a_false_reject_is_not_the_false_accept_that_is_known(
    known: Baseline, records: Records, judge_it: Judge
) -> None:
    records.matrix(ms_m01_r01=Told(verdicts={(State.RESTORED, "O1"): Verdict.REJECT}))
    found = compare(known, judge_it(records.directory).ledger)
    assert lines(found) == [f"new: {ID}: O1: false reject of MS-M01, restored (2 of 6 readings)"]


def test_one_that_vanished_makes_the_baseline_stale_and_fails_nothing(
    known: Baseline, records: Records, judge_it: Judge
) -> None:
    seen = Told(verdicts={(State.FAULTED, "O1"): Verdict.REJECT})
    records.matrix(ms_m03_r01=seen, ms_m03_r02=seen, ms_m03_r03=seen)
    found = compare(known, judge_it(records.directory).ledger)
    assert not found.failed
    assert found.head() == "2 known disagreements seen, 0 new, 1 stale, 0 not read"
    assert lines(found) == [
        f"baseline is stale: {ID}: O1: false accept of MS-M03, faulted: none of 6 readings"
    ]


def test_one_that_is_seen_in_some_readings_is_still_known(
    known: Baseline, records: Records, judge_it: Judge
) -> None:
    records.matrix(ms_m03_r01=Told(verdicts={(State.FAULTED, "O1"): Verdict.REJECT}))
    found = compare(known, judge_it(records.directory).ledger)
    assert not found.failed
    assert str(found.studies[0].known[2]) == "O1: false accept of MS-M03, faulted (4 of 6 readings)"


@pytest.mark.parametrize(
    "told",
    [
        None,
        Told(outcome=Outcome.DRIVER_ABORTED, until=State.HEALTHY),
        Told(outcome=None),
        Told(verdicts={(State.FAULTED, "O1"): Verdict.ERROR}),
    ],
    ids=["no attempt", "aborted", "died", "error"],
)
def test_what_was_not_read_neither_matches_nor_vanishes(
    known: Baseline, study: Study, records: Records, judge_it: Judge, told: Told | None
) -> None:
    for run in runs(study):
        if run.mutant != "MS-M02":
            records.attempt(run)
        elif told is not None:
            records.attempt(run, told)
    found = compare(known, judge_it(records.directory).ledger)
    assert not found.failed
    assert found.studies[0].unread == (blind("MS-M02"),)
    assert found.head() == "2 known disagreements seen, 0 new, 0 stale, 1 not read"
    assert lines(found) == [f"not read: {ID}: 1 known disagreements"]


def test_a_part_of_the_study_has_no_score_to_compare(
    known: Baseline, study: Study, records: Records, judge_it: Judge
) -> None:
    records.attempt(next(runs(study)))
    assert compare(known, judge_it(records.directory).ledger).studies[0].fallen == ()


# -- of what it speaks ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["mutants", "contract"])
def test_under_other_mutants_or_another_contract_nothing_is_known(
    known: Baseline, judged_whole: Adjudicated, study: Study, role: str
) -> None:
    from records import ROOT

    other = changed(known, files={**known.studies[ID].files, role: "1" * 64})
    found = compare(other, judged_whole.ledger)
    assert found.failed
    assert f"does not apply: {ID}: made under other {role}: nothing in it counts" in lines(found)
    digests = file_digests(ROOT, study.frozen)
    assert known.known(study, digests) == known.studies[ID].disagreements
    assert other.known(study, digests) == frozenset()


def test_another_grader_under_the_same_id_is_not_the_one_that_is_known(
    known: Baseline, judged_whole: Adjudicated
) -> None:
    oracles = {**known.studies[ID].oracles, "O1": "sregym:MitigationOracle"}
    found = compare(changed(known, oracles=oracles), judged_whole.ledger)
    assert found.head() == "0 known disagreements seen, 3 new, 0 stale, 0 not read"
    assert lines(found)[-1] == (
        f"does not apply: {ID}: O1 was sregym:MitigationOracle, and is "
        "reference:pods-and-deployments: nothing in it about O1 counts"
    )


def test_entries_of_what_is_not_there_are_stale(known: Baseline, judged_whole: Adjudicated) -> None:
    value = json.loads(baseline_bytes(known))
    entry = value["studies"][ID]
    entry["disagreements"]["O9"] = {"MS-M01": {"faulted": ["false accept"]}}
    value["studies"]["gone"] = entry
    found = compare(parse_baseline(json.dumps(value).encode(), FILE), judged_whole.ledger)
    assert not found.failed
    assert lines(found) == [
        f"baseline is stale: {ID}: O9: false accept of MS-M01, faulted: the study has no such cell",
        "baseline is stale: gone is no study here",
    ]
    assert found.head().split(", ")[2] == "2 stale"


# -- bringing it up to date -----------------------------------------------------------------------


def test_an_update_replaces_what_was_read_and_keeps_the_rest(
    known: Baseline, study: Study, records: Records, judge_it: Judge
) -> None:
    seen = {(State.FAULTED, "O1"): Verdict.REJECT, (State.FAULTED, "O3"): Verdict.ACCEPT}
    told = Told(verdicts=seen)
    for run in runs(study):
        if run.mutant == "MS-M01":
            records.attempt(run, told)
    result = judge_it(records.directory)
    after = taken(result.ledger, sha256(result.data), known).studies[ID]
    assert after.disagreements == {blind("MS-M01", "O3"), blind("MS-M02"), blind("MS-M03")}
    assert after.scores == known.studies[ID].scores  # of one mutant in three there is none
    assert after.ledger == sha256(result.data)


def test_an_update_keeps_studies_that_the_ledger_did_not_run(
    known: Baseline, judged_whole: Adjudicated
) -> None:
    other = Baseline(studies={"another": known.studies[ID]})
    after = taken(judged_whole.ledger, "0" * 64, other)
    assert sorted(after.studies) == ["another", ID]


def test_of_other_mutants_an_update_keeps_nothing(
    known: Baseline, study: Study, records: Records, judge_it: Judge
) -> None:
    other = changed(known, files={**known.studies[ID].files, "mutants": "1" * 64})
    records.attempt(next(runs(study)))
    after = taken(judge_it(records.directory).ledger, "0" * 64, other).studies[ID]
    assert after.disagreements == {blind("MS-M01")}


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"profiles": None}, r"profiles \(line \d+, column \d+\): found nothing; allowed: a list"),
        ({"surplus": 1}, r"surplus .*unknown key text 'surplus'"),
        ({"files": {"mutants": "1" * 64}}, r"files .*no key contract"),
        ({"files": {"mutants": "x", "contract": "1" * 64}}, r"64 lower-case hexadecimal digits"),
        ({"scores": {"O1": {"killed": -1, "scored": 3}}}, r"killed .*found -1"),
        (
            {"disagreements": {"O1": {"MS-M01": {"broken": ["false accept"]}}}},
            r"broken .*allowed: faulted, healthy, restored",
        ),
        (
            {"disagreements": {"O1": {"MS-M01": {"faulted": ["accept"]}}}},
            r"'accept'; allowed: false accept, false reject",
        ),
    ],
)
def test_bad_input_is_told_with_its_place(
    known: Baseline, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=rf"^baseline\.json: studies\.{ID}.*{told}"):
        changed(known, **change)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "an empty file"),
        ("[]", "found .*allowed: a mapping"),
        ('{"schema": "sremut/baseline/v2", "studies": {}}', "sremut/baseline/v2"),
        ('{"schema": "sremut/baseline/v1", "studies": {}, "studies": {}}', "studies"),
        ('{"schema": "sremut/baseline/v1", "studies": {}', "expected"),
    ],
)
def test_what_is_no_baseline(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_baseline(text.encode(), FILE)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_baseline(tmp_path / "none.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.binary(max_size=64) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_the_bytes_only_one_error_leaves(data: bytes) -> None:
    with suppress(InputError):
        assert isinstance(parse_baseline(data, FILE), Baseline)


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {"schema": st.just("sremut/baseline/v1"), "studies": st.dictionaries(st.just(ID), _JSON)}
    )
)
def test_whatever_stands_in_a_study(value: dict[str, Any]) -> None:
    try:
        found = parse_baseline(json.dumps(value).encode(), FILE)
    except InputError:
        return
    assert found == Baseline()  # nothing that is made of these has all the keys of a study
