"""What only a real cluster meets, met once on the embedded one: slow, throttled, two nodes, wrk2.

One whole run whose load behaves as DeathStarBench's wrk2 does, on a cluster that delays its API,
starts pods slowly, throttles and has two nodes. `docs/real-clusters.md` lists what stands in for
what.
"""

from __future__ import annotations

import json

import pytest
from quick import HOW, MAIN, Result, require_clusters, run
from small import edit, make_small

DEADLINES = "MS-I1: 1500ms, MS-I2: 1500ms, MS-I3: 1500ms, MS-I6: 8s"
PATIENT = "MS-I1: 2s, MS-I2: 2s, MS-I3: 2s, MS-I6: 10s"
SLOW = "pace=delay:10ms,jitter:20ms,pods:300ms-900ms,limit:400,seed:7"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run of a mutant, all states."""
    require_clusters()
    project = make_small(tmp_path_factory.mktemp("real"))
    study = project / "audits" / MAIN / "study.yaml"
    # As DeathStarBench's build in rounds of ten seconds, sooner: a report tells no timeouts and no
    # latency. `tests/embedded/test_calibration.py` has rounds of ten seconds.
    edit(
        study,
        {
            f"{DEADLINES}}}\n    workload: {{rate: 50, duration: 250ms": f"{PATIENT}}}\n"
            "    workload: {rate: 50, duration: 500ms",
            ", timeout: 2s, variant: drain}": ", timeout: 2s, calibration: always}",
        },
    )
    options = ("-m", "mutant", "-k", "ms-m03-r01", "--sremut-fail-under=0", *HOW["no xdist"])
    return run(project, *options, f"--sremut-embedded={SLOW}", "--sremut-embedded=nodes=2")


def test_every_verdict_is_the_predicted_one(result: Result) -> None:
    assert result.code == 0, result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE"
    seen = result.verdicts()
    assert {violated for _, violated in seen.values()} == {"", "MS-I2 MS-I4 MS-I6"}
    assert all("ERROR" not in observed for observed, _ in seen.values())


def test_latencies_that_wrk2_does_not_measure_stop_nothing(result: Result) -> None:
    (attempt,) = result.attempts()
    # When faulted, this small application's load finds no endpoint at all.
    for name in ("healthy", "restored"):
        rounds = result.states(attempt)[name]["workload"]["rounds"]
        assert {one["parse"] for one in rounds} == {"LATENCY_NOT_A_NUMBER"}, name
        assert sum(one["requests"] for one in rounds) > 0


def test_the_record_says_how_slow_it_was(result: Result) -> None:
    (attempt,) = result.attempts()
    record = json.loads((result.directory(attempt) / "record.json").read_text())
    facts = record["cluster"]["facts"]
    assert facts["pace"]["api_limit"] == 400
    assert facts["pace"]["seed"] == 7
    assert sorted(facts["nodes"]) == ["node-1", "node-2"]
