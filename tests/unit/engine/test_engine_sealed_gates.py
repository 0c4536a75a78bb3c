"""A sealed run evaluates every invariant: one that was left out ends the attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_sremut.engine.steps import gates
from pytest_sremut.study.verdict import ContractVerdict, Outcome, Registration, State


def world(registration: Registration, not_evaluated: tuple[str, ...]) -> tuple[Any, Any]:
    ctx = SimpleNamespace(
        attempt=SimpleNamespace(identity=SimpleNamespace(registration=registration)),
        protocol=SimpleNamespace(sampler_interval=0.1),
    )
    contract = SimpleNamespace(
        verdict=ContractVerdict.PASS, violated=(), not_evaluated=not_evaluated
    )
    window = SimpleNamespace(window=SimpleNamespace(failures=0, complete=True, usable=()))
    notes = SimpleNamespace(state=State.FAULTED, contract=contract, readings=[], window=window)
    return ctx, notes


@pytest.mark.parametrize("gate", ["control", "stable_harness"])
def test_left_out_in_a_sealed_run(gate: str) -> None:
    ctx, notes = world(Registration.SEALED, ("MS-I6",))
    extra = ((), Outcome.RESTORATION_FAILURE) if gate == "control" else ((),)
    stop = getattr(gates, gate)(ctx, notes, *extra)
    assert stop is not None
    assert stop.outcome is Outcome.PROTOCOL_VIOLATION
    assert stop.outcome.retries == 0
    assert "not evaluated: MS-I6" in stop.reason


@pytest.mark.parametrize("gate", ["control", "stable_harness"])
@pytest.mark.parametrize(
    ("registration", "not_evaluated"),
    [
        (Registration.SEALED, ()),
        (Registration.PREREGISTERED, ("MS-I6",)),
        (Registration.EXPLORATORY, ("MS-I6",)),
    ],
)
def test_everywhere_else_it_goes_on(
    gate: str, registration: Registration, not_evaluated: tuple[str, ...]
) -> None:
    ctx, notes = world(registration, not_evaluated)
    extra = ((), Outcome.RESTORATION_FAILURE) if gate == "control" else ((),)
    assert getattr(gates, gate)(ctx, notes, *extra) is None
