"""The benchmark's unmodified classes conclude on the embedded cluster what they concluded on a real
Kubernetes 1.36.2, state by state and through each instrument: the returned object or the type of
what was raised, what they print on the way, and how far they waited.

States lie in namespaces of their own on one cluster and are read by four graders at a time, since
the classes spend most of their time asleep.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest
from real_checkout import (
    CORPUS,
    INSTRUMENTS,
    ORACLES,
    Grader,
    RealInstrument,
    checkout,
    corpus,
    instrument,
)
from recorded_states import RECORDED, RecordedState

from pytest_sremut.cluster.embedded import EmbeddedBackend
from pytest_sremut.oracles.oracle_port import Reading

FOLDER = "operators-v1.36.2"
STATES = sorted(
    path.stem for path in (CORPUS / FOLDER).glob("*.json") if path.stem != "APPLICATION"
) or ["healthy"]
# The classes wait 60, 120 and 180 s for rollouts that never end.
SLOW = {"bad-tag-paused", "readiness-gate"}
AT_ONCE = 4
# Seconds that a class has waited for sure where the recorded one took as long: one look at its
# probe pod, a connect that timed out in that, a pod that gets ready after 20 s, a rollout.
WAITS = (0.0, 2.0, 5.0, 20.0, 60.0)
# What is another on every cluster.
MASKS = (
    (re.compile(r"\b([a-z]+-service)-[0-9a-f]{6,10}-\w{5}\b"), r"\1-POD"),
    (re.compile(r"\b([a-z]+-service)-[0-9a-f]{6,10}\b"), r"\1-SET"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"^HTTP response headers: .*$", re.MULTILINE), "HEADERS"),
)

pytestmark = pytest.mark.real_benchmark

Conclusions = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=INSTRUMENTS)
def concluded(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Conclusions]]]:
    """State -> what each oracle concluded, computed for the selected tests, several at a time."""
    checkout()
    folder = corpus(FOLDER)
    selected = [
        item.callspec.params["state"]
        for item in request.session.items
        if item.path == request.path
        and hasattr(item, "callspec")
        and item.callspec.params.get("concluded") == request.param
    ]
    cluster = EmbeddedBackend.start(name="recorded")
    graders: SimpleQueue[RealInstrument] = SimpleQueue()
    every = [instrument(request.param) for _ in range(min(AT_ONCE, len(selected)))]
    for one in every:
        graders.put(one)

    def conclude(name: str) -> Conclusions:
        by = graders.get()
        try:
            state = RecordedState(cluster, folder, name)
            try:
                return _conclusions(state, Grader(cluster, state.namespace, by))
            finally:
                state.remove()
        finally:
            graders.put(by)

    try:
        with ThreadPoolExecutor(len(every)) as pool:
            yield {name: pool.submit(conclude, name) for name in selected if _runs(name)}
            pool.shutdown(cancel_futures=True)
    finally:
        for one in every:
            one.close()
        cluster.close()


def _runs(state: str) -> bool:
    return state not in SLOW or os.environ.get("SREMUT_SLOW") == "1"


def _conclusions(state: RecordedState, grader: Grader) -> Conclusions:
    state.deploy()
    state.note_baseline()
    grader.capture("O1", "O4")
    state.make()
    found: Conclusions = {}
    for name, recorded in state.record["oracles"].items():
        if recorded is None or "note" in recorded:
            continue  # not run, or taken from another's reading
        if state.record["operator"] == "ctl-slow-ready":
            state.delete_pods()
        reading = grader.read(name)
        found[name] = {
            "returned": reading.returned,
            "raised": _raised(reading),
            "printed": _masked(reading.stdout.replace(state.namespace, RECORDED)),
            "elapsed": reading.elapsed,
        }
    return found


def _masked(text: str) -> list[str]:
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    # A real API server's bodies end with a line feed more than ours.
    return [line for line in text.splitlines() if line]


def _raised(reading: Reading) -> str | None:
    """The type as the client of the recording (30.1.0) has it: later ones raise subclasses."""
    if reading.exception is None:
        return None
    name = reading.exception.type
    return "ApiException" if name.startswith("kubernetes.client.") else name.rpartition(".")[2]


def _recorded(state: str) -> Conclusions:
    record = json.loads((CORPUS / FOLDER / f"{state}.json").read_text())
    return {
        name: {
            "returned": oracle.get("returned"),
            "raised": oracle["raised"].partition(":")[0] if oracle.get("raised") else None,
            "printed": _masked(oracle["printed"]),
            "elapsed": oracle["elapsed_s"],
        }
        for name, oracle in record["oracles"].items()
        if oracle is not None and "note" not in oracle
    }


@pytest.mark.parametrize("state", STATES)
def test_every_oracle_concludes_as_recorded(
    concluded: dict[str, Future[Conclusions]], state: str
) -> None:
    if not _runs(state):
        pytest.skip("waits for minutes; SREMUT_SLOW=1 runs it")
    found, recorded = concluded[state].result(), _recorded(state)
    waited = {name: one.pop("elapsed") for name, one in found.items()}
    wanted = {name: one.pop("elapsed") for name, one in recorded.items()}
    assert found == recorded
    for name, seconds in waited.items():
        assert seconds >= max(wait for wait in WAITS if wait <= wanted[name]), (name, seconds)


def test_the_recorded_oracles_are_those_that_are_read() -> None:
    corpus(FOLDER)
    assert {name for state in STATES for name in _recorded(state)} == set(ORACLES)
