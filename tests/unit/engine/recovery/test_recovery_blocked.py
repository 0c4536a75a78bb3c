"""What cannot be established safely stops, says what to look at, and is gone on with later."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from engine_world import ROOT, STUDY
from recovery_world import KilledWorld, Step
from world import NS

from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.cluster.waiting import wait_for
from pytest_sremut.engine.faults.benchmark import BenchmarkFault
from pytest_sremut.engine.recovery import BlockedError, pending_attempts
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.transitions import Phase
from pytest_sremut.errors import ClusterUnavailableError, EvidenceError
from pytest_sremut.evidence.load import load_attempt, load_entry
from pytest_sremut.evidence.seal import SessionKey, seal_attempt
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome, State

TARGET = ("Service", NS, "user-service")
WHOLE: list[str] = []  # the transitions of a run that nobody kills, once they are known
ANNOTATED = {
    "kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"password":"hunter2"}}',
    "example.org/api-token": "hunter2-token",
    "example.org/team": "payments",
}


def last(world: KilledWorld, transition: str) -> Step:
    """The step after the journal's entry of that transition, for a run of MS-M01."""
    if not WHOLE:
        counted = KilledWorld(world.directory.with_name("counted"))
        counted.run("MS-M01", counted.study())
        journal = next(counted.directory.glob("*/*/a01/journal.jsonl"))
        WHOLE.extend(json.loads(line)["transition"] for line in journal.read_text().splitlines())
    return Step(what="journal", number=WHOLE.index(transition) + 1, when="after")


def died(world: KilledWorld, transition: str = "ORACLE_EVALUATED") -> None:
    assert world.run("MS-M01", world.study(), last(world, transition)).dead


@pytest.fixture
def world(tmp_path: Path) -> KilledWorld:
    return KilledWorld(tmp_path / "evidence")


def blocked(world: KilledWorld, **changes: Any) -> BlockedError:
    (pending,) = world.pending()
    with pytest.raises(BlockedError) as caught:
        world.recoverer(**changes).recover(pending)
    return caught.value


def writes(world: KilledWorld) -> int:
    return sum(call[0] in {"create", "replace", "delete"} for call in world.kube.calls)


def transitions(world: KilledWorld) -> list[str]:
    (journal,) = world.directory.glob("*/*/a01/journal.jsonl")
    return [json.loads(line)["transition"] for line in journal.read_text().splitlines()]


def test_an_object_of_somebody_else_under_the_targets_name(world: KilledWorld) -> None:
    died(world)
    theirs = world.kube.put(
        {"kind": "Service", "metadata": {"name": TARGET[2], "namespace": NS}, "spec": {}}
    )
    error = blocked(world)
    assert "is neither the captured object nor the mutant" in error.reason
    told = error.diagnostics()
    assert f"UID found: {theirs['metadata']['uid']}" in told
    assert "UID expected: uid-service-user-service-" in told
    assert "captured body: " in told
    assert "raw/captured-target.json" in told
    assert world.kube.objects[TARGET] == theirs
    assert transitions(world)[-1] == "RESTORATION_BLOCKED"
    (entry,) = world.entries()
    assert entry.died  # it stays open
    # Put away by a person, the same recovery goes through.
    world.kube.drop(*TARGET)
    (recovered,) = world.recover()
    assert "died in RESTORATION_BLOCKED; recovered by rescuer" in recovered.reason
    (entry,) = world.entries()
    assert load_entry(entry).problems == ()


def test_a_study_that_was_changed_since(world: KilledWorld, tmp_path: Path) -> None:
    died(world)
    project = tmp_path / "project"
    for name in ("mutants", "contracts", STUDY.parent.as_posix()):
        shutil.copytree(ROOT / name, project / name)
    study = project / STUDY
    original = study.read_text()
    study.write_text(original + "# another byte\n")
    world.project = project
    before = writes(world)
    error = blocked(world)
    assert f"{STUDY} is not what the attempt ran under" in error.reason
    assert f"study: {project}/{STUDY}" in error.look
    assert writes(world) == before
    assert "RECOVERY_STARTED" not in transitions(world)
    study.unlink()
    assert "its study cannot be read" in blocked(world).reason
    study.write_text(original)
    assert [item.outcome for item in world.recover()] == [Outcome.DRIVER_ABORTED]


def test_an_effect_that_cannot_be_seen_is_unknown(world: KilledWorld) -> None:
    step = last(world, "MUTANT_INJECTED")
    assert world.run(
        "MS-M01", world.study(), dataclasses.replace(step, number=step.number + 1)
    ).dead
    assert transitions(world)[-1] == "INTENT"  # to delete the target, and nothing went out
    world.kube.break_always("get", "Service")
    before = writes(world)
    error = blocked(world)
    assert error.reason.startswith("OUTCOME_UNKNOWN: what became of op-")
    assert "(delete-target) cannot be seen: get Service" in error.reason
    assert writes(world) == before
    assert transitions(world)[-3:] == [
        "OUTCOME_UNKNOWN", "RESTORE_STARTED", "RESTORATION_BLOCKED",
    ]  # fmt: skip
    world.kube.heal()
    uid = world.kube.objects[TARGET]["metadata"]["uid"]
    created = [call for call in world.kube.calls if call[:2] == ("create", "Service")]
    assert [item.outcome for item in world.recover()] == [Outcome.DRIVER_ABORTED]
    # The original stood there all along: it was not created anew, and went with the application.
    again = [call for call in world.kube.calls if call[:2] == ("create", "Service")]
    assert again == created
    assert ("DELETED", uid) in [(e[1], e[2]["metadata"]["uid"]) for e in world.kube.history]


def test_a_journal_that_was_tampered_with(world: KilledWorld) -> None:
    died(world)
    (path,) = world.directory.glob("*/*/a01/journal.jsonl")
    path.write_text(path.read_text().replace("MS-M01", "MS-M02", 1))
    before = writes(world)
    (pending,) = world.pending()
    with pytest.raises(EvidenceError, match="TAMPERED: entry 1"):
        world.recoverer().recover(pending)
    assert writes(world) == before


def test_another_cluster_is_not_recovered(world: KilledWorld) -> None:
    died(world)
    assert list(pending_attempts([world.directory], "another", project=ROOT)) == []
    other = ClusterIdentity(kube_system_uid="another", server_version="v1", server="x")
    before = writes(world)
    error = blocked(world, identity=other)
    assert "now reaches another cluster" in error.reason
    assert writes(world) == before


def test_an_api_that_goes_away_is_no_block(world: KilledWorld) -> None:
    died(world)
    world.kube.break_always("create")
    (pending,) = world.pending()
    with pytest.raises(ClusterUnavailableError):
        world.recoverer().recover(pending)
    assert "RESTORATION_BLOCKED" not in transitions(world)
    world.kube.heal()
    assert [item.outcome for item in world.recover()] == [Outcome.DRIVER_ABORTED]


def test_a_system_that_is_not_well_after_all(world: KilledWorld) -> None:
    died(world)
    world.rounds_fail = True
    error = blocked(world)
    assert "the target is back and the system is not well" in error.reason
    assert "MS-I4" in error.reason
    assert any(line.startswith("what was read: ") for line in error.look)
    world.rounds_fail = False
    (recovered,) = world.recover()
    assert recovered.outcome is Outcome.DRIVER_ABORTED
    (entry,) = world.entries()
    assert load_entry(entry).problems == ()


def test_leftovers_of_somebody_else_are_named_and_left(
    world: KilledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(world)
    theirs = {"kind": "Service", "metadata": {"name": "theirs", "namespace": NS}, "spec": {}}
    standing = world.kube.put(theirs)

    def hurried(*arguments: Any, timeout: float, **named: Any) -> Any:
        return wait_for(*arguments, timeout=min(timeout, 0.3), **named)

    monkeypatch.setattr(deploy, "wait_for", hurried)
    error = blocked(world)
    assert "1 objects are still there: theirs" in error.reason
    assert transitions(world)[-1] == "RECOVERY_BLOCKED"  # nothing is mutated any more
    assert world.kube.objects["Service", NS, "theirs"] == standing
    world.kube.drop("Service", NS, "theirs")
    (recovered,) = world.recover()
    assert "died in RESTORE_VERIFIED" in recovered.reason


# -- the captured body --------------------------------------------------------------------------


def annotate(world: KilledWorld) -> None:
    """Annotations of the target, put on before it is captured."""

    def put_on(what: str, _: Any) -> None:
        if what == "create Service":
            world.kube.change(*TARGET, metadata__annotations=dict(ANNOTATED))

    world.hooks.append(put_on)


def test_a_redacted_body_is_restored_whole_and_never_told(world: KilledWorld) -> None:
    annotate(world)
    died(world)
    world.hooks.clear()
    (kept,) = world.directory.glob("*/*/a01/raw/captured-target.json")
    annotations = json.loads(kept.read_text())["metadata"]["annotations"]
    assert annotations == {"example.org/api-token": "[redacted]", "example.org/team": "payments"}
    assert world.aside
    restored: list[Any] = []
    world.hooks.append(
        lambda what, body: restored.append(body) if what == "create Service" else None
    )
    world.recover()
    (body,) = restored
    assert strip_server_fields(body)["metadata"]["annotations"] == ANNOTATED
    for file in world.directory.rglob("*"):
        if file.is_file():
            assert b"hunter2" not in file.read_bytes(), file


@pytest.mark.parametrize("aside", [b"", b'{"kind":"Service"}'])
def test_without_the_whole_body_nothing_is_restored(world: KilledWorld, aside: bytes) -> None:
    annotate(world)
    died(world)
    world.hooks.clear()
    before = writes(world)
    error = blocked(world, aside=aside)
    assert "is not whole: " in error.reason
    assert "is redacted, and no whole copy was kept aside" in error.reason
    assert writes(world) == before
    assert [item.outcome for item in world.recover()] == [Outcome.DRIVER_ABORTED]


def test_what_was_not_mutated_needs_no_body(world: KilledWorld) -> None:
    annotate(world)
    died(world, "HEALTHY_STATE_CAPTURED")
    world.hooks.clear()
    world.aside = b""
    (recovered,) = world.recover()
    assert "what it had deployed was removed" in recovered.reason
    assert TARGET not in world.kube.objects


def test_a_plain_body_needs_nothing_aside(world: KilledWorld) -> None:
    died(world)
    assert world.aside == b""
    restored: list[Any] = []
    world.hooks.append(
        lambda what, body: restored.append(body) if what == "create Service" else None
    )
    world.recover()
    captured = json.loads(
        next(world.directory.glob("*/*/a01/raw/captured-target.json")).read_text()
    )
    assert strip_server_fields(restored[0]) == strip_server_fields(captured)


def test_a_captured_body_that_was_changed_on_disk(world: KilledWorld) -> None:
    died(world)
    (kept,) = world.directory.glob("*/*/a01/raw/captured-target.json")
    kept.write_text(kept.read_text().replace("9090", "9091"))
    before = writes(world)
    assert "is not whole: raw/captured-target.json" in blocked(world).reason
    assert writes(world) == before


# -- after its own end --------------------------------------------------------------------------


def test_an_attempt_that_ended_blocked_is_recovered_beside_its_record(world: KilledWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    world.kube.break_always("create")
    with pytest.raises(Exception, match="RESTORATION_FAILURE"):
        driver.state(State.RESTORED)
    world.kube.heal()
    (entry,) = world.entries()
    assert entry.outcome is Outcome.RESTORATION_FAILURE
    before = {p: p.read_bytes() for p in driver.attempt.directory.rglob("*") if p.is_file()}
    (recovered,) = world.recover()
    assert recovered.reason.startswith("after its end (")
    assert {p: p.read_bytes() for p in driver.attempt.directory.rglob("*") if p.is_file()} == before
    beside = load_attempt(world.directory / "recoveries" / "000001-ms-m01-r01-a01-n01")
    assert beside.problems == ()
    assert "RESTORE_VERIFIED" in [one.transition for one in beside.journal.entries]
    assert not [key for key in world.kube.objects if key[1] == NS and key[0] == "Deployment"]
    assert world.pending() == []


@pytest.mark.parametrize("outcome", [Outcome.DRIVER_ABORTED, Outcome.RESTORATION_FAILURE])
def test_a_closed_attempt_whose_journal_was_changed_later(
    world: KilledWorld, outcome: Outcome
) -> None:
    """It is looked at again only if its own end was that it is not put back."""
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    if outcome is Outcome.RESTORATION_FAILURE:
        world.kube.break_always("create")
    assert driver.abort(KeyboardInterrupt()) is outcome
    path = driver.attempt.journal.path
    path.write_text(path.read_text().replace("MS-M01", "MS-M02", 1))
    assert len(world.pending()) == (outcome is Outcome.RESTORATION_FAILURE)


def test_a_complete_attempt_is_nobodys_business(world: KilledWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.RESTORED)
    assert world.pending() == []


# -- of a sealed session ------------------------------------------------------------------------


def sealed(world: KilledWorld) -> SessionKey:
    key = SessionKey.generate("test")
    world.sealed = {"registration": "a" * 64, "revision": 1, "key": key.public}
    return key


def test_a_sealed_attempt_is_sealed_as_partial_under_the_rescuers_key(world: KilledWorld) -> None:
    sealed(world)
    died(world)
    (recovered,) = world.recover()
    (entry,) = world.entries()
    assert entry.directory is not None
    seal = json.loads((entry.directory / "seal" / "seal.json").read_text())
    assert seal["extent"] == "partial"
    assert seal["stop"]["reason"] == recovered.reason
    assert seal["key"]["session"] == "rescuer"
    assert world.pending() == []


def test_one_that_its_session_sealed_as_it_died_is_recovered_beside_it(world: KilledWorld) -> None:
    key = sealed(world)
    died(world)
    (entry,) = world.entries()
    assert entry.directory is not None
    seal_attempt(entry.directory, key=key, partial=True, stop="its worker died")
    before = {p: p.read_bytes() for p in entry.directory.rglob("*") if p.is_file()}
    world.recover()
    assert {p: p.read_bytes() for p in entry.directory.rglob("*") if p.is_file()} == before
    assert (world.directory / "recoveries" / "000001-ms-m01-r01-a01-n01" / "record.json").exists()
    assert world.pending() == []


# -- how it died --------------------------------------------------------------------------------


def test_a_machine_that_was_restarted_is_a_failure_of_the_infrastructure(
    world: KilledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(world)
    monkeypatch.setattr("pytest_sremut.engine.recovery.attempt.boot_id", lambda: "another boot")
    (recovered,) = world.recover()
    assert recovered.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert recovered.reason.startswith("the machine was restarted: the process of session test ")


# -- a fault of a benchmark's -------------------------------------------------------------------


class Injector:
    """A benchmark's own injector, in memory; its process may be killed with ours."""

    def __init__(self, world: KilledWorld, dies_after: str) -> None:
        self.world = world
        self.dies_after = dies_after
        self.saved: dict[str, Any] = {}

    def operate(self, action: str, request: Any, name: str) -> dict[str, Any]:
        kube = self.world.kube
        if action == "inject":
            self.saved = kube.objects[TARGET]
            kube.drop(*TARGET)
        else:
            annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
            metadata = {"name": TARGET[2], "namespace": NS, "annotations": annotations}
            kube.create({**self.saved, "metadata": metadata}, namespace=NS)
        for item in [*self.world.pods("user-service"), *self.world.pods("media-service")]:
            kube.drop("Pod", NS, item["metadata"]["name"])
            self.world._replace(item)
        self.world.settle()
        if action == self.dies_after:
            self.world.die()
        return {}


def test_a_target_that_a_benchmark_put_back_goes_with_the_application(world: KilledWorld) -> None:
    def prepare(driver: Driver) -> None:
        driver._fault = BenchmarkFault("sregym:x", Injector(world, "never"))
        move = driver._move

        def then_die(new: Phase, *arguments: Any, **named: Any) -> None:
            move(new, *arguments, **named)
            if new is Phase.RESTORE_VERIFIED:
                world.die()

        driver._move = then_die  # type: ignore[method-assign]

    world.prepare = prepare
    world.run("MS-M01", world.study())
    assert TARGET in world.kube.objects
    assert [item.outcome for item in world.recover()] == [Outcome.DRIVER_ABORTED]
    assert TARGET not in world.kube.objects


@pytest.mark.parametrize("action", ["inject", "recover"])
def test_a_benchmarks_injector_that_died_with_us(world: KilledWorld, action: str) -> None:
    """What it did is seen, not asked: it is not run again, the captured body decides."""

    def prepare(driver: Driver) -> None:
        driver._fault = BenchmarkFault("sregym:x", Injector(world, action))

    world.prepare = prepare
    world.run("MS-M01", world.study())
    (path,) = world.directory.glob("*/*/a01/journal.jsonl")
    assert f"benchmark-{action}" in path.read_text().splitlines()[-1]
    restored: list[Any] = []
    world.hooks.append(
        lambda what, body: restored.append(body) if what == "create Service" else None
    )
    (recovered,) = world.recover()
    assert recovered.outcome is Outcome.DRIVER_ABORTED
    # After its own recovery the target stands there as captured: nothing is created again.
    assert len(restored) == (1 if action == "inject" else 0)
    assert not [key for key in world.kube.objects if key[1] == NS and key[0] == "Service"]
