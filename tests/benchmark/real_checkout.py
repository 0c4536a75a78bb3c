"""The real benchmark, where a checkout of it is named, and its oracles as the studies pin them.

Nothing of it lies in this repository: without `SREMUT_BENCHMARK` these tests are skipped, and the
last lines of the session say how many ran.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path, PurePosixPath

import pytest

from pytest_sremut.cluster.port import Cluster
from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.benchmark.layout import SREGYM
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import BenchmarkPins, OracleSpec, Study, Target
from pytest_sremut.study.names import Imports, Instrument

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "k8s-golden"
TARGET = Target(
    kind="Service",
    name="user-service",
    workload_kind="Deployment",
    workload_name="user-service",
    port=9090,
)
O1 = OracleNode(id="O1", use="sregym:MitigationOracle")
ENDPOINT = "sregym:ServiceEndpointMitigationOracle"
O2 = OracleNode(id="O2", use=ENDPOINT, absent=("expected_service_port",))
O3 = OracleNode(id="O3", use=ENDPOINT, problem={"expected_service_port": 9090})
O4 = OracleNode(id="O4", use="sregym:CompoundedOracle", of=(O1, O3))
ORACLES = {
    "O1": O1,
    "O2": O2,
    "O3": O3,
    "O4": O4,
    "TP": OracleNode(id="TP", use="sregym:TargetPortMisconfigMitigationOracle"),
    "DNS": OracleNode(id="DNS", use="sregym:DNSResolutionMitigationOracle"),
    "DR": OracleNode(id="DR", use="sregym:DeploymentReadinessOracle"),
    "SPZ": OracleNode(id="SPZ", use="sregym:ScalePodZeroMitigationOracle"),
}


def checkout() -> Path:
    """The checkout that was named; skips the test without one."""
    named = os.environ.get("SREMUT_BENCHMARK", "")
    if not named:
        pytest.skip("SREMUT_BENCHMARK names no checkout")
    return Path(named)


def corpus(folder: str) -> Path:
    """A folder of the recorded corpus; skips the test without."""
    path = CORPUS / folder
    if not path.is_dir():
        pytest.skip("the golden corpus is not here")
    return path


def study(name: str) -> Study:
    """A study of this repository."""
    return load_study(ROOT, PurePosixPath(f"audits/{name}/study.yaml"))


def pins(imports: Imports = Imports.LIGHT) -> BenchmarkPins:
    """What the studies pin, and the further oracles that only these tests read, as they are."""
    known = study("sregym_missing_service_fix").benchmark
    assert known is not None
    here = Checkout(checkout(), SREGYM)
    specs = [
        OracleSpec(id=node.id, use=node.use, instruments=("own",)) for node in ORACLES.values()
    ]
    more = {file: here.digest(file) for file in here.oracle_files(specs)}
    return dataclasses.replace(known, files={**more, **known.files}, imports=imports.value)


INSTRUMENTS = {
    "own": "",
    "pinned": "SREMUT_BENCHMARK_PYTHON",
    "full": "SREMUT_BENCHMARK_FULL_PYTHON",
}
"""Name -> the variable that names its interpreter. `full` is `pinned` with everything imported that
the benchmark itself imports, which takes an interpreter with all of its dependencies.
"""


class RealInstrument(BenchmarkInstrument):
    """An instrument on the real checkout, and the pins that it reads under.

    Args:
        name: One of `INSTRUMENTS`.
        python: Its interpreter; ours where empty.
    """

    def __init__(self, name: str, python: str) -> None:
        super().__init__(
            Instrument.PINNED if python else Instrument.OWN,
            directory=checkout(),
            layouts={"sregym": SREGYM},
            python=python or sys.executable,
        )
        self.pins = pins(Imports.FULL if name == "full" else Imports.LIGHT)


def instrument(name: str = "own") -> RealInstrument:
    """One of `INSTRUMENTS`; skips where its interpreter is not named."""
    variable = INSTRUMENTS[name]
    python = os.environ.get(variable, "") if variable else ""
    if variable and not python:
        pytest.skip(f"{variable} names no interpreter")
    return RealInstrument(name, python)


class Grader:
    """Reads oracles on one namespace, with the baseline that each captured while it was healthy."""

    def __init__(self, cluster: Cluster, namespace: str, by: RealInstrument) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._by = by
        self._pins = by.pins
        self._captured: dict[str, object] = {}

    def capture(self, *names: str) -> None:
        for name in names:
            self._captured[name] = self._by.capture(self._request(name))

    def read(self, name: str) -> Reading:
        captured = self._captured.get(name, {})
        return self._by.read(dataclasses.replace(self._request(name), captured=captured))

    def _request(self, name: str) -> ReadingRequest:
        return ReadingRequest(
            oracle=ORACLES[name],
            kubeconfig=str(self._cluster.kubeconfig),
            context=self._cluster.context,
            cluster_uid=self._cluster.identity().kube_system_uid,
            namespace=self._namespace,
            target=TARGET,
            baseline={},
            timeout=300.0,
            benchmark=self._pins,
        )
