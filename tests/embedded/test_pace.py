"""A cluster that is slow on purpose: it answers the same, later, and throttles as asked."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest
from real_cluster import Pods, core, start

from pytest_sremut.cluster.transport import Answer, Transport
from pytest_sremut.embedded import EmbeddedError, Options


def test_what_is_slowed_comes_no_sooner(tmp_path: Path) -> None:
    pace = "delay:100ms,jitter:10ms,pods:1s-1500ms"
    with start(tmp_path, options=Options(pace=pace)) as cluster:
        assert cluster.facts()["pace"]["api_delay"] == 0.1
        api = core(cluster)
        began = time.monotonic()
        api.list_namespace()
        assert time.monotonic() - began >= 0.1
        pods = Pods(api, "slow")
        pods.create("one", "sleep", "60")
        pod = pods.ready("one")
        conditions = {one.type: one.last_transition_time for one in pod.status.conditions}
        started: datetime = pod.status.container_statuses[0].state.running.started_at
        # Both are whole seconds: a second between them is more than nothing.
        assert (started - conditions["PodScheduled"]).total_seconds() >= 1


def test_who_asks_too_often_is_told_to_come_again(tmp_path: Path) -> None:
    with start(tmp_path, options=Options(pace="limit:5")) as cluster:
        transport = Transport.load(cluster.kubeconfig, cluster.context)
        answers: list[object] = []

        def ask() -> None:
            # Half a second is less than it is told to wait: the answer is what came first.
            answers.append(transport.request("GET", "/api/v1/namespaces", timeout=0.5))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = [one for one in answers if isinstance(one, Answer)]
        assert {one.status for one in told} == {200, 429}
        refused = next(one for one in told if one.status == 429)
        assert json.loads(refused.body)["reason"] == "TooManyRequests"
        assert refused.retry_after == 1.0
        # One that has the time comes again by itself.
        patient = transport.request("GET", "/api/v1/namespaces", timeout=30)
        assert isinstance(patient, Answer)
        assert patient.status == 200
        transport.close()


def test_a_pace_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"found 'fast'; allowed: none, real, or parts"):
        start(tmp_path, options=Options(pace="fast"))
    assert not (tmp_path / "state.json").exists()
