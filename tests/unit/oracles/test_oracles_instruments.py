"""Both instruments on well-behaved graders and on rogues."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles.instruments import InProcess, Instrument, Isolated
from pytest_sremut.oracles.isolated import ENVIRONMENT
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.verdict import Verdict

RequestFor = Callable[..., ReadingRequest]


@pytest.fixture(scope="module")
def warm() -> Iterator[Isolated]:
    """One worker for the whole module, as a session has it."""
    instrument = Isolated()
    instrument.start()
    yield instrument
    instrument.close()


@pytest.fixture(scope="module")
def inside() -> Iterator[InProcess]:
    instrument = InProcess()
    instrument.start()
    yield instrument
    instrument.close()


@pytest.fixture(params=["in-process", "isolated"])
def instrument(request: pytest.FixtureRequest, warm: Isolated, inside: InProcess) -> Instrument:
    """Either."""
    return warm if request.param == "isolated" else inside


def _gone(pid: int) -> bool:
    """Whether the process ends (it may be on its way)."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)


# -- the same readings ---------------------------------------------------------------------------


def test_an_accepting_grader(instrument: Instrument, request_for: RequestFor) -> None:
    reading = instrument.read(request_for("Accepts"))
    assert (reading.verdict, reading.reason, reading.exception) == (Verdict.ACCEPT, "", None)
    assert (reading.oracle, reading.use) == ("O1", "python:rogue_oracles:Accepts")
    assert reading.instrument == instrument.name
    assert reading.returned["kubeconfig"].endswith("kubeconfig")
    assert reading.started.endswith("Z")
    assert reading.elapsed >= 0
    assert len(reading.facts["modules"]["rogue_oracles"]) == 64
    assert {"python", "kubernetes"} <= set(reading.facts)


def test_a_rejecting_grader_sees_its_context(
    instrument: Instrument, request_for: RequestFor
) -> None:
    reading = instrument.read(request_for("Rejects"))
    assert reading.verdict is Verdict.REJECT
    assert reading.returned["baseline"] == {"user-service": 3}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("None", "returned a NoneType"),
        ("{'success': 1}", "'success' is an int"),
        ("object()", "returned <object object at "),
        ("[1, 2]", "returned a list"),
    ],
)
def test_nonsense_is_an_error(
    instrument: Instrument, request_for: RequestFor, expression: str, reason: str
) -> None:
    reading = instrument.read(request_for("Returns", expression=expression))
    assert reading.verdict is Verdict.ERROR
    assert reason in reading.reason
    assert reading.exception is None


def test_an_exception_is_an_error_and_kept(instrument: Instrument, request_for: RequestFor) -> None:
    reading = instrument.read(request_for("Raises"))
    assert reading.verdict is Verdict.ERROR
    assert reading.exception is not None
    assert reading.exception.type == "LookupError"
    assert reading.exception.message == "no such \\udcff thing"
    assert "rogue_oracles.py" in reading.exception.traceback
    assert reading.returned is None
    reading.to_json()


@pytest.mark.parametrize("name", ["Exits", "BrokenText", "Unrepresentable"])
def test_other_bad_ends(instrument: Instrument, request_for: RequestFor, name: str) -> None:
    reading = instrument.read(request_for(name))
    expected = Verdict.ACCEPT if name == "Unrepresentable" else Verdict.ERROR
    assert reading.verdict is expected
    if name == "Exits":
        assert reading.reason == "SystemExit: 3"


def test_output_is_kept_and_bounded(instrument: Instrument, request_for: RequestFor) -> None:
    reading = instrument.read(request_for("Prints", kib=3000))
    assert reading.verdict is Verdict.ACCEPT
    assert reading.stdout.startswith("xxx")
    assert (1 << 20) <= len(reading.stdout) < (1 << 20) + 100
    assert "were not kept]" in reading.stdout
    assert reading.stderr == "to stderr\n"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("reference:nope", "allowed: reference:pods-and-deployments, reference:service-endpoints"),
        ("sregym:Thing", "unknown oracle"),
        ("python:no.such.module:X", "cannot import no.such.module"),
        ("python:rogue_oracles:Nope", "has no class Nope"),
        ("python:rogue_oracles:__doc__", "has no class __doc__"),
        ("python:os:system(1)", "unknown oracle"),
        ("all-of", "at least one oracle"),
    ],
)
def test_names_that_mean_nothing(
    instrument: Instrument, request_for: RequestFor, use: str, message: str
) -> None:
    with pytest.raises(UsageError, match="oracle") as caught:
        instrument.read(request_for(use))
    assert message in str(caught.value)


def test_all_of_rogues(instrument: Instrument, request_for: RequestFor) -> None:
    base = request_for("Accepts")

    def tree(*names: str) -> ReadingRequest:
        children = tuple(OracleNode(id=name, use=f"python:rogue_oracles:{name}") for name in names)
        return replace(base, oracle=OracleNode(id="O4", use="all-of", of=children))

    assert instrument.read(tree("Accepts", "Accepts")).verdict is Verdict.ACCEPT
    mixed = instrument.read(tree("Rejects", "Accepts"))
    assert mixed.verdict is Verdict.REJECT
    assert [(row["name"], row["success"]) for row in mixed.returned["oracles"]] == [
        ("Rejects", False),
        ("Accepts", True),
    ]
    assert mixed.returned["accuracy"] == 50.0
    assert instrument.read(tree("Rejects", "Raises")).verdict is Verdict.ERROR


def test_a_grader_that_changes_its_process(instrument: Instrument, request_for: RequestFor) -> None:
    before = (Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout)
    reading = instrument.read(request_for("ChangesProcess"))
    assert reading.verdict is Verdict.ACCEPT
    after = (Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout)
    assert before == after
    names = instrument.read(request_for("Environment")).returned["names"]
    assert "SREMUT_ROGUE" not in names


def test_a_hard_exit_is_the_oracles_error(instrument: Instrument, request_for: RequestFor) -> None:
    reading = instrument.read(request_for("HardExits"))
    assert reading.verdict is Verdict.ERROR
    assert reading.exception is not None
    assert reading.exception.type == "ProcessExit"
    assert "exited with 7" in reading.reason
    assert reading.stderr == "going\n"


def test_closed_descriptors_are_the_oracles_error(
    instrument: Instrument, request_for: RequestFor
) -> None:
    assert instrument.read(request_for("ClosesEverything")).verdict is Verdict.ERROR
    assert instrument.read(request_for("Accepts")).verdict is Verdict.ACCEPT


@pytest.mark.parametrize(
    ("name", "why"), [("KillsItself", "ended by signal 9"), ("Interrupted", "KeyboardInterrupt")]
)
def test_an_early_end_is_the_oracles_error(
    instrument: Instrument, request_for: RequestFor, name: str, why: str
) -> None:
    reading = instrument.read(request_for(name))
    assert reading.verdict is Verdict.ERROR
    assert why in reading.reason
    assert instrument.read(request_for("Accepts")).verdict is Verdict.ACCEPT


def test_a_killed_worker_is_an_error_and_the_next_reading_has_a_new_one(
    instrument: Instrument, request_for: RequestFor
) -> None:
    reading = instrument.read(request_for("KillsItsParent"))
    assert reading.verdict is Verdict.ERROR
    assert "the oracle worker died (status -9)" in reading.reason
    assert reading.facts["modules"].keys() == {"rogue_oracles"}
    assert instrument.read(request_for("Accepts")).verdict is Verdict.ACCEPT


def test_a_hanging_grader_is_killed_with_its_descendants(
    instrument: Instrument, request_for: RequestFor, tmp_path: Path
) -> None:
    note = tmp_path / "pids"
    with pytest.raises(HarnessError, match=r"O1 did not end within 0.5 s"):
        instrument.read(request_for("Hangs", timeout=0.5, note=str(note)))
    for pid in note.read_text().split():
        assert _gone(int(pid))
    assert instrument.read(request_for("Accepts")).verdict is Verdict.ACCEPT


@pytest.mark.parametrize("name", ["Sleeps", "SwallowsEverything"])
def test_a_grader_that_swallows_whatever_it_can_is_ended(
    instrument: Instrument, request_for: RequestFor, name: str
) -> None:
    with pytest.raises(HarnessError, match=r"did not end within 0\.3 s"):
        instrument.read(request_for(name, timeout=0.3))


# -- isolated only -------------------------------------------------------------------------------


def test_every_reading_has_a_process_of_its_own(warm: Isolated, request_for: RequestFor) -> None:
    first, second = (warm.read(request_for("Accepts")) for _ in range(2))
    pids = {os.getpid(), first.facts["pid"], second.facts["pid"]}
    assert len(pids) == 3
    draws = {warm.read(request_for("Environment")).returned["random"] for _ in range(2)}
    assert len(draws) == 2


def test_the_environment_is_allow_listed(
    request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    instrument = Isolated(environment={"EXTRA": "1"})
    try:
        names = set(instrument.read(request_for("Environment")).returned["names"])
    finally:
        instrument.close()
    assert names - {"KUBECONFIG", "EXTRA", "LC_CTYPE"} <= set(ENVIRONMENT)
    assert {"KUBECONFIG", "EXTRA"} <= names


def test_bytes_to_descriptor_one_are_output_and_not_frames(
    warm: Isolated, request_for: RequestFor
) -> None:
    reading = warm.read(request_for("WritesToDescriptorOne"))
    assert reading.verdict is Verdict.ACCEPT
    assert reading.stdout == "\\xff raw bytes to 1\nfrom a shell\n"


def test_standard_input_is_empty(warm: Isolated, request_for: RequestFor) -> None:
    assert warm.read(request_for("ReadsInput")).verdict is Verdict.ACCEPT


def test_a_daemon_left_behind_is_ended_and_not_waited_for(
    warm: Isolated, request_for: RequestFor
) -> None:
    reading = warm.read(request_for("LeavesDaemon"))
    assert reading.verdict is Verdict.ACCEPT
    assert _gone(reading.returned["daemon"])


def test_a_large_result_is_no_verdict(warm: Isolated, request_for: RequestFor) -> None:
    """What was not kept cannot be judged."""
    expression = "{'success': True, 'x': 'y' * 20_000_000}"
    reading = warm.read(request_for("Returns", expression=expression))
    assert reading.verdict is Verdict.ERROR
    assert reading.returned == {"$repr": "<dict: too large to keep>"}
    assert reading.reason == "the oracle returned <dict: too large to keep>, not a mapping"


def test_an_interpreter_that_is_none(request_for: RequestFor) -> None:
    with pytest.raises(HarnessError, match="cannot start"):
        Isolated(python="/nonexistent").read(request_for("Accepts"))


def test_a_worker_that_speaks_nonsense(request_for: RequestFor, tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho nonsense that is long enough to be a frame\n")
    script.chmod(0o755)
    with pytest.raises(HarnessError):
        Isolated(python=str(script)).read(request_for("Accepts"))


def test_closing_ends_the_worker(request_for: RequestFor) -> None:
    instrument = Isolated()
    instrument.read(request_for("Accepts"))
    assert instrument._worker is not None
    pid = instrument._worker._process.pid
    instrument.close()
    instrument.close()
    assert _gone(pid)


def _hangs(note: Path) -> None:
    """Wait until the oracle and its child have noted who they are."""
    never = threading.Event()
    for _ in range(6000):
        with contextlib.suppress(FileNotFoundError):
            if len(note.read_text().split()) == 2:
                return
        never.wait(0.01)


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """In a shell's background a suite leaves it alone, and would wait for the time limit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_oracle(
    hears_ctrl_c: None, request_for: RequestFor, tmp_path: Path
) -> None:
    """A Ctrl-C during a reading leaves no process that goes on by itself."""
    note = tmp_path / "pids"
    instrument = Isolated()
    main = threading.get_ident()

    def interrupt() -> None:
        _hangs(note)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        instrument.read(request_for("Hangs", timeout=120, note=str(note)))
    interrupter.join()
    for pid in note.read_text().split():
        assert _gone(int(pid))


def test_the_worker_dies_with_its_parent(request_for: RequestFor, tmp_path: Path) -> None:
    """Killed outright, in the middle of a reading."""
    note = tmp_path / "pids"
    code = f"""
import sys, threading, os
sys.path.insert(0, {str(Path(__file__).parent.parent / "support")!r})
from pytest_sremut.oracles.instruments import Isolated
from pytest_sremut.oracles.request import ReadingRequest
instrument = Isolated()
instrument.start()
print(instrument._worker._process.pid, flush=True)
instrument.read(ReadingRequest.from_json({request_for("Hangs", note=str(note)).to_json()!r}))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        _hangs(note)
        parent.kill()
    assert _gone(worker)
    for pid in note.read_text().split():
        assert _gone(int(pid))


# -- in process only -----------------------------------------------------------------------------


def test_a_process_is_kept_for_each_oracle(inside: InProcess, request_for: RequestFor) -> None:
    first = inside.read(request_for("Counts"))
    again = inside.read(request_for("Counts"))
    other = inside.read(
        replace(request_for("Counts"), oracle=replace(request_for("Counts").oracle, id="O2"))
    )
    assert [one.returned["count"] for one in (first, again, other)] == [1, 2, 1]
    assert first.facts["pid"] == again.facts["pid"] != other.facts["pid"]
    assert os.getpid() not in {first.facts["pid"], other.facts["pid"]}


def test_nothing_is_kept_for_an_isolated_oracle(warm: Isolated, request_for: RequestFor) -> None:
    assert [warm.read(request_for("Counts")).returned["count"] for _ in range(2)] == [1, 1]


def test_all_of_our_environment_is_there(
    request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SREMUT_TEST_VARIABLE", "1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    instrument = InProcess()
    try:
        names = instrument.read(request_for("Environment")).returned["names"]
    finally:
        instrument.close()
    assert {"SREMUT_TEST_VARIABLE", "PYTHONPATH"} <= set(names)
