"""What a grader can do to its reading: nothing but return, raise and print."""

from __future__ import annotations

import hashlib
import os
import py_compile
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from attacking_oracles import _frame

from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.instruments import InProcess, Instrument, Isolated
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import Verdict

RequestFor = Callable[..., ReadingRequest]
Attacked = Callable[..., Reading]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that stands for the evidence."""
    directory = tmp_path_factory.mktemp("evidence") / "closed"
    directory.mkdir()
    (directory / "journal.jsonl").write_text("one\n")
    return directory


@pytest.fixture(scope="module", params=[InProcess, Isolated])
def instrument(request: pytest.FixtureRequest, closed: Path) -> Iterator[Instrument]:
    made = request.param(closed=[closed])
    made.start()
    yield made
    made.close()


@pytest.fixture
def attacked(instrument: Instrument, request_for: RequestFor) -> Attacked:
    """Read an attacker; then an honest oracle is read as if nothing had been."""

    def read(name: str, **arguments: object) -> Reading:
        reading = instrument.read(request_for(f"python:attacking_oracles:{name}", **arguments))
        honest = instrument.read(request_for("Rejects"))
        assert (honest.oracle, honest.verdict) == ("O1", Verdict.REJECT)
        return reading

    return read


# -- the judge and the frames --------------------------------------------------------------------


def test_a_judge_that_was_patched_judges_nothing(attacked: Attacked) -> None:
    reading = attacked("PatchesTheJudge")
    assert (reading.verdict, reading.returned) == (Verdict.REJECT, {"success": False})


@pytest.mark.parametrize("oracle", ["O1", "O2", "contract"])
def test_a_reading_of_its_own_making_is_an_error(attacked: Attacked, oracle: str) -> None:
    reading = attacked("SendsAReading", oracle=oracle)
    assert (reading.oracle, reading.verdict) == ("O1", Verdict.ERROR)
    assert reading.exception is not None
    assert reading.exception.type == "ForeignFrame"
    assert reading.facts["modules"].keys() == {"attacking_oracles"}


def test_an_answer_before_the_answer_is_an_error(attacked: Attacked) -> None:
    reading = attacked("SendsTwice")
    assert (reading.verdict, reading.returned) == (Verdict.ERROR, None)
    assert reading.reason == "the oracle's process sent more than its answer"


@pytest.mark.parametrize("kind", ["usage", "refused", "harness"])
def test_the_blame_cannot_be_put_on_others(attacked: Attacked, kind: str) -> None:
    reading = attacked("SendsOurs", kind=kind)
    assert reading.verdict is Verdict.ERROR
    assert "it was you" not in reading.reason


@pytest.mark.parametrize("what", ["UsageError", "GuardRefusedError", "HarnessError"])
def test_an_exception_of_ours_is_the_oracles(attacked: Attacked, what: str) -> None:
    reading = attacked("RaisesOurs", what=what)
    assert (reading.verdict, reading.reason) == (
        Verdict.ERROR, f"pytest_sremut.errors.{what}: it was you",
    )  # fmt: skip


def test_no_process_of_an_oracle_has_held_a_nonce(attacked: Attacked) -> None:
    attacked("LooksForANonce")
    reading = attacked("LooksForANonce")
    assert reading.returned == {"success": True, "found": []}


def test_a_kept_process_that_speaks_unasked_is_not_asked_again(
    closed: Path, request_for: RequestFor, tmp_path: Path
) -> None:
    instrument = InProcess(closed=[closed])
    note = tmp_path / "note"
    asked = request_for("python:attacking_oracles:SpeaksLater", note=str(note))
    try:
        first = instrument.read(asked)
        while not note.exists():
            os.sched_yield()
        again = instrument.read(asked)
    finally:
        instrument.close()
    assert (first.verdict, again.verdict) == (Verdict.ACCEPT, Verdict.ACCEPT)
    assert first.returned["pid"] != again.returned["pid"]


# -- early ends, hostile objects -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LeavesSilently", "LeavesByTheLibrary"])
def test_a_silent_exit_is_an_error(attacked: Attacked, name: str) -> None:
    reading = attacked(name)
    assert reading.verdict is Verdict.ERROR
    assert reading.reason == "the oracle's process exited with 0 before it returned"


@pytest.mark.parametrize("what", ["interrupt", "base", "text", "exit", "generator"])
def test_whatever_is_raised_is_an_error(attacked: Attacked, what: str) -> None:
    reading = attacked("Raises", what=what)
    assert reading.verdict is Verdict.ERROR
    assert reading.exception is not None


@pytest.mark.parametrize(
    "what", ["changes", "contains", "equal", "million", "million in it", "deep"]
)
def test_a_hostile_object_is_an_error(attacked: Attacked, what: str) -> None:
    reading = attacked("Returns", what=what)
    assert reading.verdict is Verdict.ERROR
    assert len(str(reading.to_json())) < 10_000


# -- processes and files ---------------------------------------------------------------------------


def _require_walls(reading: Reading) -> None:
    if not reading.facts["walls"]["closed"]:
        needs.lacking("walls", f"needs walls: {reading.facts['walls']['why']}")


def test_the_evidence_cannot_be_written(attacked: Attacked, closed: Path) -> None:
    before = closed.stat().st_mtime_ns
    reading = attacked("Writes", directory=str(closed))
    _require_walls(reading)
    assert set(reading.returned["told"]) <= {"OSError", "PermissionError", "FileNotFoundError"}
    assert (closed / "journal.jsonl").read_text() == "one\n"
    assert [path.name for path in closed.iterdir()] == ["journal.jsonl"]
    assert closed.stat().st_mtime_ns == before


def test_the_processes_above_cannot_be_looked_into(attacked: Attacked) -> None:
    reading = attacked("OpensTheWorker", session=os.getpid())
    _require_walls(reading)
    assert set(reading.returned["told"].values()) == {"PermissionError"}


def test_the_workers_pipes_cannot_be_opened(attacked: Attacked) -> None:
    reading = attacked("SendsToTheWorkersParent")
    _require_walls(reading)
    assert (reading.verdict, reading.returned["opened"]) == (Verdict.REJECT, 0)


def test_where_nothing_can_be_closed_the_record_says_so(
    request_for: RequestFor, closed: Path
) -> None:
    instrument = Isolated(closed=[closed / "journal.jsonl" / "no-directory"])
    try:
        reading = instrument.read(request_for("Accepts"))
    finally:
        instrument.close()
    walls = reading.facts["walls"]
    assert (reading.verdict, walls["closed"], walls["by"]) == (Verdict.ACCEPT, False, "")
    assert "Not a directory" in walls["why"] or "No such file" in walls["why"]


# -- what is loaded ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [InProcess, Isolated])
def test_stale_bytecode_is_not_believed(
    kind: type[Isolated], request_for: RequestFor, tmp_path: Path
) -> None:
    """A cache beside the module says ACCEPT under the source's own time and size."""
    source = textwrap.dedent(
        """
        class Grader:
            def __init__(self, context): ...
            def evaluate(self):
                return {"success": False}
        """
    )
    module = tmp_path / "cached_grader.py"
    module.write_text(source.replace("False", "True "))
    stamp = module.stat()
    py_compile.compile(str(module), doraise=True)
    module.write_text(source)
    os.utime(module, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    instrument = kind(root=tmp_path)
    try:
        reading = instrument.read(request_for("python:cached_grader:Grader"))
    finally:
        instrument.close()
    assert reading.verdict is Verdict.REJECT


@pytest.mark.parametrize("kind", [InProcess, Isolated])
def test_a_module_that_was_changed_is_loaded_anew(
    kind: type[Isolated], request_for: RequestFor, tmp_path: Path
) -> None:
    """What a record says was loaded is what was loaded, in a process that is kept, too."""
    module = tmp_path / "changing_grader.py"
    source = "class Grader:\n    def __init__(self, context): ...\n    def evaluate(self):\n"
    asked = request_for("python:changing_grader:Grader")
    instrument = kind(root=tmp_path)
    try:
        found = []
        for answer in ("True", "False"):
            module.write_text(f"{source}        return {{'success': {answer}}}\n")
            found.append(instrument.read(asked))
    finally:
        instrument.close()
    assert [one.verdict for one in found] == [Verdict.ACCEPT, Verdict.REJECT]
    assert len({one.facts["modules"]["changing_grader"] for one in found}) == 2


@pytest.mark.parametrize("text", ["class Grader(", "(" * 50_000, "class Grader: ...\n\0"])
def test_a_module_that_cannot_be_compiled_is_an_error(
    request_for: RequestFor, tmp_path: Path, text: str
) -> None:
    """And no end of the worker, which compiles for the processes that it forks."""
    (tmp_path / "broken_grader.py").write_text(text)
    instrument = Isolated(root=tmp_path)
    try:
        reading = instrument.read(request_for("python:broken_grader:Grader"))
        honest = instrument.read(request_for("Accepts"))
    finally:
        instrument.close()
    assert (reading.verdict, honest.verdict) == (Verdict.ERROR, Verdict.ACCEPT)
    assert reading.exception is not None
    assert reading.exception.type not in {"ProcessExit", "ForeignFrame"}


@pytest.mark.parametrize("kind", [InProcess, Isolated])
def test_a_module_that_ends_its_process_while_it_is_imported(
    kind: type[Isolated], request_for: RequestFor, tmp_path: Path
) -> None:
    (tmp_path / "leaving_grader.py").write_text("import os\nclass Grader: ...\nos._exit(0)\n")
    instrument = kind(root=tmp_path)
    try:
        reading = instrument.read(request_for("python:leaving_grader:Grader"))
        honest = instrument.read(request_for("Accepts"))
    finally:
        instrument.close()
    assert (reading.verdict, honest.verdict) == (Verdict.ERROR, Verdict.ACCEPT)


@pytest.mark.parametrize("kind", [InProcess, Isolated])
def test_a_module_is_the_one_that_was_hashed_under_its_name(
    kind: type[Isolated],
    request_for: RequestFor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session's path decides, in its order; a module of the project stands in for none of ours.

    `colorsys` is in the standard library, too, behind the project; `six` is a dependency's.
    """
    source = "class Grader:\n    def __init__(self, context): ...\n    def evaluate(self):\n"
    for name, answer in (("first", "True"), ("second", "False")):
        (tmp_path / name).mkdir()
        text = f"import colorsys\n{source}        return {{'success': colorsys.{name}}}\n"
        (tmp_path / name / "twofold_grader.py").write_text(text)
        (tmp_path / name / "colorsys.py").write_text(f"{name} = {answer}\n")
        (tmp_path / name / "six.py").write_text("raise SystemExit(3)\n")
    for name in ("second", "first"):
        monkeypatch.syspath_prepend(str(tmp_path / name))
    instrument = kind(root=tmp_path)
    try:
        reading = instrument.read(request_for("python:twofold_grader:Grader"))
    finally:
        instrument.close()
    assert (reading.verdict, reading.reason) == (Verdict.ACCEPT, "")
    modules = {
        name: hashlib.sha256((tmp_path / "first" / f"{name}.py").read_bytes()).hexdigest()
        for name in ("colorsys", "twofold_grader")
    }
    assert reading.facts["modules"] == modules


# -- somebody in the worker's place ----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "result", "id": 1, "nonce": "", "frames": []}',
        '{"type": "ended", "id": 1}{"type": "result", "id": 1, "nonce": "0"}',
        '{"type": "ended", "id": 2}',
        '{"type": "ready"}',
        "",
    ],
)
def test_a_result_without_the_nonce_is_no_reading(
    request_for: RequestFor, tmp_path: Path, answer: str
) -> None:
    """Whoever writes into the worker's pipe knows everything but the nonce."""
    frames = [f"{one}}}" for one in answer.split("}") if one]
    ready = '{"type": "ready", "versions": {}, "walls": {"closed": true}}'
    speech = "".join(f"say({frame!r})\n" for frame in frames)
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, struct, sys\n"
        "def say(text):\n"
        "    os.write(1, struct.pack('>I', len(text)) + text.encode())\n"
        "def hear():\n"
        "    size = struct.unpack('>I', os.read(0, 4))[0]\n"
        "    while size > 0: size -= len(os.read(0, size))\n"
        f"hear()\nsay({ready!r})\nhear()\n{speech}"
    )
    script.chmod(0o755)
    instrument = Isolated(python=str(script))
    reading = instrument.read(request_for("Accepts"))
    assert reading.verdict is Verdict.ERROR
    assert reading.oracle == "O1"


def test_what_an_oracle_is_not_to_blame_for_stays_ours(
    request_for: RequestFor, closed: Path
) -> None:
    """Its kubeconfig cannot be read: nothing of the oracle's ran."""
    instrument = Isolated(closed=[closed])
    broken = replace(request_for("Accepts"), kubeconfig="/nonexistent/kubeconfig")
    try:
        with pytest.raises(UsageError, match="kubeconfig"):
            instrument.read(broken)
    finally:
        instrument.close()


def test_frames_of_the_attacks_are_frames() -> None:
    assert _frame({}) == b"\0\0\0\x02{}"
