"""Every way a run can go, in memory, with each outcome of the validity axis reached."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, small_application
from world import NS

from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import ContractVerdict, Outcome, State, Verdict


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = EngineWorld(tmp_path / "evidence")
    yield world
    world.stop()


def outcome_on_disk(world: EngineWorld) -> tuple[str, str]:
    (closed,) = (world.directory / "attempts").glob("*.closed.json")
    body = json.loads(closed.read_text())
    return body["outcome"], body["reason"]


def application_is_gone(world: EngineWorld) -> bool:
    return not [key for key in world.kube.objects if key[1] == NS and key[0] != "EndpointSlice"]


EXPECTED = {
    "MS-M01": {"MS-I1", "MS-I2", "MS-I3", "MS-I4", "MS-I6"},
    "MS-M02": {"MS-I2", "MS-I3", "MS-I4", "MS-I6"},
    "MS-M03": {"MS-I2", "MS-I4", "MS-I6"},
}


@pytest.mark.parametrize("mutant", sorted(EXPECTED))
def test_a_complete_run(world: EngineWorld, mutant: str) -> None:
    if mutant == "MS-M03":
        # Nothing listens at the mutant's port; the fake routes by the slices' port.
        world.listening = {9090}
    driver = world.driver(mutant)
    healthy = driver.state(State.HEALTHY)
    assert healthy.contract.verdict is ContractVerdict.PASS
    faulted = driver.state(State.FAULTED)
    assert set(faulted.contract.violated) == EXPECTED[mutant]
    assert {r.verdict for r in faulted.readings["O1"]} == {Verdict.ACCEPT}
    assert [r.instrument for r in faulted.readings["O1"]] == ["in-process", "isolated"]
    assert driver.finish() is Outcome.COMPLETE
    assert outcome_on_disk(world)[0] == "COMPLETE"
    assert application_is_gone(world)
    assert world.marks[-1] == ""
    assert len([mark for mark in world.marks if mark]) == 1
    record = load_attempt(driver.attempt.directory)
    assert record.problems == ()
    assert list(record.states) == [State.HEALTHY, State.FAULTED, State.RESTORED]


def test_asking_for_a_later_state_passes_the_earlier_ones(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.RESTORED)
    assert driver.outcome is Outcome.COMPLETE
    assert set(load_attempt(driver.attempt.directory).states) == set(State)


def test_states_are_read_once(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    first = driver.state(State.HEALTHY)
    assert driver.state(State.HEALTHY) is first
    driver.state(State.FAULTED)
    assert driver.state(State.HEALTHY) is first


def test_a_finished_state_is_on_disk_before_the_next_begins(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    assert (driver.attempt.directory / "states" / "healthy.json").is_file()
    assert not (driver.attempt.directory / "record.json").exists()


def test_every_write_has_an_intent_before_and_a_receipt_after(world: EngineWorld) -> None:
    driver = world.driver("MS-M02")
    driver.finish() if False else driver.state(State.RESTORED)
    lines = (driver.attempt.directory / "journal.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    open_intents: set[str] = set()
    kinds = set()
    for entry in entries:
        if entry["transition"] == "INTENT":
            open_intents.add(entry["facts"]["operation"])
            kinds.add(entry["facts"]["kind"])
        elif entry["transition"] == "RECEIPT":
            open_intents.remove(entry["facts"]["operation"])
    assert not open_intents
    assert {"delete-target", "recycle-pods", "create-mutant", "restore-target"} <= kinds


def stop_of(world: EngineWorld, mutant: str, state: State, **more: Any) -> RunStoppedError:
    driver = world.driver(mutant, **more)
    with pytest.raises(RunStoppedError) as caught:
        driver.state(state)
    # Every further cell of the run errors with the same outcome.
    with pytest.raises(RunStoppedError) as again:
        driver.state(State.RESTORED)
    assert again.value.outcome is caught.value.outcome
    assert driver.finish() is caught.value.outcome
    assert outcome_on_disk(world)[0] == caught.value.outcome.value
    return caught.value


# -- preflight: nothing is touched ------------------------------------------------------------


def test_a_deviating_cluster_is_not_used(world: EngineWorld) -> None:
    world.deviations = ["nc closed: exit code 0, recorded 1"]
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert stop.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "nc closed" in stop.reason
    assert not [call for call in world.kube.calls if call[0] in {"create", "delete"}]


def test_a_namespace_of_somebody_else_is_not_used(world: EngineWorld) -> None:
    world.kube.put({"kind": "Namespace", "metadata": {"name": NS}})
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert stop.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert f"namespace {NS} is taken" in stop.reason
    assert not [call for call in world.kube.calls if call[0] in {"create", "delete"}]


def test_leftover_pods_stop_the_run(world: EngineWorld) -> None:
    world.kube.put(
        {"kind": "Namespace", "metadata": {"name": NS, "labels": {"sremut.io/owned": "true"}}}
    )
    world.kube.put({"kind": "Pod", "metadata": {"name": "old", "namespace": NS}})
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert "no-stale-Pod: 1 left over: old" in stop.reason


def test_a_node_that_is_not_ready(world: EngineWorld) -> None:
    world.kube.change("Node", "", "node-1", status={"conditions": []})
    assert "0 of 1 nodes are ready" in stop_of(world, "MS-M01", State.HEALTHY).reason


def test_a_context_that_is_not_allowed(world: EngineWorld) -> None:
    stop = stop_of(world, "MS-M01", State.HEALTHY, allowed_contexts=frozenset({"other"}))
    assert stop.outcome is Outcome.PROTOCOL_VIOLATION
    assert "not allowed for writing (allowed: other)" in stop.reason
    assert not [call for call in world.kube.calls if call[0] in {"create", "delete"}]


def test_another_cluster_behind_the_same_context(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    world.uid = "cluster-2"
    with pytest.raises(RunStoppedError, match="now reaches another cluster") as caught:
        driver.state(State.HEALTHY)
    assert caught.value.outcome is Outcome.PROTOCOL_VIOLATION


# -- the healthy gate -------------------------------------------------------------------------


def test_a_pod_that_never_becomes_ready(world: EngineWorld) -> None:
    world.stuck = {"media-service"}
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert stop.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "media-service: 0 of 1 pods are ready" in stop.reason
    assert application_is_gone(world)


def test_a_workload_that_fails_while_healthy(world: EngineWorld) -> None:
    world.rounds_fail = True
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert stop.outcome is Outcome.STOPPED_AT_HEALTHY_GATE
    assert "the contract rejects: MS-I4" in stop.reason
    assert world.marks[-1] == ""  # nothing was injected, and what was deployed is gone
    assert application_is_gone(world)


def reject(request: ReadingRequest, reading: Reading) -> Reading:
    if request.oracle.id != "O1":
        return reading
    return dataclasses.replace(reading, verdict=Verdict.REJECT, returned={"success": False})


def test_an_oracle_that_rejects_while_healthy(world: EngineWorld) -> None:
    world.instruments[1].change = reject
    stop = stop_of(world, "MS-M01", State.HEALTHY)
    assert stop.outcome is Outcome.STOPPED_AT_HEALTHY_GATE
    assert "O1 isolated REJECT" in stop.reason


# -- faulted ----------------------------------------------------------------------------------


def test_a_mutant_that_is_not_active(world: EngineWorld) -> None:
    def somebody_repairs(what: str, body: Mapping[str, Any]) -> None:
        if what == "create Service" and body["spec"]["selector"] != {"service": "user-service"}:
            world.hooks.clear()
            world.kube.change(
                "Service", NS, "user-service", spec__selector={"service": "user-service"}
            )
            world.settle()

    world.hooks.append(somebody_repairs)
    stop = stop_of(world, "MS-M02", State.FAULTED)
    assert stop.outcome is Outcome.MUTANT_ACTIVATION_FAILURE
    assert "selector-exact" in stop.reason
    assert application_is_gone(world)
    assert world.marks[-1] == ""


def test_a_surprising_rejection_is_reported_and_not_invalid(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    world.instruments[0].change = reject
    faulted = driver.state(State.FAULTED)
    assert faulted.readings["O1"][0].verdict is Verdict.REJECT
    world.instruments[0].change = lambda request, reading: reading
    assert driver.finish() is Outcome.COMPLETE


def test_a_rejection_because_pods_were_still_coming_up(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    name = world.pods("media-service")

    def a_pod_is_down(request: ReadingRequest, reading: Reading) -> Reading:
        return reject(request, reading)

    def seen_pending(request: ReadingRequest) -> None:
        if request.oracle.id != "O1":
            return
        pod = world.pods("media-service")[0]
        world.kube.change("Pod", NS, pod["metadata"]["name"], status__phase="Pending")
        wait_for_samples(driver)
        world.kube.change("Pod", NS, pod["metadata"]["name"], status__phase="Running")

    assert name
    world.instruments[0].before = seen_pending
    world.instruments[0].change = a_pod_is_down
    world.instruments[1].before = lambda request: wait_for_samples(driver)
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.FAULTED)
    assert caught.value.outcome is Outcome.HARNESS_TIMING_FAILURE
    assert "O1 rejected while a pod was not Running that recovered" in caught.value.reason
    assert application_is_gone(world)


def wait_for_samples(driver: Any) -> None:
    """Until the sampler has looked twice more: the second look began after we were called."""
    import threading

    sampler = driver._samples
    seen = len(sampler.timeline)
    tick = threading.Event()
    for _ in range(400):
        if len(sampler.timeline) >= seen + 2:
            return
        tick.wait(0.005)
    raise AssertionError("the sampler stands still")


def test_an_oracle_that_hangs_is_no_verdict(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    world.instruments[1].before = world.instruments[1].hang
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.FAULTED)
    assert caught.value.outcome is Outcome.DRIVER_ABORTED
    assert "did not end within" in caught.value.reason
    assert application_is_gone(world)


def test_an_error_reading_does_not_stop_a_faulted_state(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    world.instruments[0].change = lambda request, reading: dataclasses.replace(
        reading, verdict=Verdict.ERROR, returned=None, reason="the oracle returned None"
    )
    faulted = driver.state(State.FAULTED)
    assert {r.verdict for r in faulted.readings["O1"]} == {Verdict.ERROR, Verdict.ACCEPT}


BLOCKED, SAFE = Outcome.RESTORATION_FAILURE, Outcome.INFRASTRUCTURE_FAILURE


@pytest.mark.parametrize(
    ("verb", "kind", "outcome"),
    [
        ("list", "Pod", BLOCKED),
        ("get", "Service", BLOCKED),
        ("delete", "Pod", BLOCKED),
        # The target was never deleted, so it stands as captured; only the application is left.
        ("delete", "Service", SAFE),
    ],
)
def test_the_api_goes_away_in_the_faulted_state(
    world: EngineWorld, verb: str, kind: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    monkeypatch.setattr("pytest_sremut.cluster.waiting._OUTAGE", 0.2)
    world.kube.break_always(verb, kind)
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.FAULTED)
    # It stays away for the restoration too, so nothing more may be mutated on this cluster.
    assert caught.value.outcome is outcome
    assert "the fake API was told to fail" in caught.value.reason
    assert driver.dirty
    assert outcome_on_disk(world)[0] == outcome.value


def test_the_api_comes_back_for_the_restoration(world: EngineWorld) -> None:
    driver = world.driver("MS-M02")
    driver.state(State.HEALTHY)
    world.kube.break_next("create", "Service")
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.FAULTED)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert application_is_gone(world)
    assert world.marks[-1] == ""


# -- restoration ------------------------------------------------------------------------------


def test_a_restoration_that_does_not_restore(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    world.rounds_fail = True
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.RESTORED)
    assert caught.value.outcome is Outcome.RESTORATION_FAILURE
    assert driver.outcome is Outcome.RESTORATION_FAILURE


def test_an_unexpected_object_is_never_overwritten(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    foreign = world.kube.put(
        {
            "kind": "Service",
            "metadata": {"name": "user-service", "namespace": NS},
            "spec": {
                "selector": {"service": "foreign"},
                "ports": [{"targetPort": 1}],
                "clusterIP": "10.96.9.9",
            },
        }
    )
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.RESTORED)
    assert caught.value.outcome is Outcome.RESTORATION_FAILURE
    assert "an unexpected object is never overwritten" in caught.value.reason
    assert driver.dirty
    live = world.kube.objects[("Service", NS, "user-service")]
    assert live["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert world.marks[-1] != ""


def test_an_interrupt_restores_and_says_so(world: EngineWorld) -> None:
    driver = world.driver("MS-M03")
    driver.state(State.HEALTHY)

    def interrupt(request: ReadingRequest) -> None:
        raise KeyboardInterrupt

    world.instruments[0].before = interrupt
    with pytest.raises(KeyboardInterrupt):
        driver.state(State.FAULTED)
    assert driver.outcome is Outcome.DRIVER_ABORTED
    assert outcome_on_disk(world) == ("DRIVER_ABORTED", "interrupted")
    assert application_is_gone(world)
    assert world.marks[-1] == ""


def test_aborting_a_run_between_states(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    assert driver.abort(KeyboardInterrupt("the session ended")) is Outcome.DRIVER_ABORTED
    assert application_is_gone(world)
    assert driver.abort(KeyboardInterrupt()) is Outcome.DRIVER_ABORTED


def test_asking_for_a_state_again_advances_nothing(world: EngineWorld) -> None:
    """Every cell of a state asks for it."""
    driver = world.driver("MS-M01")
    first = driver.state(State.HEALTHY)
    assert driver.state(State.HEALTHY) is first
    assert "MUTANT_INJECTED" not in driver.attempt.journal.path.read_text()
    faulted = driver.state(State.FAULTED)
    assert driver.state(State.FAULTED) is faulted
    assert driver.state(State.HEALTHY) is first
    assert "RESTORE_STARTED" not in driver.attempt.journal.path.read_text()


def test_a_selection_that_ends_while_healthy_mutates_nothing(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    assert driver.finish() is Outcome.DRIVER_ABORTED
    assert "nothing was mutated" in outcome_on_disk(world)[1]
    assert world.marks[-1] == ""
    assert application_is_gone(world)


def test_a_selection_that_ends_faulted_is_restored_and_complete(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    assert driver.finish() is Outcome.COMPLETE


def test_a_refusal_before_the_run_is_a_protocol_violation(world: EngineWorld) -> None:
    def changed() -> None:
        raise RunStoppedError(Outcome.PROTOCOL_VIOLATION, "predictions.yaml changed")

    stop = stop_of(world, "MS-M01", State.HEALTHY, before_run=changed)
    assert stop.outcome is Outcome.PROTOCOL_VIOLATION


def test_a_mistake_of_ours_keeps_its_traceback(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    world.instruments[0].before = lambda request: 1 / 0
    with pytest.raises(ZeroDivisionError):
        driver.state(State.HEALTHY)
    assert driver.outcome is Outcome.DRIVER_ABORTED
    record = json.loads((driver.attempt.directory / "record.json").read_text())
    assert "ZeroDivisionError" in record["facts"]["traceback"]
