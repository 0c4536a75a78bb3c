"""The load Job: shape, and arguments that the generator understands."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_sremut.study.model import Workload, WorkloadRequest
from pytest_sremut.workload.job import load_arguments, load_job
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Calibration
from pytest_sremut.workload.settings import parse_settings

WORKLOAD = Workload(
    url="http://nginx-thrift:8080",
    rate=200,
    connections=3,
    threads=2,
    duration=0.5,
    pause=0.1,
    rounds=10,
    timeout=2.0,
    mix=(
        WorkloadRequest(name="home", path="/wrk2-api/home-timeline/read", weight=90),
        WorkloadRequest(name="compose", path="/wrk2-api/post/compose", weight=10),
    ),
)


def test_the_job_runs_once_and_keeps_its_log() -> None:
    job = load_job(
        name="load-1",
        namespace="social-network",
        workload=WORKLOAD,
        rounds=12,
        seed=77,
        image="sremut/load:1",
        labels={"app": "sremut-load"},
    )
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["metadata"] == {
        "name": "load-1",
        "namespace": "social-network",
        "labels": {"app": "sremut-load"},
    }
    spec = job["spec"]
    assert spec["backoffLimit"] == 0
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["activeDeadlineSeconds"] > 12 * (0.5 + 0.1 + 2.0)
    assert spec["template"]["metadata"]["labels"] == {"app": "sremut-load"}
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert container["image"] == "sremut/load:1"
    assert container["args"] == load_arguments(WORKLOAD, rounds=12, seed=77)
    assert all(isinstance(word, str) for word in container["args"])


@pytest.mark.parametrize(
    ("said", "found"),
    [("", Calibration.WRK2), ("none", Calibration.NONE), ("always", Calibration.ALWAYS)],
)
def test_what_a_study_says_of_calibration_reaches_the_generator(
    said: str, found: Calibration
) -> None:
    workload = dataclasses.replace(WORKLOAD, calibration=said)
    arguments = load_arguments(workload, rounds=12, seed=77)
    assert any(word.startswith("--calibration") for word in arguments) is bool(said)
    assert parse_settings(arguments).plan.calibration is found


def test_the_generator_understands_the_jobs_arguments() -> None:
    settings = parse_settings(load_arguments(WORKLOAD, rounds=12, seed=77))
    assert (settings.url, settings.host, settings.port) == (WORKLOAD.url, "nginx-thrift", 8080)
    assert (settings.rounds, settings.pause, settings.seed) == (12, 0.1, 77)
    plan = settings.plan
    assert (plan.rate, plan.connections, plan.threads) == (200, 3, 2)
    assert (plan.duration, plan.timeout) == (0.5, 2.0)
    assert plan.kinds == (
        Kind("home", "/wrk2-api/home-timeline/read", 90),
        Kind("compose", "/wrk2-api/post/compose", 10),
    )
