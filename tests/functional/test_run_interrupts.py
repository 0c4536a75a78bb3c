"""Sessions that are interrupted or killed: put back, accounted for, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quick import HOW, Result, Session, require_clusters, session
from small import make_small

from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.study.verdict import Outcome, State


@pytest.fixture(autouse=True)
def clusters() -> None:
    require_clusters()


def transitions(result: Result, attempt: dict[str, Any]) -> list[str]:
    return [entry["transition"] for entry in result.journal(attempt)]


def check_put_back(result: Result, attempt: dict[str, Any], received: str) -> None:
    """The attempt ended safely, says why, and its evidence holds together."""
    assert attempt["outcome"] == "DRIVER_ABORTED", result.out
    assert attempt["reason"] == f"interrupted: {received} received"
    passed = transitions(result, attempt)
    assert passed[-2:] == ["ABORTED_SAFE", "CLOSING"]
    if "MUTANT_INJECTED" in passed:
        assert "RESTORE_VERIFIED" in passed
    record = load_attempt(result.directory(attempt))
    assert record.problems == ()
    assert record.outcome is Outcome.DRIVER_ABORTED


def check_told(result: Result, received: str) -> None:
    assert result.code == pytest.ExitCode.INTERRUPTED, result.out
    assert "Traceback" not in result.out
    assert f"DRIVER_ABORTED: interrupted: {received} received" in result.out
    assert "invalid attempts (" in result.out


# What stands in the journal when the signal is sent, and the states that are then finished.
# Every other point of a run is tried in memory, in tests/unit/engine.
PHASES = {
    "deploying": (signal.SIGHUP, "deploy-application", []),
    "the faulted window": (signal.SIGINT, "sremut-load-faulted", [State.HEALTHY]),
}


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupt_restores(tmp_path: Path, phase: str) -> None:
    number, text, finished = PHASES[phase]
    with session(make_small(tmp_path), "-m", "mutant", "-k", "ms-m03", *HOW["no xdist"]) as running:
        running.until_journal(text)
        running.signal(number)
        result = running.end()
        assert running.left() == []
    received = signal.Signals(number).name
    check_told(result, received)
    (attempt,) = result.attempts()
    check_put_back(result, attempt, received)
    assert sorted(result.states(attempt)) == sorted(state.value for state in finished)


def by_ctrl_c(running: Session) -> None:
    """What a terminal does: the signal goes to everybody of the process group."""
    running.look()
    os.killpg(running.process.pid, signal.SIGINT)


def by_a_signal_to_the_controller(running: Session) -> None:
    running.signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("send", "passed", "finished"),
    [
        (by_ctrl_c, "MUTANT_STATE_VERIFIED", ["healthy"]),
        (by_a_signal_to_the_controller, "deploy-application", []),
    ],
)
def test_an_interrupt_reaches_the_workers(
    tmp_path: Path, send: Callable[[Session], None], passed: str, finished: list[str]
) -> None:
    with session(
        make_small(tmp_path), "-m", "mutant", "-k", "ms-m01 or ms-m02", *HOW["-n2"]
    ) as running:
        running.until(
            lambda: sum(passed in journal.read_text() for journal in running.journals()) == 2,
            f"both workers passed {passed}",
        )
        send(running)
        result = running.end()
        assert running.left() == []
    received = "SIGINT" if send is by_ctrl_c else "SIGTERM"
    assert result.code == pytest.ExitCode.INTERRUPTED, result.out
    assert "Traceback" not in result.out
    attempts = result.attempts()
    assert len(attempts) == 2
    for attempt in attempts:
        own = attempt["reason"].removeprefix("interrupted: ").removesuffix(" received")
        assert own in {received, "SIGTERM"}
        check_put_back(result, attempt, own)
        assert sorted(result.states(attempt)) == finished
        assert f"{attempt['run']} attempt 1: DRIVER_ABORTED: interrupted: " in result.out


def test_a_killed_worker(tmp_path: Path) -> None:
    """Its finished states stand, its attempt has died, and the run is tried again."""
    with session(make_small(tmp_path), "-m", "mutant", "-k", "ms-m03", *HOW["-n2"]) as running:
        healthy = ".sremut/evidence/*/*/ms-m03-r01/a01/states/healthy.json"
        running.until(lambda: bool(list(running.project.glob(healthy))), "ms-m03 is healthy")
        running.look()
        (head,) = running.project.glob(".sremut/evidence/*/*/ms-m03-r01/a01/attempt.json")
        os.kill(json.loads(head.read_text())["pid"], signal.SIGKILL)
        result = running.end()
        assert running.left() == []
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "crashed" in result.out
    by_run = {(a["run"], a["attempt"]): a for a in result.attempts()}
    died = by_run[("ms-m03-r01", 1)]
    assert "outcome" not in died
    assert sorted(result.states(died)) == ["healthy"]
    assert "ms-m03-r01 attempt 1: DIED: " in result.out
    again = by_run[("ms-m03-r01", 2)]
    assert again["outcome"] == "COMPLETE"
    assert sorted(result.states(again)) == ["faulted", "healthy", "restored"]
    assert sorted(by_run) == [("ms-m03-r01", 1), ("ms-m03-r01", 2)]
    assert "1 of 3 runs have a valid attempt; attempts: COMPLETE 1, DIED 1" in result.out


def test_a_killed_session_leaves_nothing_running(tmp_path: Path) -> None:
    with session(make_small(tmp_path), "-m", "mutant", "-k", "ms-m01", *HOW["no xdist"]) as running:
        running.until_journal("deploy-application")
        running.signal(signal.SIGKILL)
        assert running.end().code == -signal.SIGKILL
        running.until_gone()
