"""Where a run stands, from its journal alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.engine.recovery import rebuild
from pytest_sremut.engine.transitions import Phase
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.journal import JournalEntry

TARGET = {
    "target": {
        "object": "Service ns/user-service",
        "uid": "u1",
        "file": {"path": "raw/captured-target.json", "sha256": "0" * 64, "size": 7},
        "body": "1" * 64,
    },
    "baseline": {"user-service": 3},
}


def entry(transition: str, facts: Mapping[str, Any] | None = None) -> JournalEntry:
    return JournalEntry(
        sequence=1,
        previous="",
        hash="",
        run="r",
        attempt=1,
        transition=transition,
        references=(),
        facts=facts or {},
        utc="",
        monotonic="",
        boot_id="",
    )


def intent(number: int, kind: str = "create-mutant", call: str = "create") -> JournalEntry:
    facts = {
        "operation": f"op-{number:04d}",
        "kind": kind,
        "calls": [{"object": "Service ns/x", "call": call}],
        "manager": f"m/{number}",
    }
    return entry("INTENT", facts)


def receipt(number: int, uid: str = "u2") -> JournalEntry:
    effects = [{"object": "Service ns/x", "observed": "present", "uid": uid}]
    return entry("RECEIPT", {"operation": f"op-{number:04d}", "effects": effects})


def test_an_empty_journal_is_a_run_that_did_nothing() -> None:
    state = rebuild([])
    assert (state.phase, state.mutated, state.over) == (Phase.CREATED, False, False)
    assert (state.operations, state.target, state.recoveries) == ((), None, 0)


def test_everything_that_a_recovery_needs() -> None:
    state = rebuild(
        [
            entry("CREATED", {"mutant": "MS-M01", "study": "audits/s/study.yaml"}),
            entry("PREFLIGHT_PASS"),
            intent(1, "deploy-application"),
            receipt(1),
            entry("STATE_RECORDED", {"state": "healthy"}),
            entry("HEALTHY_STATE_CAPTURED", TARGET),
            entry("MUTANT_INJECTED"),
            intent(2, "delete-target", "delete"),
            receipt(2),
            intent(3),
        ]
    )
    assert state.phase is Phase.MUTANT_INJECTED
    assert state.mutated
    assert state.study == "audits/s/study.yaml"
    assert [item.id for item in state.open] == ["op-0003"]
    assert [(c.operation.id, c.uid) for c in state.creations] == [
        ("op-0001", "u2"),
        ("op-0003", ""),
    ]
    assert state.target is not None
    assert state.target.object.uid == "u1"
    assert state.target.as_json() == TARGET


@pytest.mark.parametrize(
    ("after", "phase", "mutated", "over"),
    [
        (["RESTORE_STARTED"], Phase.RESTORE_STARTED, True, False),
        (["RESTORE_STARTED", "RESTORATION_BLOCKED"], Phase.RESTORATION_BLOCKED, True, False),
        (
            ["RESTORE_STARTED", "RESTORATION_BLOCKED", "RECOVERY_STARTED"],
            Phase.RESTORE_STARTED,
            True,
            False,
        ),
        (["RESTORE_STARTED", "RESTORE_VERIFIED"], Phase.RESTORE_VERIFIED, False, False),
        (
            ["RESTORE_STARTED", "RESTORE_VERIFIED", "FINALIZED", "CLOSING"],
            Phase.FINALIZED,
            False,
            True,
        ),
        (
            ["RESTORE_STARTED", "RESTORE_VERIFIED", "RECOVERY_BLOCKED", "RECOVERY_STARTED"],
            Phase.RESTORE_VERIFIED,
            False,
            False,
        ),
    ],
)
def test_the_way_back(after: list[str], phase: Phase, mutated: bool, over: bool) -> None:
    state = rebuild([entry("CREATED"), entry("MUTANT_INJECTED"), *map(entry, after)])
    assert (state.phase, state.mutated, state.over) == (phase, mutated, over)
    assert state.recoveries == after.count("RECOVERY_STARTED")


def test_a_receipt_without_its_intent() -> None:
    with pytest.raises(EvidenceError, match="a receipt of 'op-0001' without its intent"):
        rebuild([receipt(1)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["operation", "kind", "calls", "effects", "target", "baseline", "object"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@given(
    st.lists(
        st.builds(
            entry,
            st.sampled_from([*Phase, "INTENT", "RECEIPT", "RECOVERY_STARTED", "?"]),
            st.dictionaries(
                st.sampled_from(["operation", "kind", "calls", "effects", "target", "baseline"]),
                JSON,
            ),
        ),
        max_size=6,
    )
)
def test_entries_that_chain_and_say_anything(entries: list[JournalEntry]) -> None:
    """A state, or an error of ours: never another exception."""
    try:
        state = rebuild(entries)
    except EvidenceError:
        return
    assert state.over is (state.phase in {Phase.FINALIZED, Phase.ABORTED_SAFE})
