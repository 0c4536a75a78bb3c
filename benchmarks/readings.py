"""What an isolated reading costs over an in-process one, on the embedded cluster.

    python benchmarks/readings.py [--repeat 10]

Prints JSON: median wall seconds of a reading of each oracle by each instrument (the call as the
engine makes it, not the time inside the oracle), and their difference. The two alternate.

Where `SREMUT_BENCHMARK` names a checkout, also what `own` costs over the time inside the
benchmark's oracle, and `pinned` where `SREMUT_BENCHMARK_PYTHON` names its interpreter; both warm.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.cluster.embedded import EmbeddedBackend
from pytest_sremut.cluster.waiting import deployments_ready, wait_for
from pytest_sremut.demo.manifests import manifests
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.benchmark.layout import SREGYM
from pytest_sremut.oracles.instruments import InProcess, Isolated
from pytest_sremut.oracles.request import ReadingRequest, oracle_tree
from pytest_sremut.study.load import load_study
from pytest_sremut.study.names import Instrument
from pytest_sremut.study.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
STUDY = PurePosixPath("audits/missing_service_social_network/study.yaml")
FIX_STUDY = PurePosixPath("audits/sregym_missing_service_fix/study.yaml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    repeat = parser.parse_args().repeat
    study = load_study(ROOT, STUDY)
    cluster = EmbeddedBackend.start(name="bench")
    instruments = (InProcess(), Isolated())
    try:
        cluster.fit_for_verdicts(timeout=30)
        cluster.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": study.namespace}},
            namespace="",
        )
        bodies = manifests(study.namespace)
        for body in bodies:
            cluster.api.create(body, namespace=study.namespace)
        baseline = {b["metadata"]["name"]: 1 for b in bodies if b["kind"] == "Deployment"}
        wait_for(
            cluster.api, "Deployment", study.namespace, deployments_ready(baseline), timeout=60
        )
        specs = {spec.id: spec for spec in study.oracles}
        figures: dict[str, dict[str, float]] = {}
        for spec in study.oracles:
            request = ReadingRequest(
                oracle=oracle_tree(spec, specs),
                kubeconfig=str(cluster.kubeconfig),
                context=cluster.context,
                cluster_uid=cluster.identity().kube_system_uid,
                namespace=study.namespace,
                target=study.target,
                baseline=baseline,
                timeout=60,
            )
            seconds: dict[str, list[float]] = {item.name: [] for item in instruments}
            for _ in range(repeat):
                for instrument in instruments:
                    begun = time.perf_counter()
                    reading = instrument.read(request)
                    seconds[instrument.name].append(time.perf_counter() - begun)
                    assert reading.verdict is Verdict.ACCEPT, reading
            medians = {name: statistics.median(values) for name, values in seconds.items()}
            figures[spec.id] = {
                **{name.replace("-", "_"): round(value, 4) for name, value in medians.items()},
                "isolated_over_in_process": round(medians["isolated"] - medians["in-process"], 4),
            }
        overheads = benchmark_overheads(cluster, baseline, repeat)
    finally:
        for instrument in instruments:
            instrument.close()
        cluster.close()
    told = {"benchmark": "readings", "repeats": repeat, "seconds": figures}
    print(json.dumps({**told, "over_the_oracles_own_time": overheads}, indent=2))


def benchmark_overheads(
    cluster: EmbeddedBackend, baseline: dict[str, int], repeat: int
) -> dict[str, dict[str, float]]:
    """Oracle -> instrument -> median seconds of a reading over the time inside the oracle."""
    named = os.environ.get("SREMUT_BENCHMARK", "")
    if not named:
        return {}
    study = load_study(ROOT, FIX_STUDY)
    specs = {spec.id: spec for spec in study.oracles}
    common: Any = {"directory": Path(named), "layouts": {SREGYM.name: SREGYM}}
    instruments = [BenchmarkInstrument(Instrument.OWN, **common)]
    if python := os.environ.get("SREMUT_BENCHMARK_PYTHON", ""):
        instruments.append(BenchmarkInstrument(Instrument.PINNED, python=python, **common))
    found: dict[str, dict[str, float]] = {}
    try:
        for spec in study.oracles:
            request = ReadingRequest(
                oracle=oracle_tree(spec, specs),
                kubeconfig=str(cluster.kubeconfig),
                context=cluster.context,
                cluster_uid=cluster.identity().kube_system_uid,
                namespace=study.namespace,
                target=study.target,
                baseline=baseline,
                timeout=300,
                benchmark=study.benchmark,
            )
            for instrument in instruments:
                instrument.prepare(study)
                instrument.problems(study)
                over = []
                for _ in range(repeat):
                    begun = time.perf_counter()
                    reading = instrument.read(request)
                    over.append(time.perf_counter() - begun - reading.elapsed)
                key = instrument.name
                found.setdefault(spec.id, {})[key] = round(statistics.median(over), 4)
    finally:
        for instrument in instruments:
            instrument.close()
    return found


if __name__ == "__main__":
    main()
