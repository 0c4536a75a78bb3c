from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from evidence_doubles import identity, state_body
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.journal import JournalStatus
from pytest_sremut.evidence.load import load_attempt, load_entry
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Evaluation,
    Outcome,
    Registration,
    State,
    Verdict,
)


@pytest.fixture
def complete(root: EvidenceRoot) -> Attempt:
    attempt = root.begin(identity())
    with attempt.stream("sampler.jsonl") as stream:
        stream.write({"pods": 27})
    for state in State:
        raw = attempt.raw(f"{state.value}/x.log", state.value.encode())
        attempt.finish_state(state, state_body(raw))
    attempt.close(outcome=Outcome.COMPLETE, reason="", record={"sampler": stream.close().as_json()})
    return attempt


def test_what_was_written_is_read_back(complete: Attempt) -> None:
    loaded = load_attempt(complete.directory)
    assert loaded.problems == ()
    assert loaded.valid
    assert (loaded.study, loaded.run, loaded.mutant) == ("missing_service", "ms-m02-r03", "MS-M02")
    assert (loaded.repetition, loaded.attempt, loaded.sequence) == (3, 1, 1)
    assert loaded.registration is Registration.EXPLORATORY
    assert loaded.outcome is Outcome.COMPLETE
    assert list(loaded.states) == list(State)
    state = loaded.states[State.FAULTED]
    accepted, failed = state.readings
    assert accepted.verdict is Verdict.ACCEPT
    assert accepted.exception is None
    assert failed.verdict is Verdict.ERROR
    assert failed.exception == "TypeError: no"
    assert failed.returned is None
    assert state.workload is not None
    assert state.workload.successes == 90
    assert state.workload.rounds[0].end is None
    assert state.contract is not None
    assert state.contract.verdict is ContractVerdict.REJECT
    assert state.contract.invariants[0].evaluation is Evaluation.VIOLATED
    assert state.activation[0].holds
    assert state.objects[0].read(complete.directory) == b"faulted"
    assert loaded.journal.status is JournalStatus.INTACT
    assert loaded.journal.entries[-1].facts == {"outcome": "COMPLETE"}


def test_the_ledger_agrees(complete: Attempt, root: EvidenceRoot) -> None:
    loaded = load_entry(root.attempts()[0])
    assert loaded.directory == complete.directory
    assert loaded.valid


def test_an_attempt_that_died_keeps_what_it_had_finished(root: EvidenceRoot) -> None:
    attempt = root.begin(identity())
    attempt.finish_state(State.HEALTHY, state_body(attempt.raw("x", b"x")))
    attempt.raw("not-yet-referred-to", b"y")
    loaded = load_entry(root.attempts()[0])
    assert loaded.outcome is None
    assert not loaded.valid
    assert list(loaded.states) == [State.HEALTHY]
    assert loaded.problems == ()


def test_a_torn_journal_is_what_dying_leaves(root: EvidenceRoot) -> None:
    attempt = root.begin(identity())
    attempt.journal.append("CREATED")
    with (attempt.directory / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"attempt":1')
    loaded = load_attempt(attempt.directory)
    assert loaded.journal.status is JournalStatus.TORN_TAIL
    assert loaded.problems == ()


def damage_text(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        data = (directory / name).read_bytes()
        assert old in data
        (directory / name).write_bytes(data.replace(old, new))

    return damage


def cut(name: str, keep: int) -> Callable[[Path], None]:
    return lambda directory: (
        (directory / name).write_bytes((directory / name).read_bytes()[:keep]) and None
    )  # type: ignore[func-returns-value]


def last_line_off(directory: Path) -> None:
    path = directory / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (damage_text("raw/faulted/x.log", b"faulted", b"healthy"), "raw/faulted/x.log: SHA-256"),
        (lambda d: (d / "raw/faulted/x.log").unlink(), "raw/faulted/x.log: missing"),
        (damage_text("states/faulted.json", b"REJECT", b"PASS"), "states/faulted.json"),
        (damage_text("states/faulted.json", b'"ACCEPT"', b'"REJECT"'), "states/faulted.json: SHA"),
        (lambda d: (d / "states/faulted.json").unlink(), "states/faulted.json: missing"),
        (cut("states/faulted.json", 50), "states/faulted.json: not JSON"),
        (damage_text("sampler.jsonl", b"27", b"26"), "sampler.jsonl: SHA-256"),
        (damage_text("attempt.json", b"MS-M02", b"MS-M01"), "record.json: mutant 'MS-M02'"),
        (lambda d: (d / "attempt.json").unlink(), "attempt.json: missing"),
        (damage_text("journal.jsonl", b"COMPLETE", b"COMPLETf"), "journal.jsonl: TAMPERED"),
        (last_line_off, "journal.jsonl: 3 entries up to"),
        (cut("journal.jsonl", 100), "journal.jsonl: TORN_TAIL"),
        (lambda d: (d / "journal.jsonl").unlink(), "journal.jsonl: MISSING"),
        (lambda d: (d / "raw/extra").write_bytes(b""), "raw/extra: nothing in the record speaks"),
        (cut("record.json", 10), "record.json: not JSON"),
        (damage_text("record.json", b'"COMPLETE"', b'"FINISHED"'), "record.json: outcome"),
    ],
)
def test_what_does_not_hold_is_named_and_nothing_is_dropped(
    complete: Attempt, root: EvidenceRoot, damage: Callable[[Path], None], told: str
) -> None:
    damage(complete.directory)
    loaded = load_attempt(complete.directory)
    assert any(problem.startswith(told) for problem in loaded.problems), loaded.problems
    assert not loaded.valid
    assert not load_entry(root.attempts()[0]).valid


def test_a_record_that_was_exchanged_is_seen_through_the_ledger(
    complete: Attempt, root: EvidenceRoot
) -> None:
    path = complete.directory / "record.json"
    body = json.loads(path.read_bytes())
    path.write_text(json.dumps({**body, "reason": "another"}))
    assert load_attempt(complete.directory).problems == ()
    assert any(
        "ledger: record.json" in problem for problem in load_entry(root.attempts()[0]).problems
    )


def test_a_record_without_a_closing_entry_is_seen(complete: Attempt, root: EvidenceRoot) -> None:
    next((root.directory / "attempts").glob("*.closed.json")).unlink()
    loaded = load_entry(root.attempts()[0])
    assert "ledger: no closing entry, yet there is a record" in loaded.problems
    assert complete.closed


def test_a_state_of_another_attempt_is_seen(complete: Attempt, root: EvidenceRoot) -> None:
    other = root.begin(identity())
    raw = other.raw("faulted/x.log", b"faulted")
    other.finish_state(State.FAULTED, state_body(raw))
    (complete.directory / "states/faulted.json").write_bytes(
        (other.directory / "states/faulted.json").read_bytes()
    )
    problems = load_attempt(complete.directory).problems
    assert "states/faulted.json: attempt 2, not 1" in problems


def test_a_state_under_another_name_is_seen(complete: Attempt) -> None:
    directory = complete.directory / "states"
    (directory / "faulted.json").write_bytes((directory / "healthy.json").read_bytes())
    loaded = load_attempt(complete.directory)
    assert "states/faulted.json: speaks of the healthy state" in loaded.problems
    assert State.FAULTED not in loaded.states


def test_temporary_files_of_a_crash_are_no_problem(complete: Attempt) -> None:
    (complete.directory / "raw" / ".tmp-1-2").write_bytes(b"half")
    assert load_attempt(complete.directory).problems == ()


def test_nothing_at_all_is_named(tmp_path: Path) -> None:
    loaded = load_attempt(tmp_path / "none")
    assert "attempt.json: missing" in loaded.problems
    assert loaded.run == ""
    with pytest.raises(EvidenceError, match="torn"):
        load_entry(AttemptEntry(sequence=1, run="x", attempt=1, problem="torn"))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_is_damaged_loading_never_raises(complete: Attempt, data: st.DataObject) -> None:
    names = ["attempt.json", "record.json", "journal.jsonl", "states/faulted.json"]
    path = complete.directory / data.draw(st.sampled_from(names))
    original = path.read_bytes()
    begin = data.draw(st.integers(0, len(original)))
    end = begin + data.draw(st.sampled_from([0, 1, 3, 40]))
    snippet = data.draw(
        st.binary(max_size=6)
        | st.sampled_from([b"null", b"{}", b"[]", b'"x"', b"-1", b"1e999", b"NaN"])
    )
    damaged = original[:begin] + snippet + original[end:]
    path.write_bytes(damaged)
    try:
        loaded = load_attempt(complete.directory)
    finally:
        path.write_bytes(original)
    if damaged != original and path.name != "record.json":
        assert loaded.problems
