"""The main job for real: every mutant on the embedded cluster, by each way to distribute it.

Three whole sessions do most of the work: one in a single process; one on two workers with the other
way to route Services; and one on a cluster that is somebody else's, by an account that may do the
least, with the small application, of which all is judged the same. Everything else is asked of what
they left behind. Sessions mostly wait, so two run side by side.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import contexts
import pytest
from quick import HOW, MAIN, PINNED, Result, make_project, require_clusters, run, session
from small import make_small

from pytest_sremut.cluster import rbac
from pytest_sremut.cluster.port import Right
from pytest_sremut.embedded.meta.resources import GROUPS

pytestmark = pytest.mark.usefixtures("clusters")

VIOLATED = {
    "ms-m01": "MS-I1 MS-I2 MS-I3 MS-I4 MS-I6",
    "ms-m02": "MS-I2 MS-I3 MS-I4 MS-I6",
    "ms-m03": "MS-I2 MS-I4 MS-I6",
    "ms-m04": "MS-I6",
}
ACCEPT = "in-process=ACCEPT isolated=ACCEPT"
REJECT = "in-process=REJECT isolated=REJECT"


@pytest.fixture(scope="module")
def clusters() -> None:
    require_clusters()


NODE = f"audits/{PINNED}/study.yaml::test_cell[ms-m04-r01-healthy-O3]"


Asked = set[tuple[str, str, str, str, bool]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """What the account that may do the least asked the API for; filled by the session."""
    return set()


@pytest.fixture(scope="module")
def sessions(
    clusters: None, asked: Asked, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    """Whole sessions and parts, two side by side."""

    def project(name: str) -> Path:
        return make_project(tmp_path_factory.mktemp(name))

    def small(name: str) -> Path:
        return make_small(tmp_path_factory.mktemp(name), pinned=True)

    everything = ("-m", "mutant", "--sremut-fail-under=0", *HOW["no xdist"])
    some = ("-m", "mutant", "-k", "ms-m01 and (faulted or (restored and contract))")
    strict = ("--sremut-require=soundness", "--sremut-fail-under=50", *HOW["-n0"])
    node = (NODE, "--sremut-fail-under=0", *HOW["no xdist"])
    two = ("-m", "mutant", "-v", "--sremut-embedded=routing=forwarder", *HOW["-n2"])
    found: dict[str, Result] = {}
    with session(project("whole"), *everything) as whole:
        with contexts.theirs(tmp_path_factory.mktemp("theirs")) as cluster:
            there = (*everything, *contexts.OPTIONS)
            found["context"] = run(small("context"), *there, environment=cluster.environment)
            asked |= cluster.asked()
        found["whole"] = whole.end()
        assert whole.left() == []
    with session(project("distributed"), *two) as distributed:
        found["node"] = run(small("node"), *node)
        found["some"] = run(small("some"), *some, *strict)
        found["distributed"] = distributed.end()
        assert distributed.left() == []
    return found


@pytest.fixture(scope="module")
def context(sessions: dict[str, Result]) -> Result:
    """Every run, on somebody else's cluster, with the shipped manifest's rights alone."""
    return sessions["context"]


@pytest.fixture(scope="module")
def whole(sessions: dict[str, Result]) -> Result:
    """Every run, in one process; no score is too low."""
    return sessions["whole"]


@pytest.fixture(scope="module")
def distributed(sessions: dict[str, Result]) -> Result:
    """Every run, on two workers, each with a cluster that routes by the forwarder."""
    return sessions["distributed"]


@pytest.fixture(params=["whole", "distributed", "context"])
def result(request: pytest.FixtureRequest) -> Result:
    found: Result = request.getfixturevalue(request.param)
    return found


def expected() -> dict[str, tuple[str, str]]:
    """What every instrument says of every cell, and what is violated in its state."""
    cells = {}
    for mutant, violated in VIOLATED.items():
        for state in ("healthy", "faulted", "restored"):
            told = violated if state == "faulted" else ""
            for oracle in ("O1", "O3", "O4"):
                seen = oracle == "O1" or not told or mutant == "ms-m04"
                cells[f"{mutant}-r01-{state}-{oracle}"] = (ACCEPT if seen else REJECT, told)
            verdict = "contract=REJECT" if told else "contract=PASS"
            cells[f"{mutant}-r01-{state}-contract"] = (verdict, told)
    return cells


def test_every_verdict_is_the_recorded_one(result: Result) -> None:
    assert result.code == 0, result.out
    assert result.verdicts() == expected()
    assert "48 passed" in result.out


def test_what_a_cell_says_of_itself(result: Result) -> None:
    for cell, properties in result.cells().items():
        run_id, state, oracle = re.fullmatch(r"(ms-m\d+-r\d+)-(\w+)-(\w+)", cell).groups()  # type: ignore[union-attr]
        wanted = {
            "sremut.study": PINNED if run_id == "ms-m04-r01" else MAIN,
            "sremut.run": run_id,
            "sremut.mutant": run_id.split("-r")[0].upper(),
            "sremut.state": state,
            "sremut.oracle": oracle,
            "sremut.attempt": "1",
            "sremut.registration": "EXPLORATORY",
        }
        assert {key: properties[key] for key in wanted} == wanted
        assert properties["sremut.predicted"] in properties["sremut.observed"]
        assert Path(properties["sremut.evidence"]).is_dir()
        faulted = {"SURVIVED", "KILLED"}
        assert properties["sremut.fate"] in (faulted if state == "faulted" else {"ACCEPTED"})
        survives = oracle == "O1" or (run_id == "ms-m04-r01" and oracle != "contract")
        if state == "faulted":
            assert properties["sremut.fate"] == ("SURVIVED" if survives else "KILLED")


def test_all_that_must_be_equal_is_equal(whole: Result, distributed: Result) -> None:
    def told(result: Result) -> dict[str, dict[str, str]]:
        own = {"sremut.evidence"}
        return {
            cell: {key: value for key, value in properties.items() if key not in own}
            for cell, properties in result.cells().items()
        }

    assert told(whole) == told(distributed)
    assert sections(whole.out) == sections(distributed.out)


def sections(text: str) -> list[str]:
    """The summary without measured numbers and places: everything but the workload."""
    lines = text[text.index("= sremut: ") :].splitlines()
    kept, skip = [], False
    for line in lines:
        skip = line.startswith("workload over") or (skip and bool(line.strip()))
        if not skip and not re.match(r"evidence: |[-=]+( generated xml| \d+ passed|$)", line):
            kept.append(line)
    return kept


def test_the_ledger_and_the_records(result: Result) -> None:
    attempts = result.attempts()
    assert {(a["study"], a["run"], a["attempt"], a["outcome"]) for a in attempts} == {
        (PINNED if m == "ms-m04" else MAIN, f"{m}-r01", 1, "COMPLETE") for m in VIOLATED
    }
    assert {a["registration"] for a in attempts} == {"EXPLORATORY"}
    for attempt in attempts:
        states = result.states(attempt)
        assert sorted(states) == ["faulted", "healthy", "restored"]
        assert {state["registration"] for state in states.values()} == {"EXPLORATORY"}
        record = json.loads((result.directory(attempt) / "record.json").read_text())
        assert record["registration"] == "EXPLORATORY"
        assert record["facts"]["registration"]["regime"] == "EXPLORATORY"
        assert set(states["faulted"]["timings"]) >= {"inject", "settle", "oracles", "contract"}
        for criterion in states["faulted"]["activation"]:
            assert criterion["holds"], criterion
        assert {c["when"] for c in states["faulted"]["activation"]} == {
            "after-apply",
            "before-oracle",
        }


def test_who_ran_what_where(whole: Result, distributed: Result) -> None:
    def clusters(result: Result) -> dict[str, dict[str, Any]]:
        heads = [json.loads((result.directory(a) / "attempt.json").read_text())
                 for a in result.attempts()]  # fmt: skip
        return {head["run"]: head["cluster"] for head in heads}

    one = clusters(whole)
    assert {cluster["name"].split("-")[1] for cluster in one.values()} == {"main"}
    assert len({cluster["kube_system_uid"] for cluster in one.values()}) == 1
    two = clusters(distributed)
    assert {cluster["name"].split("-")[1] for cluster in two.values()} == {"gw0", "gw1"}
    assert len({cluster["kube_system_uid"] for cluster in two.values()}) == 2
    # The other way to route Services, and the same verdicts.
    assert {cluster["facts"]["routing"]["mode"] for cluster in two.values()} == {"forwarder"}
    # A run stays on one worker: pytest says for each cell who read it.
    workers: dict[str, set[str]] = {}
    for worker, cell in re.findall(
        r"^\[(gw\d)\].* (?:\S+)\[(ms-m\d+-r\d+)-", distributed.out, re.M
    ):
        workers.setdefault(cell, set()).add(worker)
    assert sorted(workers) == [f"{mutant}-r01" for mutant in VIOLATED]
    assert all(len(found) == 1 for found in workers.values())


def test_what_is_told_of_somebody_elses_cluster(context: Result) -> None:
    for attempt in context.attempts():
        head = json.loads((context.directory(attempt) / "attempt.json").read_text())
        cluster = head["cluster"]
        assert (cluster["kind"], cluster["context"]) == ("context", contexts.CONTEXT)
        assert cluster["kube_system_uid"]
        assert cluster["facts"]["nodes"] == "not observable"
        record = json.loads((context.directory(attempt) / "record.json").read_text())
        assert record["facts"]["preflight"]["rights"] == "all that a run needs"
        assert record["facts"]["preflight"]["namespace"].startswith("not ours")
        assert "Node" in record["facts"]["surroundings"]["unread"]
        assert record["facts"]["surroundings"]["changes"] == []


# Of waits that found what they waited for at the first look, there was nothing to watch.
NOTHING_TO_WATCH = {"deployments", "jobs", "services"}


def test_a_run_asks_for_what_the_manifest_grants_and_nothing_else(
    context: Result, asked: Asked
) -> None:
    def rights(found: Iterable[Right]) -> set[tuple[str, str, str, str]]:
        return {(one.verb, one.group, one.resource, one.namespace) for one in found}

    needed = rights(rbac.required(contexts.NAMESPACE))
    # Of kinds that the embedded cluster does not serve nobody is refused anything.
    optional = {
        right for right in rights(rbac.observed(contexts.NAMESPACE)) if right[1] in {"", *GROUPS}
    }
    # Whoever is known may ask what he may do.
    reviews = {("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")}
    allowed = {what[:4] for what in asked if what[4]}
    denied = {what[:4] for what in asked if not what[4]}
    assert allowed - reviews <= needed
    unused = needed - allowed
    assert {(verb, resource) for verb, _, resource, _ in unused} <= {
        ("watch", resource) for resource in NOTHING_TO_WATCH
    }
    # And what only makes a record richer is what was asked for in vain: all of it, and only that.
    assert denied == optional


def windows(result: Result) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (attempt["run"].removesuffix("-r01"), state): record["workload"]
        for attempt in result.attempts()
        for state, record in result.states(attempt).items()
    }


@pytest.fixture(params=["whole", "distributed"])
def loaded(request: pytest.FixtureRequest) -> Result:
    """The sessions whose load goes through the whole application, by either way to route."""
    found: Result = request.getfixturevalue(request.param)
    return found


def test_the_workload(loaded: Result) -> None:
    found = windows(loaded)
    for (mutant, state), workload in found.items():
        assert len(workload["rounds"]) == 10
        assert workload["requests"] == workload["successes"] + workload["failures"]
        rate = 100 * workload["failures"] / workload["requests"]
        if state != "faulted" or mutant == "ms-m04":
            assert workload["failures"] == 0, (mutant, state)
        else:
            # One request in ten is drawn to be compose-post, and every one of them fails. The
            # draws scatter: four standard deviations of a binomial share.
            scatter = 100 * (0.1 * 0.9 / workload["requests"]) ** 0.5
            assert rate == pytest.approx(10, abs=4 * scatter), (mutant, state)


def test_a_service_without_endpoints_collapses_throughput(loaded: Result) -> None:
    """MS-M02: a connect that finds no endpoint is held for a second, and so is its connection."""
    found = windows(loaded)

    def spans(mutant: str, state: str, *, failing: bool = False) -> list[float]:
        rounds = found[(mutant, state)]["rounds"]
        return [float(r["duration"]) for r in rounds if r["failures"] or not failing]

    # A round of 250 ms has a few such connects, and lasts as long as the first. How many requests
    # are left of it is the machine's affair as well: on a busy one there may be none of these.
    assert statistics.median(spans("ms-m02", "faulted", failing=True)) >= 1.0
    for mutant, state in found:
        if (mutant, state) != ("ms-m02", "faulted"):
            assert min(spans(mutant, state)) < 0.7, (mutant, state)


def test_progress_in_letters_and_in_words(whole: Result, distributed: Result) -> None:
    letters = re.sub(r"\s*\[ *\d+%\]\s*", "", whole.out)
    assert "study.yaml ....SKKK........SKKK........SKKK...." in letters
    assert "study.yaml ....SSSK...." in letters
    words = re.findall(r"^\[gw\d\] \[ *\d+%\] (\w+) \S+\[(\S+)\]", distributed.out, re.M)
    assert {cell: word for word, cell in words} == {
        cell: properties["sremut.fate"] for cell, properties in distributed.cells().items()
    }


def test_survivors_come_first_and_can_be_reproduced(result: Result) -> None:
    text = result.out
    first = text.index("survivors (the grader accepted a system that was never repaired)")
    assert first < text.index("verdicts over valid attempts")
    selections = re.findall(r'reproduce: pytest "([^"]+)"', text)
    assert [s.partition("::")[2] for s in selections] == [
        *(f"test_cell[ms-m0{n}-r01-faulted-O1]" for n in (1, 2, 3)),
        *(f"test_cell[ms-m04-r01-faulted-O{n}]" for n in (1, 3, 4)),
    ]
    for selection in (selections[0], selections[-1]):
        again = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "--collect-only",
                "-q",
                selection,
            ],
            cwd=result.project,
            capture_output=True,
            text=True,
            check=True,
        )
        cells = [line for line in again.stdout.splitlines() if "::test_cell[" in line]
        assert [cell.split("[")[1] for cell in cells] == [selection.split("[")[1]]


def test_scores_are_counts_before_percentages(result: Result) -> None:
    rows = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "O1 0 of 3 0.0 % reference:pods-and-deployments" in rows
    assert "O3 3 of 3 100.0 % reference:service-endpoints" in rows
    assert "O4 3 of 3 100.0 % all-of" in rows
    assert f"contract 3 of 3 100.0 % {MAIN}" in rows
    assert "O3 0 of 1 0.0 % reference:service-endpoints" in rows
    assert f"{MAIN}: 3 of 3 runs have a valid attempt; attempts: COMPLETE 3" in rows


# -- selections, requirements, thresholds -------------------------------------------------------


def test_a_part_of_a_run_under_soundness_and_a_threshold(sessions: dict[str, Result]) -> None:
    """States that were not asked for are passed all the same; what is read says the same."""
    result = sessions["some"]
    assert result.code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 4 passed, 43 deselected" in result.out
    assert (
        "in-process: false accept: ACCEPT, while the contract says REJECT "
        "{MS-I1, MS-I2, MS-I3, MS-I4, MS-I6}"
    ) in result.out
    assert "Traceback" not in result.out
    (attempt,) = result.attempts()
    assert (attempt["run"], attempt["outcome"]) == ("ms-m01-r01", "COMPLETE")
    assert sorted(result.states(attempt)) == ["faulted", "healthy", "restored"]
    wanted = expected()
    asked = [cell for cell in wanted if cell.startswith("ms-m01-r01-faulted")]
    assert result.verdicts() == {
        cell: wanted[cell] for cell in [*asked, "ms-m01-r01-restored-contract"]
    }
    assert f"sremut: {MAIN}: O1 killed 0 of 1 mutants (0.0 %), required 50 %" in result.out
    assert "O3 killed" not in result.out


def test_a_node_that_never_comes_to_a_mutant(sessions: dict[str, Result]) -> None:
    """In the healthy state alone nothing is mutated, so there is no score to be had."""
    result = sessions["node"]
    assert "1 passed" in result.out
    assert result.code == pytest.ExitCode.TESTS_FAILED
    for oracle in ("O1", "O3", "O4"):
        assert f"{oracle} killed 0 of 0 mutants (no score), required 0 %" in result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "DRIVER_ABORTED"
    assert "nothing was mutated" in attempt["reason"]
    assert sorted(result.states(attempt)) == ["healthy"]
    journal = (result.directory(attempt) / "journal.jsonl").read_text()
    assert "MUTANT_INJECTED" not in journal
    assert "ABORTED_SAFE" in journal
