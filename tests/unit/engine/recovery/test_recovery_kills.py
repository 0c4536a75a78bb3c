"""A process that is killed at any step of a run leaves what another one can put back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from recovery_world import KilledWorld, Step
from world import NS

from pytest_sremut.evidence.journal import JournalStatus
from pytest_sremut.evidence.load import load_entry
from pytest_sremut.study.verdict import Outcome


def chosen(total: int, *, first: int = 1, count: int = 3) -> range:
    """Points that are tried, spread evenly over all that there are; `SREMUT_SLOW=1` tries each."""
    assert total > count
    return range(first, total + 1, 1 if os.environ.get("SREMUT_SLOW") == "1" else total // count)


FOREIGN = [
    {"kind": "Service", "metadata": {"name": "user-service", "namespace": "elsewhere"}},
    {"kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": NS}},
]


def study_of(mutant: str, world: KilledWorld) -> Any:
    return world.pinned() if mutant == "MS-M04" else world.study()


def left(world: KilledWorld) -> list[tuple[str, str, str]]:
    ours = ("EndpointSlice", "ConfigMap")
    return [key for key in world.kube.objects if key[1] == NS and key[0] not in ours]


def planted(world: KilledWorld) -> list[dict[str, Any]]:
    return [world.kube.put(body) for body in FOREIGN]


def check_recovered(world: KilledWorld, foreign: list[dict[str, Any]], told: str) -> None:
    assert left(world) == [], told
    for body in foreign:
        metadata = body["metadata"]
        key = (body["kind"], metadata["namespace"], metadata["name"])
        assert world.kube.objects[key] == body, told
    for entry in world.entries():
        if entry.outcome is None:  # it died before it said who it is, and touched nothing
            assert entry.directory is not None
            assert not (entry.directory / "attempt.json").exists(), told
            assert not any(call[0] == "create" for call in world.kube.calls), told
            continue
        record = load_entry(entry)
        assert record.problems == (), told
        assert record.journal.status is JournalStatus.INTACT, told
    assert world.pending() == [], told


@pytest.mark.parametrize(
    ("mutant", "what", "when"),
    [
        ("MS-M02", "journal", "before"),
        ("MS-M02", "journal", "half"),
        ("MS-M02", "journal", "after"),
        ("MS-M02", "api", "before"),
        ("MS-M04", "api", "after"),
        ("MS-M02", "evidence", "before"),
    ],
)
def test_a_kill_anywhere_is_recovered(tmp_path: Path, mutant: str, what: Any, when: Any) -> None:
    whole = KilledWorld(tmp_path / "whole")
    total = whole.run(mutant, study_of(mutant, whole)).counts[what]
    for number in chosen(total):
        world = KilledWorld(tmp_path / f"at-{number}")
        foreign = planted(world)
        step = Step(what=what, number=number, when=when)
        assert world.run(mutant, study_of(mutant, world), step).dead
        told = f"killed at {step} of {total}"
        recovered = world.recover()
        check_recovered(world, foreign, told)
        # The last file is the closing entry of an attempt whose record is whole.
        recorded = what == "evidence" and number == total
        assert all((item.outcome is Outcome.COMPLETE) is recorded for item in recovered), told


@pytest.mark.parametrize(("what", "when"), [("journal", "half"), ("api", "after")])
def test_a_recovery_that_is_killed_itself_is_gone_on_with(
    tmp_path: Path, what: Any, when: Any
) -> None:
    """At any of its steps, and twice in a row."""

    def died(directory: Path) -> KilledWorld:
        world = KilledWorld(directory)
        step = Step(what="journal", number=60, when="after")
        assert world.run("MS-M04", world.pinned(), step).dead
        return world

    total = died(tmp_path / "whole").recover_until_killed(None).counts[what]
    for number in chosen(total, first=2, count=2):
        world = died(tmp_path / f"at-{number}")
        foreign = planted(world)
        step = Step(what=what, number=number, when=when)
        assert world.recover_until_killed(step).dead
        world.recover_until_killed(step)
        world.recover()
        check_recovered(world, foreign, f"recovery killed at {step} of {total}")
