from __future__ import annotations

from dataclasses import replace

import pytest
from test_ledger_scores import A, attempt

from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.retries import apply_retry_rule, unearned
from pytest_sremut.study.verdict import Outcome

O = Outcome  # noqa: E741 - a column of the table below


def ended(*outcomes: Outcome | None) -> list[AttemptFact]:
    return [
        replace(attempt("m1", {"O1": A}, outcome=outcome), attempt=number)
        for number, outcome in enumerate(outcomes, 1)
    ]


@pytest.mark.parametrize(
    ("earlier", "told"),
    [
        ([], ""),
        ([O.COMPLETE], "a completed verdict is never retried"),
        ([O.MUTANT_ACTIVATION_FAILURE], "allows no retry"),
        ([O.PROTOCOL_VIOLATION], "allows no retry"),
        ([O.RESTORATION_FAILURE], "allows no retry"),
        ([O.HARNESS_TIMING_FAILURE], ""),
        ([O.INFRASTRUCTURE_FAILURE], ""),
        ([O.DRIVER_ABORTED], ""),
        ([None], ""),  # it died: as if its driver had been aborted
        ([None, None], "one retry, which was used"),
        ([None, O.DRIVER_ABORTED], "one retry, which was used"),
        ([O.INFRASTRUCTURE_FAILURE, O.INFRASTRUCTURE_FAILURE], "one retry, which was used"),
        ([O.INFRASTRUCTURE_FAILURE, O.HARNESS_TIMING_FAILURE], ""),
        ([O.STOPPED_AT_HEALTHY_GATE] * 5, ""),  # after its cause was fixed
        ([O.STOPPED_AT_HEALTHY_GATE, O.COMPLETE], "never retried"),
    ],
)
def test_which_retries_are_earned(earlier: list[Outcome | None], told: str) -> None:
    found = unearned(ended(*earlier))
    assert told in found
    assert bool(told) is bool(found)


def test_an_unearned_retry_is_excluded_under_a_registration_and_counted_in_an_exploration() -> None:
    both = ended(O.MUTANT_ACTIVATION_FAILURE, O.COMPLETE)
    assert apply_retry_rule(both)[1].valid
    registered = [replace(one, registration="PREREGISTERED") for one in both]
    last = apply_retry_rule(registered)[1]
    assert not last.valid
    assert "MUTANT_ACTIVATION_FAILURE" in last.excluded


def test_a_damaged_completed_attempt_still_forbids_a_retry() -> None:
    first, second = ended(None, O.COMPLETE)
    first = replace(first, damaged=True, recorded=O.COMPLETE, registration="SEALED")
    second = replace(second, registration="SEALED")
    assert not apply_retry_rule([first, second])[1].valid
