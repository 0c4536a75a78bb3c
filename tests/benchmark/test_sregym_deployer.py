"""SREGym's own deployer, unmodified, with a real Helm: what it makes, and that it is taken away.

Its images are nowhere to be had here, so its wait for ready pods is cut off; what it applied
stands there all the same. `SREMUT_BENCHMARK` must have its submodule of applications checked out,
and `helm` and `kubectl` must be on PATH.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
from real_checkout import TARGET, checkout, instrument, study

from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.port import Failed, Kind, KubeApi, ObjectRef, Present
from pytest_sremut.demo.roles import NAMES
from pytest_sremut.embedded import EmbeddedCluster, up
from pytest_sremut.engine.steps.deployer import unlike
from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.request import OracleNode, ReadingRequest

pytestmark = pytest.mark.real_benchmark
CHART = "SREGym-applications/socialNetwork/helm-chart/socialnetwork"
NS = "social-network"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    for name in ("helm", "kubectl"):
        needs.located(name)
    if not (checkout() / CHART / "Chart.yaml").is_file():
        pytest.skip(f"not here: {CHART}")
    with up(name="deployer", directory=tmp_path_factory.mktemp("cluster"), images={}) as made:
        yield made


def names(api: KubeApi, kind: Kind) -> set[str]:
    listing = api.list(kind, NS)
    assert not isinstance(listing, Failed), listing
    return {item["metadata"]["name"] for item in listing.items}


def test_what_it_deploys_is_what_the_studies_are_about(cluster: EmbeddedCluster) -> None:
    api = load(cluster.kubeconfig, cluster.context)
    runs = instrument("pinned")
    deployer = runs.deployer("sregym")
    assert deployer.problem(runs.pins, "social_network") == ""
    request = ReadingRequest(
        oracle=OracleNode(id="social_network", use=""),
        kubeconfig=str(cluster.kubeconfig),
        context=cluster.context,
        cluster_uid="",
        namespace=NS,
        target=TARGET,
        baseline={},
        timeout=30.0,
        benchmark=runs.pins,
    )
    try:
        deployer.operate("remove", request, "social_network")  # nothing of it is there
        with pytest.raises(HarnessError, match=r"^deploy social_network did not end within 30 s"):
            deployer.operate("deploy", request, "social_network")
        assert names(api, "Deployment") == set(NAMES)
        assert names(api, "Service") == set(NAMES)
        target = api.get(ObjectRef(kind="Service", namespace=NS, name=TARGET.name))
        assert isinstance(target, Present)
        captured = study("sregym_missing_service").registry.captured
        assert unlike(target.body, captured) == ""

        deployer.operate("remove", request, "social_network")
        assert names(api, "Deployment") == names(api, "Service") == set()
        deployer.operate("remove", request, "social_network")  # and once more
    finally:
        runs.close()
    assert status(checkout()) == ""


def status(directory: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(directory), "status", "--porcelain", "--ignored"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
