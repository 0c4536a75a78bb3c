"""Published inputs give the published figures, exactly, through the same adjudicator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_world import Adjudicated, adjudicate, inputs
from records import ROOT, Records, main_study
from test_ledger_markdown import walk

from pytest_sremut.errors import EvidenceError, InputError
from pytest_sremut.ledger.judge import ConflictError
from pytest_sremut.ledger.published.importing import import_file
from pytest_sremut.ledger.published.inputs import FIX_ORACLE_STUDY, MUTANT_STUDY, parse_input
from pytest_sremut.ledger.published.shipped import shipped_study
from pytest_sremut.study.load import load_study

TRANSCRIBED = Path(__file__).parent / "transcribed"
SHARED = ROOT.parent / "shared" / "published"
MUTANT, FIX = TRANSCRIBED / "mutant_study.json", TRANSCRIBED / "fix_oracle_study.json"

# As published, to four decimals: retained and error rate of the full faulted window and of its
# rounds begun after the mutant.
FIGURES: dict[str, dict[str, Any]] = {
    "MS-M01": {
        "full": ([90.0488, 90.0293, 90.1172], 90.0651, [9.9512, 9.9707, 9.8828]),
        "post": ([90.0716, 89.9197, 90.0716], 90.021, [9.9284, 10.0803, 9.9284]),
        "violated": ["MS-I1", "MS-I2", "MS-I3", "MS-I4"],
    },
    "MS-M02": {
        "full": ([14.209, 14.3164, 11.3574], 13.2943, [7.7947, 9.8401, 6.8109]),
        "post": ([7.5846, 8.7891, 11.2088], 9.1942, [8.6275, 7.6397, 6.769]),
        "violated": ["MS-I2", "MS-I3", "MS-I4"],
    },
    "MS-M03": {
        "full": ([90.2539, 89.9512, 90.2246], 90.1432, [9.7461, 10.0488, 9.7754]),
        "post": ([90.2995, 89.7461, 90.2778], 90.1078, [9.7005, 10.2539, 9.7222]),
        "violated": ["MS-I2", "MS-I4"],
    },
}


def judged(directory: Path, *studies: str) -> Adjudicated:
    """What an import's own project gives."""
    loaded = [
        load_study(directory, PurePosixPath("audits", study, "study.yaml")) for study in studies
    ]
    return adjudicate(inputs(loaded, directory), directory)


def imported(file: Path, directory: Path, study: str) -> Adjudicated:
    assert import_file(file, directory)[0] == study
    return judged(directory, study)


@pytest.fixture(scope="module", params=["transcribed", "shared"])
def mutant(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Adjudicated:
    file = {"transcribed": MUTANT, "shared": SHARED / MUTANT.name}[request.param]
    if not file.exists():
        pytest.skip("the published files are not beside this checkout")
    return imported(file, tmp_path_factory.mktemp("mutant"), MUTANT_STUDY)


@pytest.fixture(scope="module", params=["transcribed", "shared"])
def fix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Adjudicated:
    file = {"transcribed": FIX, "shared": SHARED / FIX.name}[request.param]
    if not file.exists():
        pytest.skip("the published files are not beside this checkout")
    return imported(file, tmp_path_factory.mktemp("fix"), FIX_ORACLE_STUDY)


# -- the mutant study ---------------------------------------------------------------------------


def test_readings_and_contract(mutant: Adjudicated) -> None:
    totals = mutant.study["totals"]
    assert totals["oracle_readings"]["observed"] == {"ACCEPT": 54}
    assert totals["oracle_readings"]["of"] == totals["oracle_readings"]["matched"] == 54
    assert totals["faulted_oracle_readings"]["of"] == 18
    assert totals["control_oracle_readings"]["of"] == 36
    assert (totals["contract_faulted"]["rejected"], totals["contract_faulted"]["of"]) == (9, 9)
    assert (totals["contract_controls"]["passed"], totals["contract_controls"]["of"]) == (18, 18)
    assert mutant.ledger["problems"] == []
    assert mutant.study["surprises"] == []


def test_mutation_scores(mutant: Adjudicated) -> None:
    scores = {row["grader"]: (row["killed"], row["scored"]) for row in mutant.study["scores"]}
    assert scores == {"O1": (0, 3), "contract": (3, 3)}


@pytest.mark.parametrize("name", FIGURES)
def test_retained_volume_and_rates(mutant: Adjudicated, name: str) -> None:
    (row,) = [row for row in mutant.study["retained"] if row["mutant"] == name]
    for window, key in (("full_window", "full"), ("post_mutation", "post")):
        retained, mean, rates = FIGURES[name][key]
        assert row[window]["retained_percent"] == retained
        assert row[window]["retained_percent_mean"] == mean
        assert row[window]["error_rate_percent"] == rates
    (violated,) = [row for row in mutant.study["violated"] if row["mutant"] == name]
    assert [one["violated"] for one in violated["sets"]] == [FIGURES[name]["violated"]]
    assert violated["agree"] is True


def test_minutes_and_agreement(mutant: Adjudicated) -> None:
    assert mutant.study["timings"]["total_minutes"] == 93.3
    (row,) = mutant.study["agreement"]
    assert (row["agreed"], row["compared"]) == (27, 27)


def test_the_first_faulted_round_is_in_the_full_window_only(mutant: Adjudicated) -> None:
    faulted = [row for row in mutant.study["windows"] if row["state"] == "faulted"]
    assert {row["rounds"] for row in faulted} == {10}
    assert {row["post_mutation"]["rounds"] for row in faulted} == {9}


def test_limits_say_what_is_unproved(mutant: Adjudicated) -> None:
    limits = {limit["limit"]: limit for limit in mutant.study["limits"]}
    assert "18 PASS say nothing about MS-I6" in limits["not-evaluated MS-I6"]["leaves"]
    assert limits["published"]["count"] == 9
    assert [o["before_first_mutation"] for o in mutant.study["registration"]["order"]] == [True] * 2


# -- the fix-oracle study -----------------------------------------------------------------------


def test_twenty_cells_and_thirty_six_readings(fix: Adjudicated) -> None:
    totals = fix.study["totals"]
    assert (totals["table_cells"]["matched"], totals["table_cells"]["of"]) == (20, 20)
    assert (totals["oracle_readings"]["matched"], totals["oracle_readings"]["of"]) == (36, 36)


def test_nine_attribute_errors_that_touch_no_verdict(fix: Adjudicated) -> None:
    rows = {row["oracle"]: row for row in fix.study["diagnostics"]}
    assert rows["O2"]["raised"] == [
        {
            "exception": "AttributeError: 'MissingService' object has no attribute "
            "'expected_service_port'",
            "count": 9,
        }
    ]
    assert sum(row["calls"] for row in rows.values()) == 27
    assert rows["O3"]["raised"] == rows["O4"]["raised"] == []
    readings = [
        reading
        for attempt in fix.study["attempts"]
        for state in attempt["states"].values()
        for reading in state["readings"]
        if reading["oracle"] == "O2"
    ]
    assert {reading["verdict"] for reading in readings} == {"REJECT"}


def test_the_composition_is_what_its_parts_add_up_to(fix: Adjudicated) -> None:
    (row,) = fix.study["compositions"]
    assert (row["oracle"], row["of"], row["equal"], row["compared"]) == ("O4", ["O1", "O3"], 9, 9)


def test_scores_of_the_configurations(fix: Adjudicated) -> None:
    scores = {row["grader"]: (row["killed"], row["scored"]) for row in fix.study["scores"]}
    # O2 rejects the healthy and restored systems as well: it has killed nothing.
    assert scores == {"O1": (0, 3), "O2": (0, 0), "O3": (3, 3), "O4": (3, 3), "contract": (0, 0)}
    brittle = {row["grader"]: row["brittle_runs"] for row in fix.study["scores"]}
    assert brittle == {"O1": 0, "O2": 3, "O3": 0, "O4": 0, "contract": 0}
    assert fix.percent("contract") is None
    (limit,) = [x for x in fix.study["limits"] if x["limit"] == "contract-not-read"]
    assert (limit["count"], limit["of"]) == (9, 9)


# -- the files ----------------------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.exists(), reason="the published files are not beside this checkout")
def test_the_transcription_is_that_of_the_published_files() -> None:
    here, there = json.loads(MUTANT.read_bytes()), json.loads((SHARED / MUTANT.name).read_bytes())
    assert here["runs"] == there["runs"]
    published = there["published"]["per_mutant"]
    for name, figures in FIGURES.items():
        assert published[name]["violated"] == figures["violated"]
        for key, window in (("full", "full_window"), ("post", "post_mutation")):
            retained, mean, rates = figures[key]
            assert published[name][f"retained_percent_{window}"] == retained
            assert published[name][f"retained_percent_{window}_mean"] == mean
            suffix = "" if key == "full" else "_post_mutation"
            assert published[name][f"faulted_rate_percent{suffix}"] == rates
    here, there = json.loads(FIX.read_bytes()), json.loads((SHARED / FIX.name).read_bytes())
    for key, value in here.items():
        if key != "diagnostics":
            assert there[key] == value


@pytest.mark.parametrize(
    "name", ["mutants/missing_service.yaml", "contracts/missing_service_social_network.yaml"]
)
def test_the_definitions_are_the_repository_s_own(name: str) -> None:
    shipped = files("pytest_sremut.ledger.published") / "definitions"
    assert shipped.joinpath(name).read_bytes() == (ROOT / name).read_bytes()


def test_both_studies_in_one_directory_have_one_ledger(tmp_path: Path) -> None:
    import_file(MUTANT, tmp_path)
    import_file(FIX, tmp_path)
    found = judged(tmp_path, MUTANT_STUDY, FIX_ORACLE_STUDY)
    assert [study["id"] for study in found.ledger["studies"]] == [FIX_ORACLE_STUDY, MUTANT_STUDY]
    assert found.ledger["kind"] == "PUBLISHED"
    assert walk(found.markdown, {"e1": tmp_path, "project": tmp_path}) > 1000


def test_the_same_import_twice_changes_nothing(tmp_path: Path) -> None:
    assert import_file(MUTANT, tmp_path)[1] > 0
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert import_file(MUTANT, tmp_path)[1] == 0
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_another_transcription_is_not_written_over_the_first(tmp_path: Path) -> None:
    import_file(MUTANT, tmp_path)
    other = tmp_path / "other.json"
    other.write_bytes(MUTANT.read_bytes().replace(b"649.363", b"649.364"))
    with pytest.raises(EvidenceError, match="stands there with other bytes"):
        import_file(other, tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:-9]), "not JSON"),
        (lambda p: p.write_bytes(p.read_bytes().replace(b":true", b":false", 1)), "was edited"),
        (lambda p: p.write_bytes(p.read_bytes().replace(b"published/v1", b"published/v2")), "v2"),
        (lambda p: p.write_bytes(p.read_bytes() + b"\n"), "not canonical"),
        (lambda p: p.rename(p.with_name("ms-m01-r09.json")), "ms-m01-r01.json: missing"),
        (lambda p: p.unlink(), "ms-m01-r01.json: missing"),
        (lambda p: p.with_name("source.json").unlink(), "source.json: missing"),
        (lambda p: p.with_name("source.json").write_text("{}"), "neither of the published"),
    ],
)
def test_published_records_are_held_together_too(
    tmp_path: Path, change: Callable[[Path], Any], named: str
) -> None:
    import_file(MUTANT, tmp_path)
    change(tmp_path / "published" / MUTANT_STUDY / "ms-m01-r01.json")
    found = judged(tmp_path, MUTANT_STUDY)
    assert any(named in problem for problem in found.problems), found.problems
    assert found.fates("contract")["MS-M01"] == "unproven"
    assert found.percent("O1") in {0, None}


def test_published_records_are_never_mixed_with_our_own(tmp_path: Path) -> None:
    import_file(MUTANT, tmp_path / "published")
    records = Records(tmp_path / "own", main_study())
    records.matrix()
    study = load_study(tmp_path / "published", PurePosixPath("audits", MUTANT_STUDY, "study.yaml"))
    given = [*inputs([study], tmp_path / "published"), *inputs([main_study()])]
    with pytest.raises(ConflictError, match="never mixed in one ledger: 9 EXPLORATORY, 9 PUBLI"):
        adjudicate(given, tmp_path / "published", tmp_path / "own")


# -- bad input ----------------------------------------------------------------------------------


def changed(file: Path, change: Callable[[Any], Any]) -> bytes:
    value = json.loads(file.read_bytes())
    change(value)
    return json.dumps(value).encode()


BAD: list[tuple[Path, Callable[[Any], Any], str]] = [
    (MUTANT, lambda v: v.pop("runs"), "neither of the published studies"),
    (MUTANT, lambda v: v.update(runs=[]), "runs: found 0 entries; allowed: 1 or more entries"),
    (MUTANT, lambda v: v["runs"][0].pop("contract"), r"runs\[0\]: found no key contract"),
    (MUTANT, lambda v: v["runs"][0].update(note=1), r"runs\[0\].note: found unknown key"),
    (MUTANT, lambda v: v["runs"].append(v["runs"][0]), "ms-m01-r01 twice; allowed: each run once"),
    (MUTANT, lambda v: v["runs"][0].update(run_id="ms-m07-r01"), "ms-m07-r01; allowed: ms-m01-r01"),
    (
        MUTANT,
        lambda v: v["runs"][0].update(mutant="MS-M02"),
        "mutant: found MS-M02; allowed: MS-M0",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0]["workload"]["faulted"]["non2xx"].pop(),
        r"non2xx: found 9 rounds; allowed: 10",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0]["workload"]["faulted"]["non2xx"].__setitem__(3, 5000),
        r"non2xx\[3\]: found 5000; allowed: at most 1024 requests",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0]["contract"]["faulted"].update(verdict="PASS"),
        "found PASS with 4 violated",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0]["contract"]["faulted"].update(violated=["MS-I9"]),
        "found MS-I9; allowed: MS-I1",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0].update(mutant_applied_utc="2026-02-31T10:00:00Z"),
        "allowed: a time that exists",
    ),
    (
        MUTANT,
        lambda v: v["runs"][0]["oracle_readings"]["faulted"].update(worker="true"),
        "found text 'true'; allowed: true or false",
    ),
    (FIX, lambda v: v["predicted_and_observed"]["O1"].pop("MS-M02"), "O1: found MS-M01, MS-M03"),
    (
        FIX,
        lambda v: v["diagnostics"]["o2_exception"].update(count=8),
        "count: found 8; allowed: 9, one for each such reading",
    ),
    (FIX, lambda v: v["diagnostics"].update(direct_probe_calls=26), "found 26; allowed: 27"),
    (FIX, lambda v: v.update(runs=[]), "neither of the published studies"),
]


@pytest.mark.parametrize(("file", "change", "told"), BAD, ids=[told for _, _, told in BAD])
def test_bad_input_is_one_clear_error(
    tmp_path: Path, file: Path, change: Callable[[Any], Any], told: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(changed(file, change))
    with pytest.raises(InputError, match=told) as caught:
        import_file(bad, tmp_path / "evidence")
    assert str(bad) in str(caught.value)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"runs": NaN}', b'{"runs": 1, "runs": 2}', b"\xff\xfe"]
)
def test_what_is_no_published_file_at_all(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_input(data, "x.json")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        import_file(tmp_path / "none.json", tmp_path)


SHIPPED = {study: shipped_study(study) for study in (MUTANT_STUDY, FIX_ORACLE_STUDY)}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_changed_only_our_own_error_comes_out(data: st.DataObject) -> None:
    file, study_id = data.draw(st.sampled_from([(MUTANT, MUTANT_STUDY), (FIX, FIX_ORACLE_STUDY)]))
    value = json.loads(file.read_bytes())
    place = value
    while isinstance(place, dict | list) and place:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = data.draw(
                st.none()
                | st.booleans()
                | st.integers(-(2**70), 2**70)
                | st.text(max_size=6)
                | st.just([])
                | st.just({})
            )
            break
        place = place[key]
    try:
        parse_input(json.dumps(value).encode(), "x.json").records(SHIPPED[study_id], {})
    except InputError:
        return


def test_nothing_is_left_of_a_copy(tmp_path: Path) -> None:
    """An import is a project of its own: it can be moved, and judged where it then stands."""
    import_file(MUTANT, tmp_path / "a")
    before = judged(tmp_path / "a", MUTANT_STUDY)
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert judged(tmp_path / "b", MUTANT_STUDY).data == before.data
