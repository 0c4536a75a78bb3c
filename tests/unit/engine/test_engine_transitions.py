from __future__ import annotations

import itertools

import pytest

from pytest_sremut.engine.transitions import FINAL, LEGAL, Phase, check_transition


def test_the_way_through_a_complete_run() -> None:
    way = [
        Phase.CREATED,
        Phase.PREFLIGHT_PASS,
        Phase.HEALTHY_STATE_CAPTURED,
        Phase.MUTANT_INJECTED,
        Phase.MUTANT_STATE_VERIFIED,
        Phase.ORACLE_STARTED,
        Phase.ORACLE_EVALUATED,
        Phase.CONTRACT_EVALUATED,
        Phase.RESTORE_STARTED,
        Phase.RESTORE_VERIFIED,
        Phase.FINALIZED,
    ]
    for old, new in itertools.pairwise(way):
        check_transition(old, new)


def test_every_phase_is_in_the_table_and_final_ones_lead_nowhere() -> None:
    assert set(LEGAL) == set(Phase)
    assert {phase for phase, following in LEGAL.items() if not following} == FINAL


@pytest.mark.parametrize(
    "phase", [p for p in Phase if Phase.RESTORE_STARTED in LEGAL[p]], ids=lambda p: p.value
)
def test_a_mutated_run_cannot_end_without_restoration(phase: Phase) -> None:
    assert not LEGAL[phase] & FINAL


def test_going_back_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="illegal transition RESTORE_STARTED -> CREATED"):
        check_transition(Phase.RESTORE_STARTED, Phase.CREATED)
