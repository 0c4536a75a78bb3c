"""The section `benchmark`, what an oracle of one may say, and the published table in our files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from pytest_sremut.errors import InputError
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import ContractVerdict, State, Verdict

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT.parent / "shared" / "published"
FIX = PurePosixPath("audits/sregym_missing_service_fix/study.yaml")
NULL = PurePosixPath("audits/null_agent_social_network/study.yaml")
Edit = Callable[..., InputError]


def load(name: str) -> Study:
    return load_study(ROOT, PurePosixPath(f"audits/{name}/study.yaml"))


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Load a study with a text replaced; the error that this gives."""
    import shutil

    for name in ("audits", "mutants", "contracts"):
        shutil.copytree(ROOT / name, tmp_path / name)

    def edited(file: PurePosixPath, old: str, new: str) -> InputError:
        path = tmp_path / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError) as caught:
            load_study(tmp_path, file)
        return caught.value

    return edited


def test_a_study_pins_its_benchmark() -> None:
    study = load("sregym_missing_service_fix")
    pins = study.benchmark
    assert pins is not None
    assert (pins.name, pins.problem_class, pins.imports) == ("sregym", "MissingService", "light")
    assert len(pins.commit) == 40
    assert all(len(digest) == 64 for digest in pins.files.values())
    assert study.needs_benchmark("embedded")
    second = study.oracle("O2")
    assert (second.absent, second.diagnostic) == (
        ("expected_service_port",),
        "_run_connectivity_probe",
    )
    assert study.oracle("O4").of == ("O1", "O3")


def test_a_profile_may_name_another_fault_and_noise() -> None:
    study = load("null_agent_social_network")
    assert study.fault_of("embedded") == "delete-service-and-recycle-pods"
    assert study.fault_of("benchmark-injector") == "sregym:missing_service"
    needing = {name for name in study.profiles if study.needs_benchmark(name)}
    assert needing == {"benchmark-injector", "kind-benchmark-injector"}
    assert study.profiles["noise"].chaos_kills == 5
    assert study.profiles["embedded"].chaos_kills == 0
    assert study.profiles["zero-delay"].settle == 0.0


def test_our_own_studies_need_no_benchmark() -> None:
    for name in ("missing_service_social_network", "pinned_endpoints_social_network"):
        study = load(name)
        assert study.benchmark is None
        assert not any(study.needs_benchmark(profile) for profile in study.profiles)


@pytest.mark.parametrize(
    ("file", "old", "new", "place", "found", "allowed"),
    [
        (FIX, "  name: sregym\n", "  name: other\n", "oracles.O1.use", "sregym:MitigationOracle",
         "other:NAME, the one pinned"),
        (FIX, "  commit: ba07", "  commit: BA07", "benchmark.commit", "BA07", "a commit, 40"),
        (FIX, "    sregym/service/kubectl.py: ", "    ../kubectl.py: ", "benchmark.files",
         "../kubectl.py", "a path inside the checkout"),
        (FIX, "problem_class: MissingService", "problem_class: Missing Service",
         "benchmark.problem_class", "Missing Service", "a Python name"),
        (FIX, "  imports: light\n", "  imports: light\n  probes: {app: x}\n", "benchmark.probes",
         "a mapping", "a list"),
        (FIX, "  imports: light\n", "  imports: light\n  probes: [{}]\n", "benchmark.probes[0]",
         "0 entries", "at least one"),
        (FIX, "  imports: light\n", "  imports: light\n  probes: [{app: 'a b'}]\n",
         "benchmark.probes[0].app", "a b", "a label's value"),
        (FIX, "  imports: light\n", "  imports: light\n  probes: [{-app: a}]\n",
         "benchmark.probes[0]", "-app", "a label's key"),
        (FIX, "imports: light", "imports: heavy", "benchmark.imports", "heavy", "light, full"),
        (FIX, "instruments: [own]", "instruments: [own, isolated]", "oracles.O1",
         "isolated for sregym:MitigationOracle", "own, pinned"),
        (FIX, '"sregym:MitigationOracle"', '"reference:pods-and-deployments"', "oracles.O1",
         "own for reference:pods-and-deployments", "in-process, isolated"),
        (FIX, '"sregym:MitigationOracle"}', '"python:a.b:C", instruments: [own, isolated]}',
         "oracles.O1", "own, isolated for python:a.b:C", "own and pinned for a benchmark's class"),
        (FIX, "absent: [expected_service_port]",
         "absent: [expected_service_port]\n    problem: {expected_service_port: 1}",
         "oracles.O2.absent", "expected_service_port, which `problem` gives", "does not have"),
        (FIX, "diagnostic: _run_connectivity_probe", "diagnostic: run it", "oracles.O2.diagnostic",
         "run it", "a Python name"),
        (FIX, "fault: delete-service-and-recycle-pods", "fault: other:x", "fault", "other:x",
         "sregym:NAME"),
        (NULL, 'fault: "sregym:missing_service"', 'fault: "other:x"',
         "profiles.benchmark-injector.fault", "other:x", "sregym:NAME, the one pinned"),
        (FIX, "application: demo:social-network", "application: other:shop", "application",
         "other:shop", "BENCHMARK:NAME of the benchmark that is pinned"),
        (FIX, "application: demo:social-network", "application: sregym:a/b", "application",
         "sregym:a/b", "BENCHMARK:NAME"),
        (NULL, "chaos: {kill: 5}", "chaos: {kill: 0}", "profiles.noise.chaos.kill", "0", "1"),
        (NULL, '"reference:pods-and-deployments"}',
         '"reference:pods-and-deployments", diagnostic: look}', "oracles.O1.diagnostic",
         "`diagnostic` for reference:pods-and-deployments", "a benchmark's class"),
        (NULL, '"reference:pods-and-deployments"}',
         '"reference:pods-and-deployments", capture_baseline: false}',
         "oracles.O1.capture_baseline", "`capture_baseline`", "a benchmark's class"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_place_found_and_allowed(
    edit: Edit, file: PurePosixPath, old: str, new: str, place: str, found: str, allowed: str
) -> None:
    error = edit(file, old, new)
    assert error.file == str(file)
    assert error.place.startswith(place), error
    assert found in error.found, error
    assert allowed in error.allowed, error


def test_a_class_may_not_be_made_of_graders_of_ours(edit: Edit) -> None:
    error = edit(
        FIX,
        '  O1: {use: "sregym:MitigationOracle"}\n',
        '  O1: {use: "reference:pods-and-deployments", instruments: [isolated]}\n',
    )
    assert error.place.startswith("oracles.O4.of[0]")
    assert "O1, which is reference:pods-and-deployments" in error.found


def test_a_benchmark_that_is_not_pinned(edit: Edit) -> None:
    path = PurePosixPath("audits/missing_service_social_network/study.yaml")
    error = edit(path, '"reference:pods-and-deployments"}', '"sregym:X", instruments: [own]}')
    assert error.found == "sregym:X without a section `benchmark`"


# -- the published table ---------------------------------------------------------------------------


def published(name: str) -> dict:  # type: ignore[type-arg]
    path = PUBLISHED / name
    if not path.is_file():
        pytest.skip("the published figures are not here")
    value: dict = json.loads(path.read_text())  # type: ignore[type-arg]
    return value


def test_the_fix_studys_predictions_are_the_published_table_cell_for_cell() -> None:
    table = published("fix_oracle_study.json")["predicted_and_observed"]
    study = load("sregym_missing_service_fix")
    assert study.predictions is not None
    said = {
        name: {
            state if state != "faulted" else mutant: verdict is Verdict.ACCEPT
            for (mutant, state, oracle), verdict in study.predictions.oracles.items()
            if oracle == name
        }
        for name in table
    }
    assert said == table
    assert sum(len(row) for row in table.values()) == 20


def test_the_fix_study_asks_for_what_was_published() -> None:
    figures = published("fix_oracle_study.json")
    study = load("sregym_missing_service_fix")
    readings = len(study.mutants) * len(study.states) * len(study.oracles) * study.repetitions
    assert readings == figures["barriers"]["checks"]
    diagnosed = [oracle for oracle in study.oracles if oracle.diagnostic]
    calls = len(study.mutants) * len(study.states) * len(diagnosed)
    assert calls == figures["diagnostics"]["direct_probe_calls"]


def test_the_mutant_studys_predictions_are_the_published_readings() -> None:
    figures = published("mutant_study.json")
    study = load("sregym_missing_service")
    assert study.predictions is not None
    assert study.benchmark is not None
    assert study.benchmark.commit == figures["pins"]["sregym_commit"]
    for file, digest in figures["pins"]["oracle_sha256"].items():
        if file in {"mitigation.py", "service_endpoint_mitigation.py", "compound.py"}:
            fix = load("sregym_missing_service_fix").benchmark
            assert fix is not None
            assert fix.files[f"sregym/conductor/oracles/{file}"] == digest
    assert set(study.predictions.oracles.values()) == {Verdict.ACCEPT}
    for mutant, row in figures["published"]["per_mutant"].items():
        verdict, violated = study.predictions.contract[mutant, State.FAULTED]
        assert verdict is ContractVerdict.REJECT
        # Repair persistence was declared out of scope there.
        assert violated == {*row["violated"], "MS-I6"}


def test_hand_pinned_endpoints_are_predicted_as_recorded() -> None:
    study = load("sregym_pinned_endpoints")
    assert study.predictions is not None
    grid = ROOT.parent / "shared" / "k8s-golden" / "oracles-v1.36.2" / "fix-grid.json"
    if not grid.is_file():
        pytest.skip("the recordings are not here")
    row = next(r for r in json.loads(grid.read_text())["sequence"] if r["state"] == "M04")
    for oracle in study.oracles:
        said = study.predictions.oracles["MS-M04", State.FAULTED, oracle.id]
        assert (said is Verdict.ACCEPT) is row[oracle.id]["success"]
