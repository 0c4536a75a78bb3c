"""Both instruments of a benchmark on the miniature one: what they give, and what rogues do."""

from __future__ import annotations

import dataclasses
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minibench import MINIBENCH, commit, git, make_checkout, pins_of, request

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles.benchmark import launching
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.conclude import Answer, reading_of
from pytest_sremut.oracles.framing import FrameReader, encode
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.oracles.warm import ENVIRONMENT, WarmWorker
from pytest_sremut.study.model import BenchmarkPins
from pytest_sremut.study.names import Instrument
from pytest_sremut.study.verdict import Verdict

WORKER = Path(sys.modules[BenchmarkInstrument.__module__].__file__ or "").with_name("worker.py")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("bench") / "checkout")


@pytest.fixture(scope="module")
def pins(checkout: Path) -> BenchmarkPins:
    return pins_of(checkout)


def make(checkout: Path, kind: Instrument = Instrument.OWN, **more: Any) -> BenchmarkInstrument:
    return BenchmarkInstrument(kind, directory=checkout, layouts={"minibench": MINIBENCH}, **more)


@pytest.fixture(scope="module", params=["own", "pinned"])
def instrument(request: pytest.FixtureRequest, checkout: Path) -> Iterator[BenchmarkInstrument]:
    """One warm worker of each kind for the whole module, as a session has them.

    Where no benchmark's interpreter is named, `pinned` runs under ours: another process with
    another path, the same protocol.
    """
    python = os.environ.get("SREMUT_BENCHMARK_PYTHON") or sys.executable
    made = make(checkout, Instrument(request.param), python=python)
    yield made
    made.close()


@pytest.fixture
def own(checkout: Path) -> Iterator[BenchmarkInstrument]:
    made = make(checkout)
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def untouched(checkout: Path) -> Iterator[None]:
    """Whatever any of these tests did, the checkout is as it was."""
    yield
    assert git(checkout, "status", "--porcelain", "--ignored") == ""


class Read:
    """Reads classes of the miniature benchmark."""

    def __init__(self, instrument: BenchmarkInstrument, pins: BenchmarkPins, place: Path) -> None:
        self.instrument = instrument
        self.pins = pins
        self.place = place

    def __call__(self, oracle: str | OracleNode, **more: Any) -> Reading:
        return self.instrument.read(request(self.place, self.pins, oracle, **more))


@pytest.fixture
def read(instrument: BenchmarkInstrument, pins: BenchmarkPins, tmp_path: Path) -> Read:
    return Read(instrument, pins, tmp_path)


@pytest.fixture
def read_own(own: BenchmarkInstrument, pins: BenchmarkPins, tmp_path: Path) -> Read:
    return Read(own, pins, tmp_path)


# -- what a class gets -----------------------------------------------------------------------------


def test_a_class_gets_its_problem_and_arguments_and_nothing_else(read: Read) -> None:
    os.environ["SREMUT_SECRET"] = "1"
    try:
        reading = read("Plain", colour="red")
    finally:
        del os.environ["SREMUT_SECRET"]
    assert (reading.verdict, reading.reason, reading.exception) == (Verdict.ACCEPT, "", None)
    assert (reading.oracle, reading.use) == ("O1", "minibench:Plain")
    assert reading.instrument == read.instrument.name
    told = reading.returned
    assert told["options"] == {"colour": "red"}
    assert told["class"] == "GoneService"
    assert set(told["problem"]) == {"broken_service", "cluster", "namespace"}
    assert told["problem"]["namespace"] == "'shop'"
    assert told["problem"]["broken_service"] == "'till'"
    allowed = {*ENVIRONMENT, "KUBECONFIG", "KUBECACHEDIR", "LC_CTYPE"}
    assert set(told["environment"]) <= allowed
    assert told["kubeconfig"] != str(read.place / "kubeconfig")
    assert told["directory"] == str(Path(told["kubeconfig"]).parent)


def test_a_record_names_versions_and_every_module_as_compiled(read: Read) -> None:
    reading = read("Plain")
    assert (
        reading.facts["modules"].items()
        >= {
            file: digest
            for file, digest in read.pins.files.items()
            if file.endswith(("rogue.py", "base.py", "oracles/__init__.py"))
        }.items()
    )
    assert "minibench/cluster.py" in reading.facts["modules"]
    assert reading.facts["sources"]["minibench:Plain"] == [
        "minibench/harness/oracles/rogue.py",
        "minibench/harness/oracles/base.py",
    ]
    assert reading.facts["commit"] == read.pins.commit
    assert reading.facts["python"].startswith("3.")
    assert "kubernetes" in reading.facts


def test_each_reading_has_a_process_of_its_own(read: Read) -> None:
    pids = {read("Plain").facts["pid"] for _ in range(3)}
    assert len(pids) == 3
    assert os.getpid() not in pids


def test_a_class_that_rejects(read: Read) -> None:
    assert read("Plain", solved=False).verdict is Verdict.REJECT


def test_a_module_that_is_imported_late_is_told(read: Read) -> None:
    reading = read("ImportsLate")
    assert reading.verdict is Verdict.ACCEPT
    assert "minibench/harness/oracles/late.py" in reading.facts["modules"]


def test_parts_are_passed_to_the_constructor_and_share_one_problem(read: Read) -> None:
    part = OracleNode(id="O1", use="minibench:Plain", arguments={"solved": False})
    other = OracleNode(id="O3", use="minibench:TakesAttribute", problem={"secret_port": 9})
    whole = OracleNode(id="O4", use="minibench:All", of=(part, other), arguments={"label": "both"})
    reading = read(whole)
    assert reading.verdict is Verdict.REJECT
    assert [one["solved"] for one in reading.returned["parts"]] == [False, True]
    assert reading.returned["of"] == "both"
    assert "secret_port" in reading.returned["parts"][0]["problem"]


def test_parts_that_want_different_problems_are_a_mistake_of_the_study(read: Read) -> None:
    parts = tuple(
        OracleNode(id=f"P{port}", use="minibench:Plain", problem={"port": port}) for port in (1, 2)
    )
    with pytest.raises(UsageError, match=r"problem\.port is 2 here and 1 elsewhere"):
        read(OracleNode(id="O4", use="minibench:All", of=parts))


# -- attributes of the problem -----------------------------------------------------------------


def test_an_attribute_is_set_for_the_call_and_deleted_after_it(read: Read) -> None:
    node = OracleNode(id="O3", use="minibench:Plain", problem={"secret_port": 9})
    reading = read(node)
    assert reading.returned["problem"]["secret_port"] == "9"
    assert reading.facts["problem"]["set"] == {
        "secret_port": {"before": {"present": False}, "value": 9, "after": {"present": False}}
    }
    assert read("Plain").returned["problem"].keys().isdisjoint({"secret_port"})


def test_an_oracle_may_take_its_attribute_away(read: Read) -> None:
    node = OracleNode(id="O3", use="minibench:TakesAttribute", problem={"secret_port": 9})
    assert read(node).verdict is Verdict.ACCEPT


def test_absence_is_asserted_before_anything_is_called(read: Read) -> None:
    node = OracleNode(id="O2", use="minibench:Plain", absent=("secret_port",))
    reading = read(node)
    assert reading.facts["problem"]["asserted_absent"] == ["secret_port"]
    assert reading.facts["problem"]["seen"] == {"secret_port": {"present": False}}
    given = dataclasses.replace(read.pins, problem={"secret_port": 1})
    with pytest.raises(HarnessError, match="already has secret_port, which must be absent"):
        read.instrument.read(request(read.place, given, node))


def test_the_studys_attributes_come_over_the_layouts(read: Read) -> None:
    given = dataclasses.replace(read.pins, problem={"broken_service": "purse", "limit": 3})
    reading = read.instrument.read(request(read.place, given, "Plain"))
    assert reading.returned["problem"]["broken_service"] == "'purse'"
    assert reading.returned["problem"]["limit"] == "3"


# -- diagnostics -------------------------------------------------------------------------------


def diagnosed(read: Read, method: str, **more: Any) -> Any:
    node = OracleNode(id="O2", use="minibench:TakesAttribute", diagnostic=method, **more)
    return read.instrument.diagnose(request(read.place, read.pins, node, timeout=1.0))


def test_a_diagnostic_keeps_the_exceptions_type_and_message(read: Read) -> None:
    told = diagnosed(read, "look", absent=("secret_port",))
    (call,) = told["calls"]
    assert told["method"] == "look"
    assert told["exception"] == {
        "type": "AttributeError",
        "message": "'GoneService' object has no attribute 'secret_port'",
    }
    assert call["exception"] == told["exception"]
    assert call["attributes"] == {"secret_port": {"present": False}}
    assert call["class"] == "TakesAttribute"


def test_a_diagnostic_that_returns(read: Read) -> None:
    told = diagnosed(read, "look", problem={"secret_port": 9})
    assert (told["exception"], told["calls"][0]["returned"]) == (None, 9)


def test_a_diagnostic_reaches_the_parts(read: Read) -> None:
    part = OracleNode(id="O3", use="minibench:TakesAttribute", problem={"secret_port": 9})
    node = OracleNode(id="O4", use="minibench:All", of=(part,), diagnostic="look")
    told = read.instrument.diagnose(request(read.place, read.pins, node))
    assert [(call["at"], call["returned"]) for call in told["calls"]] == [('["parts", 0]', 9)]


def test_a_diagnostic_that_hangs_is_ended(read: Read) -> None:
    with pytest.raises(HarnessError, match="did not end within 1 s"):
        diagnosed(read, "hang")


def test_a_method_that_does_not_exist_is_a_mistake_of_the_study(read: Read) -> None:
    with pytest.raises(UsageError, match="no method nowhere to diagnose"):
        diagnosed(read, "nowhere")


# -- baselines -------------------------------------------------------------------------------------


def test_what_was_captured_is_carried_to_another_process(read: Read) -> None:
    asked = request(read.place, read.pins, "Remembers")
    captured = read.instrument.capture(asked)
    assert captured['["note"]'] == {"seen": {"json": ["healthy"]}}
    assert set(captured["[]"]) == {"pairs", "kept"}
    assert all("pickle" in value for value in captured["[]"].values())
    without = read("Remembers")
    assert (without.verdict, without.facts["baseline"]) == (Verdict.REJECT, "not captured")
    reading = read.instrument.read(dataclasses.replace(asked, captured=captured))
    assert (reading.verdict, reading.facts["baseline"]) == (Verdict.ACCEPT, "captured")


def test_parts_capture_too(read: Read) -> None:
    part = OracleNode(id="O1", use="minibench:Remembers")
    asked = request(read.place, read.pins, OracleNode(id="O4", use="minibench:All", of=(part,)))
    captured = read.instrument.capture(asked)
    assert '["parts", 0, "note"]' in captured
    reading = read.instrument.read(dataclasses.replace(asked, captured=captured))
    assert reading.verdict is Verdict.ACCEPT


def test_a_class_without_a_baseline_captures_nothing(read: Read) -> None:
    assert read.instrument.capture(request(read.place, read.pins, "Plain")) == {}


def test_what_cannot_be_carried_is_told(read: Read) -> None:
    with pytest.raises(HarnessError, match=r"left RemembersTooMuch\.lock, an object of lock"):
        read.instrument.capture(request(read.place, read.pins, "RemembersTooMuch"))


def test_a_baseline_of_another_oracle_is_an_error(read: Read) -> None:
    """It is seen only once the oracle was made, by then its code has run: nothing else is lost."""
    reading = read("Plain", captured={'["gone"]': {"x": {"json": 1}}})
    assert reading.verdict is Verdict.ERROR
    assert "which this oracle lacks" in reading.reason


# -- rogues ----------------------------------------------------------------------------------------


def test_an_exception_is_an_error_and_no_verdict(read: Read) -> None:
    reading = read("Raises")
    assert reading.verdict is Verdict.ERROR
    assert reading.exception is not None
    assert (reading.exception.type, reading.exception.message) == (
        "LookupError",
        "nothing to grade",
    )
    assert "rogue.py" in reading.exception.traceback


def test_an_exception_of_the_constructor_is_the_oracles(read: Read) -> None:
    reading = read("RaisesWhileMade")
    assert (reading.verdict, reading.reason) == (Verdict.ERROR, "LookupError: cannot be made")


@pytest.mark.parametrize(
    ("which", "reason"),
    [
        ("none", "the oracle returned a NoneType, not a mapping"),
        ("text", "the oracle returned a str, not a mapping"),
        ("list", "the oracle returned a list, not a mapping"),
        ("one", "the oracle's 'solved' is an int, not True or False"),
        ("truthy", "the oracle's 'solved' is a list, not True or False"),
        ("missing", "the oracle returned a mapping without 'solved'"),
    ],
)
def test_nonsense_is_an_error_with_the_reason(read: Read, which: str, reason: str) -> None:
    reading = read("Nonsense", which=which)
    assert (reading.verdict, reading.reason) == (Verdict.ERROR, reason)
    assert reading.exception is None


def test_an_exit_is_an_error(read: Read) -> None:
    rogue = OracleNode(id="O1", use="python:minibench.harness.oracles.rogue:Exits")
    reading = read(rogue)
    assert (reading.verdict, reading.reason) == (Verdict.ERROR, "SystemExit: 3")
    reading = read("HardExits")
    assert reading.verdict is Verdict.ERROR
    assert "exited with 7 before it returned" in reading.reason
    assert read("Plain").verdict is Verdict.ACCEPT


def test_megabytes_of_output_are_cut(read: Read) -> None:
    reading = read("Prints")
    assert reading.verdict is Verdict.ACCEPT
    for text, letter in ((reading.stdout, "o"), (reading.stderr, "e")):
        assert len(text) < 1_100_000
        assert text.startswith(letter * 1023 + "\n")
        assert "more bytes were not kept" in text


def test_a_hang_is_ended_with_its_children_and_is_no_verdict(read: Read) -> None:
    with pytest.raises(HarnessError, match="did not end within 1 s") as caught:
        read("Hangs", timeout=1.0)
    child = int(str(caught.value).rpartition("child ")[2].split()[0])
    assert gone(child)
    assert read("Plain").verdict is Verdict.ACCEPT


def test_a_killed_process_is_an_error(read: Read) -> None:
    reading = read("KillsItself")
    assert reading.verdict is Verdict.ERROR
    assert "ended by signal 9 before it returned" in reading.reason


def test_a_killed_worker_is_an_error_and_the_next_reading_has_another(read_own: Read) -> None:
    reading = read_own("KillsItsWorker")
    assert reading.verdict is Verdict.ERROR
    assert "the oracle worker died" in reading.reason
    assert reading.facts["commit"] == read_own.pins.commit
    assert read_own("Plain").verdict is Verdict.ACCEPT


def gone(pid: int) -> bool:
    """Whether the process ends (it may be on its way)."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)


# -- the benchmark's own injector ------------------------------------------------------------------


def test_a_failing_injector_is_no_verdict(read: Read) -> None:
    asked = request(read.place, read.pins, OracleNode(id="fault", use=""))
    with pytest.raises(HarnessError, match=r"inject of minibench\.faults:Saboteur"):
        read.instrument.operate("inject", asked, "gone_service")


def test_an_injector_whose_tools_are_absent_is_told(
    checkout: Path, pins: BenchmarkPins, tmp_path: Path
) -> None:
    layout = dataclasses.replace(MINIBENCH, needs=("no-such-tool-anywhere",))
    instrument = BenchmarkInstrument(
        Instrument.OWN, directory=checkout, layouts={"minibench": layout}
    )
    asked = request(tmp_path, pins, OracleNode(id="fault", use=""))
    with pytest.raises(HarnessError, match="needs no-such-tool-anywhere on PATH"):
        instrument.operate("inject", asked, "gone_service")
    instrument.close()


# -- pins, adapters, interpreters ----------------------------------------------------------------


def test_a_module_that_was_compiled_as_something_else_is_refused(
    checkout: Path, pins: BenchmarkPins, tmp_path: Path, own: BenchmarkInstrument
) -> None:
    file = "minibench/harness/oracles/rogue.py"
    other = dataclasses.replace(pins, files={**pins.files, file: "0" * 64})
    with pytest.raises(GuardRefusedError) as caught:
        own.read(request(tmp_path, other, "Plain"))
    assert file in str(caught.value)
    assert pins.files[file] in str(caught.value)
    assert "0" * 64 in str(caught.value)


def test_a_class_whose_file_is_not_pinned_is_refused(
    pins: BenchmarkPins, tmp_path: Path, own: BenchmarkInstrument
) -> None:
    file = "minibench/harness/oracles/rogue.py"
    fewer = {name: digest for name, digest in pins.files.items() if name != file}
    with pytest.raises(GuardRefusedError, match="pinned: nothing"):
        own.read(request(tmp_path, dataclasses.replace(pins, files=fewer), "Plain"))


def test_stale_bytecode_in_the_checkout_is_not_believed(tmp_path: Path) -> None:
    directory = make_checkout(tmp_path / "checkout")
    late = directory / "minibench/harness/oracles/late.py"
    stamp = late.stat()
    source = late.read_text()
    late.write_text(source.replace("True", "None"))
    os.utime(late, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    import py_compile

    py_compile.compile(str(late), doraise=True)
    late.write_text(source)
    os.utime(late, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    instrument = make(directory)
    try:
        reading = instrument.read(request(tmp_path, pins_of(directory), "ImportsLate"))
    finally:
        instrument.close()
    assert reading.verdict is Verdict.ACCEPT


def test_full_imports_need_what_the_benchmark_needs(tmp_path: Path) -> None:
    directory = make_checkout(tmp_path / "checkout")
    full = pins_of(directory, imports="full")
    instrument = make(directory)
    try:
        with pytest.raises(HarnessError, match="No module named 'minibench_campaign_library'"):
            instrument.read(request(tmp_path, full, "Plain"))
        light = pins_of(directory)
        assert instrument.read(request(tmp_path, light, "Plain")).verdict is Verdict.ACCEPT
    finally:
        instrument.close()
    (directory / "minibench_campaign_library.py").write_text("VERSION = 1\n")
    commit(directory)
    instrument = make(directory)
    try:
        full = pins_of(directory, imports="full")
        reading = instrument.read(request(tmp_path, full, "Plain"))
    finally:
        instrument.close()
    assert reading.verdict is Verdict.ACCEPT
    assert "minibench/harness/campaign.py" in reading.facts["modules"]


@pytest.mark.parametrize(("imports", "seconds"), [("light", 60.0), ("full", 300.0)])
def test_full_imports_may_take_longer(
    checkout: Path,
    pins: BenchmarkPins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    imports: str,
    seconds: float,
) -> None:
    given: list[float] = []

    class Silent(WarmWorker):
        """Says nothing, for which it gets a moment."""

        def __init__(self, *_: Any, start: float, **__: Any) -> None:
            given.append(start)
            super().__init__(["sleep", "60"], {}, {}, start=0.05)

    monkeypatch.setattr(launching, "WarmWorker", Silent)
    instrument = make(checkout)
    try:
        with pytest.raises(HarnessError, match=r"the oracle worker said nothing for 0\.05 s"):
            instrument.read(request(tmp_path, dataclasses.replace(pins, imports=imports), "Plain"))
    finally:
        instrument.close()
    assert given == [seconds]


def test_a_benchmark_without_an_adapter_is_told(
    pins: BenchmarkPins, tmp_path: Path, own: BenchmarkInstrument
) -> None:
    other = dataclasses.replace(pins, name="maxibench")
    with pytest.raises(UsageError, match="benchmark 'maxibench': no adapter; allowed: minibench"):
        own.read(request(tmp_path, other, "Plain"))


def test_a_layout_without_a_problem_object(checkout: Path, pins: BenchmarkPins) -> None:
    """A second kind of benchmark: an oracle is made of attributes."""
    layout = dataclasses.replace(
        MINIBENCH, client="", problem={"which": "namespace"}, constructor="attributes"
    )
    # `Nonsense(problem, which)` with `problem` from the study.
    instrument = BenchmarkInstrument(
        Instrument.OWN, directory=checkout, layouts={"minibench": layout}
    )
    given = dataclasses.replace(pins, problem={"problem": None, "which": "one"})
    try:
        reading = instrument.read(request(checkout.parent, given, "Nonsense"))
    finally:
        instrument.close()
    assert reading.returned == {"solved": 1}


def test_an_interpreter_that_is_none_is_told(
    checkout: Path, pins: BenchmarkPins, tmp_path: Path
) -> None:
    for python, message in (
        (str(tmp_path / "nothing"), "cannot start the oracle worker"),
        ("/bin/true", "the oracle worker"),
    ):
        instrument = make(checkout, Instrument.PINNED, python=python)
        with pytest.raises(HarnessError, match=message):
            instrument.read(request(tmp_path, pins, "Plain"))
        instrument.close()


def test_the_worker_needs_nothing_but_the_standard_library(checkout: Path, tmp_path: Path) -> None:
    layout = dataclasses.replace(MINIBENCH, client="", problem={"namespace": "namespace"})
    worker = WarmWorker(
        [sys.executable, "-I", "-S", "-B", str(WORKER)],
        {"KUBECONFIG": str(tmp_path / "kubeconfig")},
        {
            "path": [],
            "checkout": str(checkout),
            "layout": layout.to_json(),
            "light": list(layout.light),
            "modules": ["minibench.harness.oracles.rogue"],
        },
        directory=tmp_path,
    )
    try:
        ready = worker.ready()
        assert (ready["problems"], ready["versions"]["kubernetes"]) == ([], "not installed")
        assert ready["walls"]["why"] == "nothing was to be closed"
        asked = request(tmp_path, pins_of(checkout), "Plain")
        classes = {"minibench:Plain": "minibench.harness.oracles.rogue:Plain"}
        message = {"type": "read", "request": asked.to_json(), "classes": classes}
        answer = worker.ask(1, message, timeout=20.0)
    finally:
        worker.stop()
    reading = reading_of(
        asked, Answer.of(answer), instrument="pinned", facts={}, key=layout.success, notes=True
    )
    assert reading.verdict is Verdict.ACCEPT


def test_frames_of_a_worker_are_frames() -> None:
    (message,) = FrameReader().feed(encode({"type": "ready"}))
    assert message == {"type": "ready"}
