"""Which fault a run has: ours, a benchmark's, or one that another plugin brings."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_world import ROOT, STUDY, small_application
from recovery_world import KilledWorld
from world import NS

from pytest_sremut.engine.faults.benchmark import BenchmarkFault
from pytest_sremut.engine.faults.port import Fault
from pytest_sremut.engine.faults.registry import fault_named
from pytest_sremut.engine.faults.writes import Writes, target_ref
from pytest_sremut.engine.journal_ops import OperationKind, captured
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.state import Owned, RunContext, RunState
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.steps.instruments import InstrumentSet
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import InputError, UsageError
from pytest_sremut.options.parsing import settings_of
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Outcome, State

OWN = "delete-service-and-recycle-pods"
TARGET = ("Service", NS, "user-service")


class Gone:
    """A plugin's fault: the Service goes, and the pods stay."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def again(self) -> Gone:
        return self

    def inject(self, ctx: RunContext, state: RunState) -> None:
        self.asked.append("inject")
        assert state.target is not None
        ctx.guard.delete(OperationKind.DELETE_TARGET, [captured(state.target)])

    def recover(
        self, ctx: RunContext, state: RunState, owned: Owned, *, only_ours: bool = False
    ) -> None:
        self.asked.append("recover")
        assert ctx.api.get(target_ref(ctx)).__class__.__name__ == "Absent"
        Writes().recover(ctx, state, owned, only_ours=only_ours)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KilledWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = KilledWorld(tmp_path / "evidence")
    yield world
    world.stop()


def driver(world: KilledWorld, study: Study, faults: dict[str, Gone]) -> Driver:
    one = world.driver("MS-M02", study=study)
    made = {name: fault.again for name, fault in faults.items()}
    one._instruments = InstrumentSet(world.instruments, faults=made)
    return one


def broken_by(world: KilledWorld, fault: str) -> Study:
    return dataclasses.replace(world.study(), fault=fault)


# -- by name ---------------------------------------------------------------------------------------


def test_a_name_is_a_type() -> None:
    made: list[Fault] = []

    def factory() -> Fault:
        made.append(Gone())
        return made[-1]

    brought = {"gone": factory}
    assert isinstance(fault_named(OWN, operator=None, brought=brought), Writes)
    assert isinstance(fault_named("sregym:x", operator=None, brought=brought), BenchmarkFault)
    first = fault_named("plugin:gone", operator=None, brought=brought)
    assert fault_named("plugin:gone", operator=None, brought=brought) is not first
    assert len(made) == 2  # one for each attempt
    assert made[0] is not made[1]
    with pytest.raises(UsageError, match=r"fault 'plugin:x' is not here; allowed: gone \(the hook"):
        fault_named("plugin:x", operator=None, brought=brought)


# -- in a run --------------------------------------------------------------------------------------


def test_a_plugins_fault_is_injected_and_taken_back_by_it(world: KilledWorld) -> None:
    fault = Gone()
    one = driver(world, broken_by(world, "plugin:gone"), {"gone": fault})
    one.state(State.RESTORED)
    assert one.outcome is Outcome.COMPLETE
    assert fault.asked == ["inject", "recover"]
    assert TARGET not in world.kube.objects  # it went with the application, by its new UID
    entries = [json.loads(line) for line in one.attempt.journal.path.read_text().splitlines()]
    kinds = [entry["facts"].get("kind") for entry in entries if entry["transition"] == "INTENT"]
    assert kinds.index("delete-target") < kinds.index("restore-target")
    assert kinds.count("recycle-pods") == 1


def test_the_fault_of_the_documentation_works(world: KilledWorld) -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    section = text.partition("## A fault of another plugin")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/studies.md", "exec"), names)
    one = world.driver("MS-M02", study=broken_by(world, "plugin:gone"))
    brought = names["pytest_sremut_faults"](None)
    one._instruments = InstrumentSet(world.instruments, faults=brought)
    one.state(State.RESTORED)
    assert one.outcome is Outcome.COMPLETE


def test_a_plugin_that_is_not_here_stops_the_run_before_it_begins(world: KilledWorld) -> None:
    one = driver(world, broken_by(world, "plugin:gone"), {})
    with pytest.raises(RunStoppedError, match="preflight: fault: fault 'plugin:gone' is not here"):
        one.state(State.HEALTHY)
    assert one.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert not any(call[0] == "create" for call in world.kube.calls)


def test_after_a_dead_process_the_captured_target_is_put_back_without_it(
    world: KilledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, fault = broken_by(world, "plugin:gone"), Gone()
    monkeypatch.setattr(InstrumentSet, "fault", lambda _self, _name: fault)

    def dies(*_: object, **__: object) -> None:
        world.die()

    fault.recover = dies  # type: ignore[method-assign]
    assert world.run("MS-M02", study).dead
    (recovered,) = world.recover()
    assert "put back and verified" in recovered.reason
    assert fault.asked == ["inject"]
    assert not [key for key in world.kube.objects if key[1] == NS and key[0] == "Service"]


@pytest.mark.parametrize("action", ["inject", "recover"])
def test_a_plugins_fault_that_raises_ends_the_attempt_as_a_harness_does(
    world: KilledWorld, action: str
) -> None:
    fault = Gone()

    def fails(*_: object, **__: object) -> None:
        raise KeyError("oops")

    setattr(fault, action, fails)
    one = driver(world, broken_by(world, "plugin:gone"), {"gone": fault})
    with pytest.raises(RunStoppedError, match=r"fault 'plugin:gone': KeyError: 'oops'"):
        one.state(State.RESTORED)
    restored = action == "inject"
    wanted = Outcome.DRIVER_ABORTED if restored else Outcome.RESTORATION_FAILURE
    assert one.outcome is wanted
    assert (one.dirty == "") is restored
    assert (world.marks[-1] == "") is restored
    assert one.attempt.closed


def test_a_plugin_that_cannot_make_its_fault_stops_the_preflight(world: KilledWorld) -> None:
    def fails() -> Gone:
        raise KeyError("oops")

    fault = Gone()
    fault.again = fails  # type: ignore[method-assign]
    one = driver(world, broken_by(world, "plugin:gone"), {"gone": fault})
    with pytest.raises(RunStoppedError, match="preflight: fault: fault 'plugin:gone': KeyError"):
        one.state(State.HEALTHY)


# -- in a study ------------------------------------------------------------------------------------


def project(directory: Path, fault: str) -> Path:
    for name in ("mutants", "contracts", STUDY.parent.as_posix()):
        shutil.copytree(ROOT / name, directory / name)
    text = (directory / STUDY).read_text()
    assert text.count(OWN) == 1
    (directory / STUDY).write_text(text.replace(OWN, fault))
    return directory


def test_a_study_names_a_plugins_fault_without_a_benchmark(tmp_path: Path) -> None:
    study = load_study(project(tmp_path / "a", "plugin:gone"), STUDY)
    assert study.fault == "plugin:gone"
    assert not study.needs_benchmark("embedded")
    with pytest.raises(InputError, match="without a section `benchmark`"):
        load_study(project(tmp_path / "b", "sregym:gone"), STUDY)
    with pytest.raises(InputError, match="plugin:NAME"):
        load_study(project(tmp_path / "c", "gone"), STUDY)


# -- the hook --------------------------------------------------------------------------------------

BRINGS = """
class Gone:
    def inject(self, ctx, state): ...
    def recover(self, ctx, state, owned, *, only_ours=False): ...

def pytest_sremut_faults(config):
    return {"gone": Gone}
"""


def test_a_plugin_brings_its_faults_by_a_hook(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BRINGS)
    (made,) = settings_of(pytester.parseconfigure()).faults.values()
    assert type(made()).__name__ == "Gone"


def test_without_one_there_are_none(pytester: pytest.Pytester) -> None:
    assert settings_of(pytester.parseconfigure()).faults == {}


def test_two_plugins_with_the_same_fault_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BRINGS)
    pytester.makepyfile(second=BRINGS)
    pytester.syspathinsert()
    with pytest.raises(pytest.UsageError, match="fault 'gone': two plugins bring it"):
        settings_of(pytester.parseconfigure("-p", "second"))
