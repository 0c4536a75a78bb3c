"""The quick part of the conformance suite: what the product's verdicts depend on.

The whole runs by ``benchmarks/conformance.py``, which also writes the table in
``docs/embedded.md``.
"""

from __future__ import annotations

import pytest
from conformance import playing, recorded, report
from conformance.outcome import Outcome
from conformance.rules import Side, differences
from real_cluster import start

pytestmark = pytest.mark.skipif(not recorded.here(), reason="the golden corpus is not here")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Outcome]]:
    start(tmp_path_factory.mktemp("probe")).close()  # skips where there are no clusters
    return playing.play_all(playing.QUICK, at_once=len(playing.QUICK))


def test_no_answer_differs_without_a_reason(outcomes: dict[str, list[Outcome]]) -> None:
    unexplained = [
        f"{outcome.step}: {line[:400]}"
        for found in outcomes.values()
        for outcome in found
        for line in outcome.unexplained
    ]
    assert unexplained == []


def test_the_table_says_what_was_found(outcomes: dict[str, list[Outcome]]) -> None:
    committed = report.committed()
    for found in outcomes.values():
        for outcome in found:
            assert committed.get(outcome.step, "same") == outcome.verdict, outcome.step


def test_every_wanted_step_was_played(outcomes: dict[str, list[Outcome]]) -> None:
    for folder, found in outcomes.items():
        numbers = {step.number for step in recorded.steps(folder)}
        assert len(found) == len(numbers & set(playing.QUICK[folder]))


def test_the_rules_hide_no_difference_that_matters() -> None:
    left, right = Side(), Side()
    for side, name, address in ((left, "a-1", "10.42.0.9"), (right, "b-1", "10.244.0.9")):
        metadata = {"name": name, "uid": name * 4}
        side.learn({"kind": "Pod", "metadata": metadata, "status": {"podIP": address}})
    recorded_end = {"addresses": [{"ip": "10.42.0.9"}]}
    our_end = {"addresses": [{"ip": "10.244.0.9"}]}
    found = differences(left.canonical(recorded_end), right.canonical(our_end))
    assert found, "the address of another pod is a difference"
