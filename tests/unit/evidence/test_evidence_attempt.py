from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evidence_doubles import FailingCalls, identity, state_body

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import RESERVED, Attempt
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.study.verdict import Outcome, State


def finish(attempt: Attempt, *states: State) -> None:
    for state in states:
        raw = attempt.raw(f"{state.value}.log", state.value.encode())
        attempt.finish_state(state, state_body(raw))


def read(attempt: Attempt, name: str) -> Any:
    return json.loads((attempt.directory / name).read_bytes())


def test_who_it_is_stands_first(attempt: Attempt) -> None:
    head = read(attempt, "attempt.json")
    assert head["schema"] == "sremut/attempt/v1"
    assert head["mutant"] == "MS-M02"
    assert head["attempt"] == head["sequence"] == 1
    assert head["registration"] == "EXPLORATORY"
    assert head["protocol"] == {"settle": 2.0, "mix": [{"name": "x"}]}
    assert head["pid"] == os.getpid()
    assert attempt.directory.parts[-3:] == ("missing_service", "ms-m02-r03", "a01")
    assert (attempt.run, attempt.number, attempt.closed) == ("ms-m02-r03", 1, False)


def test_raw_bytes_are_kept_once(attempt: Attempt) -> None:
    reference = attempt.raw("load.log", b"bytes")
    assert reference == RawRef.of("raw/load.log", b"bytes")
    assert reference.read(attempt.directory) == b"bytes"
    assert attempt.raw("raw/healthy/pods.json", b"{}").path == "raw/healthy/pods.json"
    for name in ("load.log", "raw/load.log"):
        with pytest.raises(EvidenceError, match="never overwritten"):
            attempt.raw(name, b"other")
    assert reference.problem(attempt.directory) is None


def test_json_is_canonical(attempt: Attempt) -> None:
    reference = attempt.json("value.json", {"b": 1, "a": [True]})
    assert reference.read(attempt.directory) == b'{"a":[true],"b":1}'
    with pytest.raises(EvidenceError, match=r"raw/n\.json.*2\^53"):
        attempt.json("n.json", {"n": 2**60})


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../../x", ".hidden", "a\0", "a/b/c/d/e"])
def test_names_are_plain(attempt: Attempt, name: str) -> None:
    with pytest.raises(EvidenceError, match="no name for"):
        attempt.raw(name, b"")
    with pytest.raises(EvidenceError, match="no name for"):
        attempt.stream(name)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_stream_takes_no_name_of_ours(attempt: Attempt, name: str) -> None:
    with pytest.raises(EvidenceError, match="no name for a stream"):
        attempt.stream(name)


def test_a_stream_grows_by_lines(attempt: Attempt) -> None:
    with attempt.stream("sampler.jsonl") as stream:
        stream.write({"b": 1, "a": 2})
        stream.write({"c": ()})
        stream.write_bytes(b"raw\n")
        reference = stream.close()
    data = b'{"a":2,"b":1}\n{"c":[]}\nraw\n'
    assert reference == RawRef.of("sampler.jsonl", data) == stream.close()
    assert reference.read(attempt.directory) == data
    with pytest.raises(EvidenceError, match="is closed"):
        stream.write({})
    with pytest.raises(EvidenceError, match="never overwritten"):
        attempt.stream("sampler.jsonl")


def test_several_threads_may_write_to_a_stream(attempt: Attempt) -> None:
    stream = attempt.stream("s.jsonl")
    threads = [
        threading.Thread(target=lambda n=n: [stream.write({"n": n}) for _ in range(50)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.close().read(attempt.directory).splitlines()
    assert sorted(json.loads(line)["n"] for line in lines) == [
        n for n in range(4) for _ in range(50)
    ]


def test_a_line_that_fails_is_taken_back(attempt: Attempt, failing: FailingCalls) -> None:
    stream = attempt.stream("s.jsonl")
    stream.write({"n": 1})
    failing.fail("write", 1, partial=3)
    with pytest.raises(EvidenceError, match=r"s\.jsonl: cannot be written: .*ENOSPC"):
        stream.write({"n": 2})
    stream.write({"n": 3})
    assert stream.close().read(attempt.directory) == b'{"n":1}\n{"n":3}\n'


def test_a_line_that_is_no_json_is_refused(attempt: Attempt) -> None:
    stream = attempt.stream("s.jsonl")
    with pytest.raises(EvidenceError, match="NaN"):
        stream.write({"n": float("nan")})
    assert stream.close().size == 0


# -- states ------------------------------------------------------------------------------------


def test_a_finished_state_is_completed_and_journalled(attempt: Attempt) -> None:
    raw = attempt.raw("x.log", b"x")
    reference = attempt.finish_state(State.FAULTED, state_body(raw))
    record = read(attempt, "states/faulted.json")
    assert record["schema"] == "sremut/state/v1"
    assert (record["run"], record["attempt"], record["state"]) == ("ms-m02-r03", 1, "faulted")
    assert record["registration"] == "EXPLORATORY"
    assert (attempt.directory / "states/faulted.json").read_bytes() == canonical_json(record)
    loaded = load_attempt(attempt.directory)
    assert loaded.journal.entries[-1].transition == "STATE_RECORDED"
    assert loaded.journal.entries[-1].references == (reference.sha256,)


def test_a_state_is_finished_once(attempt: Attempt) -> None:
    finish(attempt, State.HEALTHY)
    with pytest.raises(EvidenceError, match="never overwritten"):
        attempt.finish_state(State.HEALTHY, state_body(RawRef.of("raw/healthy.log", b"healthy")))


def remove(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda body: body.pop(key)  # type: ignore[return-value]


def reading(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["readings"][0].update(changes)


def contract(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["contract"].update(changes)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (remove("readings"), "no key readings"),
        (remove("workload"), "no key workload"),
        (lambda body: body.update(extra=1), "extra: found unknown key"),
        (lambda body: body.update(started="yesterday"), "started"),
        (lambda body: body.update(run="ms-m01-r01"), "run is 'ms-m01-r01'"),
        (lambda body: body.update(attempt=2), "attempt is 2"),
        (lambda body: body.update(state="healthy"), "state is 'healthy'"),
        (lambda body: body.update(registration="SEALED"), "registration is 'SEALED'"),
        (lambda body: body.update(timings={"x": -1}), "timings.x"),
        (lambda body: body.update(facts={"n": 2**53}), "2^53"),
        (reading(verdict=True), "readings[0].verdict: found true; allowed: ACCEPT, REJECT, ERROR"),
        (reading(verdict="PASS"), "readings[0].verdict"),
        (reading(verdict="ERROR", returned=None), "an exception or the raw returned object"),
        (reading(returned=None), "the raw returned object of a verdict"),
        (reading(exception={"type": "T", "message": ""}), "no exception beside a verdict"),
        (reading(returned=RawRef.of("raw/none", b"").as_json()), "refers to raw/none"),
        (reading(returned=RawRef.of("raw/x.log", b"y").as_json()), "refers to raw/x.log"),
        (contract(verdict="PASS"), "no violated invariant"),
        (contract(violated=[]), "at least one violated invariant"),
        (contract(verdict="ERROR"), "contract"),
    ],
)
def test_a_state_record_that_does_not_hold_is_refused(
    attempt: Attempt, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    raw = attempt.raw("x.log", b"x")
    body = json.loads(json.dumps(state_body(raw)))
    change(body)
    with pytest.raises(EvidenceError) as caught:
        attempt.finish_state(State.FAULTED, body)
    assert told in str(caught.value)
    assert "states/faulted.json" in str(caught.value)
    assert not (attempt.directory / "states" / "faulted.json").exists()
    attempt.finish_state(State.FAULTED, state_body(raw))


# -- the end -----------------------------------------------------------------------------------


def test_a_complete_attempt_holds_everything_by_digest(
    attempt: Attempt, root: EvidenceRoot
) -> None:
    stream = attempt.stream("sampler.jsonl")
    stream.write({"pods": 27})
    finish(attempt, *State)
    reference = attempt.close(
        outcome=Outcome.COMPLETE,
        reason="",
        record={
            "sampler": stream.close().as_json(),
            "instruments": {"in-process": {"pid": 1}},
            "timings": {"settle": 2.0},
            "waiting": {"settle": 2.0},
            "cluster": {"kind": "embedded", "more": 1},
        },
    )
    record = read(attempt, "record.json")
    assert reference == RawRef.of("record.json", canonical_json(record))
    assert record["outcome"] == "COMPLETE"
    assert set(record["states"]) == {"healthy", "faulted", "restored"}
    assert [item["path"] for item in record["raw"]] == [
        "raw/faulted.log", "raw/healthy.log", "raw/restored.log", "sampler.jsonl",
    ]  # fmt: skip
    assert record["cluster"] == {"kind": "embedded", "more": 1}
    (entry,) = root.attempts()
    assert entry.outcome is Outcome.COMPLETE
    assert entry.record == reference
    assert entry.journal_head == record["journal"]["head"]
    assert attempt.closed


def test_the_sampler_is_found_by_its_name(attempt: Attempt) -> None:
    attempt.stream("sampler.jsonl").write({"pods": 27})
    attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record={})
    record = read(attempt, "record.json")
    assert record["sampler"] == RawRef.of("sampler.jsonl", b'{"pods":27}\n').as_json()
    assert load_attempt(attempt.directory).problems == ()


def test_complete_needs_all_three_states(attempt: Attempt, root: EvidenceRoot) -> None:
    finish(attempt, State.HEALTHY, State.FAULTED)
    with pytest.raises(EvidenceError, match="no key restored"):
        attempt.close(outcome=Outcome.COMPLETE, reason="", record={})
    assert root.attempts()[0].died
    finish(attempt, State.RESTORED)
    attempt.close(outcome=Outcome.COMPLETE, reason="", record={})


def test_any_other_outcome_needs_a_reason(attempt: Attempt) -> None:
    with pytest.raises(EvidenceError, match="DRIVER_ABORTED without a reason"):
        attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="", record={})
    attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="interrupted", record={})


def test_nothing_comes_after_the_end(attempt: Attempt) -> None:
    attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="interrupted", record={})
    calls: list[Callable[[], object]] = [
        lambda: attempt.raw("x", b""),
        lambda: attempt.stream("x"),
        lambda: attempt.finish_state(State.HEALTHY, {}),
        lambda: attempt.journal.append("X"),
        lambda: attempt.close(outcome=Outcome.COMPLETE, reason="", record={}),
    ]
    for call in calls:
        with pytest.raises(EvidenceError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"extra": 1}, "extra: found unknown key"),
        ({"outcome": "COMPLETE"}, "outcome is 'COMPLETE'"),
        ({"mutant": "MS-M01"}, "mutant is 'MS-M01'"),
        ({"raw": []}, "raw is []"),
        ({"sampler": RawRef.of("sampler.jsonl", b"").as_json()}, "refers to sampler.jsonl"),
        ({"timings": {"x": "1"}}, "timings.x"),
        ({"facts": {"x": float("inf")}}, "NaN and infinity"),
    ],
)
def test_a_record_that_does_not_hold_is_refused(
    attempt: Attempt, record: dict[str, Any], told: str
) -> None:
    attempt.raw("x", b"")
    with pytest.raises(EvidenceError) as caught:
        attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record=record)
    assert told in str(caught.value)
    attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record={})


@pytest.mark.parametrize(("at", "record_stands"), [(1, False), (2, True)])
def test_a_disk_full_while_closing_can_be_closed_again(
    attempt: Attempt, root: EvidenceRoot, failing: FailingCalls, at: int, record_stands: bool
) -> None:
    failing.fail("link", at)
    with pytest.raises(EvidenceError, match="ENOSPC"):
        attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record={})
    assert (attempt.directory / "record.json").exists() is record_stands
    assert root.attempts()[0].died
    reference = attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record={})
    assert root.attempts()[0].record == reference
    assert load_attempt(attempt.directory).problems == ()


@pytest.mark.parametrize("name", ["open", "write", "fsync", "link"])
def test_raw_that_fails_is_not_half_there(
    attempt: Attempt, failing: FailingCalls, name: str
) -> None:
    attempt.raw("first", b"1")
    failing.fail(name, 1, code=errno.EROFS)
    with pytest.raises(EvidenceError, match=r"raw/second: .*EROFS"):
        attempt.raw("second", b"2")
    assert [path.name for path in (attempt.directory / "raw").iterdir()] == ["first"]
    attempt.raw("second", b"2")


FULL = """
import resource, sys
from pathlib import Path
from evidence_doubles import identity
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.root import EvidenceRoot
attempt = EvidenceRoot.open(Path(sys.argv[1])).begin(identity())
attempt.raw("small", b"x" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
stream = attempt.stream("s.jsonl")
for call in (lambda: attempt.raw("large", b"x" * 5000), lambda: stream.write_bytes(b"y" * 5000)):
    try:
        call()
    except EvidenceError as error:
        print(error)
stream.write({"n": 1})
print(stream.close().size)
"""


def test_a_file_that_the_kernel_refuses_is_not_half_there(tmp_path: Path) -> None:
    doubles = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "evidence")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([doubles, *sys.path])},
    )
    large, stream, size = done.stdout.splitlines()
    assert "raw/large: cannot be written" in large
    assert "EFBIG" in large
    assert "s.jsonl: cannot be written" in stream
    assert size == "8"
    directory = tmp_path / "evidence/missing_service/ms-m02-r03/a01"
    assert [path.name for path in (directory / "raw").iterdir()] == ["small"]
    assert (directory / "s.jsonl").read_bytes() == b'{"n":1}\n'


def test_the_identity_is_checked_before_it_is_written(root: EvidenceRoot) -> None:
    with pytest.raises(EvidenceError, match=r"files\.study"):
        root.begin(identity(files={"study": "not a digest"}))
