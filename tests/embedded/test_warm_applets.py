"""A program of ours does the same whether a command or a shell starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from real_cluster import Pods, core, start

from pytest_sremut.embedded import Options

HTTP = "http://kubernetes.default.svc.cluster.local:1/"

COMMANDS = [
    ("nslookup", "kubernetes.default.svc.cluster.local"),
    ("nslookup", "nobody.default.svc.cluster.local"),
    ("nslookup", "-no-such-option", "x"),
    ("nslookup",),
    ("nc", "-z", "-w", "3", "kubernetes.default.svc.cluster.local", "443"),
    ("nc", "-zv", "-w", "3", "kubernetes.default.svc.cluster.local", "443"),
    ("nc", "-z", "-w", "1", "nobody", "1"),
    ("nc", "-w", "3", "kubernetes.default", "443", "-e", "env"),
    ("nc", "-x"),
    ("wget", "-T", "2", "-qO-", "http://nobody/"),
    ("wget", "--no-such-option"),
    ("wget",),
]


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with start(tmp_path_factory.mktemp("cluster"), options=Options(tools="own")) as running:
        api = core(running)
        found = Pods(api, "warm")
        found.create("one", "sleep", "36000")
        found.ready("one")
        yield found
        api.api_client.close()


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_started_directly_and_by_a_shell(pods: Pods, argv: tuple[str, ...]) -> None:
    warm = pods.run("one", *argv)
    cold = pods.run("one", "sh", "-c", '"$@"', "sh", *argv)
    assert warm == cold


def test_one_runs_under_its_own_name_and_ends_with_its_container(pods: Pods) -> None:
    pods.create("listener", "nc", "-lk", "-p", "7777", "-e", "cat", "/proc/1/comm")
    pods.ready("listener")
    address = pods.api.read_namespaced_pod("listener", pods.namespace).status.pod_ip
    for _ in range(2):
        assert pods.run("one", "sh", "-c", f"nc -w 5 {address} 7777 </dev/null") == (0, "nc\n", "")
