"""The load generator on the whole application, both real: 60/30/10, and a lost user-service."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from fleet import Fleet

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.load import run_round
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Plan, Variant
from pytest_sremut.workload.totals import Endpoint, Totals

PLAN = Plan(
    connections=3,
    threads=3,
    rate=200.0,
    duration=1.0,
    timeout=20.0,
    variant=Variant.DRAIN,
    kinds=(
        Kind("read-home-timeline", "/wrk2-api/home-timeline/read", 60),
        Kind("read-user-timeline", "/wrk2-api/user-timeline/read", 30),
        Kind("compose-post", "/wrk2-api/post/compose", 10),
    ),
)


def load(fleet: Fleet) -> Totals:
    port = fleet.ports["nginx-thrift"]
    endpoint = Endpoint(host="127.0.0.1", port=port, address=("127.0.0.1", port))
    return asyncio.run(run_round(PLAN, endpoint, Draws(PLAN, 1, 1), asyncio.Event()))


def test_the_mix_reaches_user_service_through_compose_post_alone() -> None:
    with Fleet() as fleet:
        healthy = load(fleet)
        assert healthy.failed == healthy.socket_errors == 0
        # A machine that stalls may send fewer than 200. Each kind is drawn: five deviations.
        asked = healthy.completed
        assert asked >= 20
        for kind, counts in zip(PLAN.kinds, healthy.kinds, strict=True):
            share = kind.weight / 100
            scatter = (asked * share * (1 - share)) ** 0.5
            assert abs(counts.completed - asked * share) <= 5 * scatter + 1, kind.name

        assert fleet.stop("user-service") == 0
        faulted = load(fleet)
        assert faulted.socket_errors == 0
        assert [kind.failed for kind in faulted.kinds[:2]] == [0, 0]
        assert faulted.kinds[2].failed == faulted.kinds[2].completed >= 2

        fleet.start("user-service")
        restored = load(fleet)
        assert restored.failed == restored.socket_errors == 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs smaps_rollup")
def test_27_forked_services_share_their_memory() -> None:
    with Fleet() as fleet:
        load(fleet)
        total = 0
        for pid in fleet.pids.values():
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            match = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
            assert match is not None
            total += int(match[1])
    assert total <= 300 * 1024
