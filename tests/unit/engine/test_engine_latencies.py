"""Real wrk2's own reports of ten seconds, which tell no latency, in a run of profile `kind`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_world import EngineWorld, small_application

from pytest_sremut.engine.steps import deploy
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.study.verdict import ContractVerdict, Outcome, State
from pytest_sremut.workload.report import RoundOutcome

RECORDED = Path(__file__).resolve().parents[1] / "workload" / "recorded"


class RealLoad(EngineWorld):
    """A cluster whose load pods print what DeathStarBench's wrk2 was recorded to print."""

    def _log(self, rounds: int, duration: float) -> bytes:
        assert duration == 10.0, "the published rounds, as recorded"
        case = "healthy" if self.connects() else "err10"
        report = (RECORDED / f"{case}.dsb-exp.txt").read_text().partition("--stderr")[0]
        stamped = []
        for number in range(1, rounds + 1):
            head, *rest = [f"Running wrk2 on round #{number}", *report.splitlines()]
            stamped.append(self._dated(head))
            self.clock.wait(10.01)
            stamped += [self._dated(line) for line in rest]
        return "".join(stamped).encode()

    def _dated(self, line: str) -> str:
        return f"{self.clock.now().strftime('%Y-%m-%dT%H:%M:%S.%f000Z')} {line}\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = RealLoad(tmp_path / "evidence")
    yield world
    world.stop()


def test_counts_carry_a_run_and_latencies_that_were_not_measured_stop_none(
    world: EngineWorld,
) -> None:
    driver = world.driver("MS-M02", profile="kind")
    healthy = driver.state(State.HEALTHY)
    assert healthy.contract.verdict is ContractVerdict.PASS
    faulted = driver.state(State.FAULTED)
    assert set(faulted.contract.violated) == {"MS-I2", "MS-I3", "MS-I4", "MS-I6"}
    assert driver.finish() is Outcome.COMPLETE
    record = load_attempt(driver.attempt.directory)
    for name, state in record.states.items():
        assert state.workload is not None
        rounds = state.workload.rounds
        assert {one.parse for one in rounds} == {RoundOutcome.LATENCY_NOT_A_NUMBER}, name
        failures = 0 if name is not State.FAULTED else 103
        assert {(one.requests, one.failures) for one in rounds} == {(1024, failures)}, name
