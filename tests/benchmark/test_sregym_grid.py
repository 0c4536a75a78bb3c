"""The published grid, MS-M04 and a replaced pod, as recorded on a real Kubernetes 1.36.2: the same
classes conclude the same on the embedded cluster, and reject in the same place.

Where an oracle rejects shows in its time: one that connected took its probe's polling interval.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from real_checkout import CORPUS, INSTRUMENTS, Grader, checkout, corpus, instrument
from recorded_states import RecordedState

from pytest_sremut.cluster.embedded import EmbeddedBackend
from pytest_sremut.study.verdict import Verdict

FOLDER = "oracles-v1.36.2"
GRID = CORPUS / FOLDER / "fix-grid.json"
PROBE_POLLS = 2.0  # seconds between two looks at the probe pod
CONNECTED = ("SERVICE_OK", "does not accept traffic")
# The states of the other recording that are these, by their API writes.
WRITES = {"M01": "missing", "M02": "sel-typo", "M03": "tp-dead", "M04": "manual-ep-ref"}

pytestmark = pytest.mark.real_benchmark


def rows() -> dict[str, dict[str, Any]]:
    """The recorded rows by state; `restored` once, since all of them say the same."""
    corpus(FOLDER)
    return {row["state"]: row for row in json.loads(GRID.read_text())["sequence"]}


@pytest.fixture(scope="module", params=INSTRUMENTS)
def readings(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Any]]]:
    """State -> configuration -> its reading, each state in a namespace of its own."""
    checkout()
    rows()
    by = instrument(request.param)
    cluster = EmbeddedBackend.start(name="grid")
    found: dict[str, dict[str, Any]] = {}
    try:
        for name, recorded in [("healthy", "healthy"), *WRITES.items()]:
            state = RecordedState(cluster, corpus("operators-v1.36.2"), recorded)
            grader = Grader(cluster, state.namespace, by)
            state.deploy()
            state.note_baseline()
            grader.capture("O1", "O4")
            state.make()
            found[name] = {oracle: grader.read(oracle) for oracle in ("O1", "O2", "O3", "O4")}
            if name == "M04":
                state.delete_pods()
                state.settle()
                found["M04+churn"] = {o: grader.read(o) for o in ("O1", "O2", "O3", "O4")}
            state.remove()
        yield found
    finally:
        by.close()
        cluster.close()


@pytest.mark.parametrize("state", ["healthy", "M01", "M02", "M03", "M04", "M04+churn"])
def test_every_configuration_concludes_as_recorded(
    readings: dict[str, dict[str, Any]], state: str
) -> None:
    row = rows()[state]
    for oracle, reading in readings[state].items():
        assert reading.returned["success"] is row[oracle]["success"], (state, oracle)
        if row[oracle]["elapsed_seconds"] >= PROBE_POLLS:
            assert reading.elapsed >= PROBE_POLLS, (state, oracle, reading.elapsed)
        else:
            assert not any(word in reading.stdout for word in CONNECTED), (state, oracle)


def test_the_composition_says_what_its_parts_say(readings: dict[str, dict[str, Any]]) -> None:
    for state, by_oracle in readings.items():
        parts = [by_oracle[name].verdict is Verdict.ACCEPT for name in ("O1", "O3")]
        assert (by_oracle["O4"].verdict is Verdict.ACCEPT) is all(parts), state
        children = by_oracle["O4"].returned["oracles"]
        assert [child["success"] for child in children] == parts, state


def test_restored_rows_say_what_the_healthy_row_says() -> None:
    corpus(FOLDER)
    sequence = json.loads(GRID.read_text())["sequence"]
    said = [
        {name: row[name]["success"] for name in ("O1", "O2", "O3", "O4")}
        for row in sequence
        if row["state"] in {"healthy", "restored"}
    ]
    assert all(one == said[0] for one in said)
