"""Rounds of ten seconds on the embedded cluster tell counts and no latencies, as real wrk2's do.

Two rounds, not ten: what a whole run makes of such reports is in
`tests/unit/engine/test_engine_latencies.py`, with what real wrk2 was recorded to print.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath

from kubernetes import client
from real_cluster import Pods, core, eventually, start

from pytest_sremut.demo.manifests import deployment, service
from pytest_sremut.demo.roles import ROLES
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import WorkloadRequest
from pytest_sremut.workload.delivery import Asked
from pytest_sremut.workload.job import load_job
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.window import functional, window

ROOT = Path(__file__).resolve().parents[2]
STUDY = PurePosixPath("audits/missing_service_social_network/study.yaml")
URL = "http://user-service:9090"


def test_the_published_rounds_measure_no_latency_and_pass(tmp_path: Path) -> None:
    published = load_study(ROOT, STUDY).profiles["kind"].workload
    workload = dataclasses.replace(
        published,
        url=URL,
        mix=(WorkloadRequest(name="health", path="/healthz", weight=100),),
    )
    with start(tmp_path) as cluster:
        pods = Pods(core(cluster), "load")
        client.AppsV1Api(pods.api.api_client).create_namespaced_deployment(
            "load", deployment(ROLES["user-service"], "load")
        )
        pods.api.create_namespaced_service("load", service(ROLES["user-service"], "load"))
        pods.create("client", "sleep", "300")
        pods.ready("client")
        asked = ("wget", "-q", "-O", "-", "-T", "2", f"{URL}/healthz")
        eventually(lambda: pods.run("client", *asked)[0] == 0, "the Service answers")
        job = load_job(
            name="load", namespace="load", workload=workload, rounds=2, seed=7,
            image="sremut/load:1", labels={"app": "load"},
        )  # fmt: skip
        client.BatchV1Api(pods.api.api_client).create_namespaced_job("load", job)
        name = eventually(
            lambda: [
                pod.metadata.name
                for pod in pods.api.list_namespaced_pod("load", label_selector="app=load").items
            ],
            "the load pod",
        )[0]
        eventually(lambda: pods.get(name).status.phase == "Succeeded", "the load has ended")
        log = pods.log(name, timestamps=True)
    assert "Latency     -nanus    -nanus   0.00us    0.00%" in log
    assert "Req/Sec       -nan      -nan   0.00      0.00%" in log
    assert log.count("Thread calibration: mean lat.: ") == 2 * workload.threads
    load = Asked(rate=workload.rate, duration=workload.duration, connections=workload.connections)
    seen = window(parse_log(log.encode(), asked=load).rounds, after=None, at_least=2)
    assert {one.outcome for one in seen.rounds} == {RoundOutcome.LATENCY_NOT_A_NUMBER}
    assert all(one.latency is None for one in seen.rounds)
    passes, told = functional(seen, 50)
    assert passes, told
    assert told.endswith("0 non-2xx, 0 socket errors (timeouts unknown)")
