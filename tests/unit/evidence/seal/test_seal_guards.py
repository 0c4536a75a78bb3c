"""Whether every guard held: what each missing piece is told as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_sremut.evidence.journal import JournalEntry, JournalReading, JournalStatus
from pytest_sremut.evidence.seal.guards import broken_guards

UID = {"cluster": {"kube_system_uid": "uid"}}
STATES = {
    state: {"contract": {"not_evaluated": []}} for state in ("healthy", "faulted", "restored")
}
INTENT, RECEIPT = ("INTENT", {"operation": "op-1"}), ("RECEIPT", {"operation": "op-1"})
WELL = [("CREATED", {}), INTENT, RECEIPT, ("FINALIZED", {}), ("CLOSING", {})]


def journal(
    told: list[tuple[str, Mapping[str, Any]]], status: JournalStatus = JournalStatus.INTACT
) -> JournalReading:
    entries = tuple(
        JournalEntry(
            sequence=number, previous="", hash="", run="r", attempt=1, transition=transition,
            references=(), facts=facts, utc="", monotonic="0", boot_id="b",
        )
        for number, (transition, facts) in enumerate(told, start=1)
    )  # fmt: skip
    return JournalReading(status=status, entries=entries, problem="entry 3: not JSON")


def broken(
    told: list[tuple[str, Mapping[str, Any]]] = WELL,
    *,
    status: JournalStatus = JournalStatus.INTACT,
    identity: Mapping[str, Any] = UID,
    record: Mapping[str, Any] = UID,
    states: Mapping[str, Any] = STATES,
) -> list[str]:
    return list(
        broken_guards(journal(told, status), identity=identity, record=record, states=states)
    )


def test_all_held() -> None:
    assert broken() == []
    assert broken(record={}) == []  # what there is no record of is told elsewhere


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([WELL[0], INTENT, *WELL[3:]], "journal line 2: op-1 has no receipt"),
        (
            [WELL[0], RECEIPT, INTENT, *WELL[3:]],
            "journal line 2: a receipt of op-1 without its intent",
        ),
        ([WELL[0], INTENT, RECEIPT, INTENT, RECEIPT, WELL[3]], "journal line 4: op-1 is intended "),
        (
            [WELL[0], INTENT, RECEIPT, RECEIPT, WELL[3]],
            "journal line 4: a receipt of op-1 without its intent",
        ),
        (
            [WELL[0], INTENT, ("RECEIPT", {"operation": "op-1", "reconciled": True}), WELL[3]],
            "journal line 3: op-1 was reconciled",
        ),
        (WELL[1:], "the journal does not begin with CREATED"),
        ([*WELL[:3], ("ABORTED_SAFE", {})], "the run ended at ABORTED_SAFE, not at FINALIZED"),
        ([], "the journal does not begin with CREATED"),
    ],
)
def test_what_the_journal_lacks(told: list[tuple[str, Mapping[str, Any]]], why: str) -> None:
    assert broken(told)[0].startswith(why)


def test_a_journal_that_was_tampered_with() -> None:
    assert broken(status=JournalStatus.TAMPERED) == ["the journal is TAMPERED: entry 3: not JSON"]


def test_another_cluster_or_none_that_is_known() -> None:
    other = {"cluster": {"kube_system_uid": "other"}}
    assert broken(record=other) == ["the cluster at the end is another one than at the beginning"]
    assert broken(identity={"cluster": {}}, record={}) == [
        "the cluster's identity was not recorded"
    ]


def test_invariants_that_were_left_out() -> None:
    some = {**STATES, "faulted": {"contract": {"not_evaluated": ["MS-I6", "MS-I2"]}}}
    assert broken(states=some) == ["faulted: not evaluated: MS-I2, MS-I6"]
    assert broken(states={**STATES, "restored": {"contract": None}}) == [
        "no contract was read in the restored state"
    ]
    assert len(broken(states={})) == 3
