"""The workflows and the action: what they call is there, and nothing given to them is executed.

Whether they are well-formed and safe by the rules of their trade, the linters in `.ci/run` say.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from pytest_sremut.cluster.kind.settings import pins
from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ledger.baseline.document import grader_of, read_baseline
from pytest_sremut.study.cells import runs
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
ACTION = GITHUB / "actions" / "sremut"
FILES = [*sorted((GITHUB / "workflows").glob("*.yml")), ACTION / "action.yml"]
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def loaded(file: Path) -> dict[str, Any]:
    value = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from mappings(inner)


def inputs_of(target: str) -> Mapping[str, Any]:
    """The inputs that an action or a reusable workflow of this repository declares."""
    place = ROOT / target.removeprefix("$/")
    document = loaded(place if place.is_file() else place / "action.yml")
    # YAML 1.1 reads the key `on` as true.
    found = document[True]["workflow_call"] if place.is_file() else document  # type: ignore[index]
    inputs = found["inputs"]
    assert isinstance(inputs, dict)
    return inputs


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_other_peoples_actions_are_pinned_by_commit(file: Path) -> None:
    used = re.findall(r"uses: (.+)", file.read_text(encoding="utf-8"))
    assert used
    for one in used:
        assert one.startswith("$/") or PINNED.fullmatch(one), one


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_handed_over_is_asked_for(file: Path) -> None:
    for step in mappings(loaded(file)):
        if str(step.get("uses", "")).startswith("$/"):
            inputs = inputs_of(step["uses"])
            given = set(step.get("with", {}))
            assert given <= set(inputs)
            assert {name for name, one in inputs.items() if one.get("required")} <= given


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_expression_becomes_a_part_of_a_command(file: Path) -> None:
    for step in mappings(loaded(file)):
        if isinstance(step.get("run"), str):  # and not a job of that name
            assert "${{" not in step["run"]


@pytest.mark.parametrize("file", FILES[:-1], ids=lambda file: file.name)
def test_a_workflow_may_read_and_ends_by_itself(file: Path) -> None:
    document = loaded(file)
    assert document["permissions"] == {"contents": "read"}
    for job in document["jobs"].values():
        assert "uses" in job or "timeout-minutes" in job


# -- nightly --------------------------------------------------------------------------------------


def studies() -> list[Study]:
    files = sorted((ROOT / "audits").glob("*/study.yaml"))
    return [load_study(ROOT, file.relative_to(ROOT)) for file in files]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def nightly() -> Mapping[str, Any]:
    """What nightly hands to the reusable workflow."""
    given = loaded(GITHUB / "workflows" / "nightly.yml")["jobs"]["audit"]["with"]
    assert isinstance(given, dict)
    return given


def test_nightly_checks_out_the_benchmark_that_the_studies_pin(
    nightly: Mapping[str, Any],
) -> None:
    pinned = {study.benchmark.commit for study in studies() if study.benchmark is not None}
    assert pinned == {nightly["benchmark-ref"]}


def test_nightly_proves_the_path_with_one_run_before_the_matrix_starts() -> None:
    jobs = loaded(GITHUB / "workflows" / "nightly.yml")["jobs"]
    assert jobs["audit"]["needs"] == "first"
    (step,) = [s for s in jobs["first"]["steps"] if str(s["uses"]).startswith("$/")]
    given = step["with"]
    assert (given["phase"], given["cluster"], given["require"]) == ("run", "kind", "predictions")
    assert "profile" not in given  # the one that is named after the cluster
    study = load_study(ROOT, PurePosixPath(given["path"]) / "study.yaml")
    assert [run.id for run in runs(study) if given["keyword"] in run.id] == [given["keyword"]]


def test_nightlys_baseline_speaks_of_every_study_as_it_stands(nightly: Mapping[str, Any]) -> None:
    baseline = read_baseline(ROOT / nightly["baseline"])
    for study in studies():
        held, remarks = baseline.studies[study.id].applying(
            files=file_digests(ROOT, study.frozen),
            oracles={spec.id: grader_of(spec.use, spec.of) for spec in study.oracles},
        )
        assert remarks == []
        assert set(held.scores) == {*(spec.id for spec in study.oracles), "contract"}


# -- the action's script --------------------------------------------------------------------------

FAKE = """#!{python}
import json, os, sys
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit(int(os.environ.get("PYTEST_EXIT", "0")))
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """`audit.sh` in a workspace of its own, with a pytest that only notes how it is called."""

    root: Path

    def run(
        self, phase: str, *, exit_code: int = 0, **inputs: str
    ) -> subprocess.CompletedProcess[str]:
        declared = loaded(ACTION / "action.yml")
        step = declared["runs"]["steps"][-1]
        given = {name: one["default"] for name, one in declared["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        environment = {"PYTHON": sys.executable, "BENCHMARK_PYTHON": inputs.get("own", "")}
        for name, expression in step["env"].items():
            match = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", expression)
            if match:
                environment[name] = given[match[1]]
        environment |= {
            "PHASE": phase,
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(self.root / "temp"),
            "GITHUB_OUTPUT": str(self.root / "output"),
            "GITHUB_STEP_SUMMARY": str(self.root / "summary"),
            "CALLS": str(self.root / "calls"),
            "PYTEST_EXIT": str(exit_code),
        }
        return subprocess.run(
            ["bash", str(ACTION / "audit.sh")],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.root / "calls").read_text().splitlines()]

    def outputs(self) -> dict[str, str]:
        lines = (self.root / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    binaries = tmp_path / "temp" / "sremut-venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "pytest").write_text(FAKE.format(python=sys.executable))
    command = shlex.join([sys.executable, "-m", "pytest_sremut.cli"])
    (binaries / "sremut").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    for file in binaries.iterdir():
        file.chmod(0o755)
    (tmp_path / "project").symlink_to(ROOT)
    return Script(root=tmp_path)


def test_the_plan_is_a_matrix(script: Script) -> None:
    done = script.run("plan", project="project", studies="pinned_endpoints_social_network")
    assert done.returncode == 0, done.stderr
    assert [job["name"] for job in json.loads(script.outputs()["matrix"])["include"]] == [
        "ms-m04-r01"
    ]


def test_a_run_is_called_with_options_that_there_are(
    script: Script, pytester: pytest.Pytester
) -> None:
    (script.root / "p").mkdir()
    done = script.run(
        "run",
        project="p",
        path="audits/one/study.yaml",
        keyword="[ms-m01-r01- or [ms-m02-r01-",
        benchmark="bench",
        own="python",
        profile="kind",
        baseline="known.json",
        pytest_args="--sremut-exploratory  -o sremut_kind_workers=1",
    )
    assert done.returncode == 0, done.stderr
    ((path, *options),) = script.calls()
    assert path == "audits/one/study.yaml"
    assert options == [
        *("-p", "no:cacheprovider", f"--rootdir={script.root}/p", "-o", "sremut_audits=audits"),
        *("--sremut-require=soundness", "--sremut-baseline=known.json", "--sremut-cluster=kind"),
        f"--sremut-evidence={script.root}/temp/evidence",
        *("--sremut-profile=kind", f"--sremut-benchmark={script.root}/bench"),
        f"--sremut-benchmark-python={script.root}/temp/benchmark-venv/bin/python",
        *("-k", "[ms-m01-r01- or [ms-m02-r01-"),
        *("--sremut-exploratory", "-o", "sremut_kind_workers=1"),
    ]
    config = pytester.parseconfig(*options)  # refuses an option that there is not
    assert config.getoption("sremut_baseline") == "known.json"


def test_nothing_that_is_given_is_executed(script: Script) -> None:
    evil = """$(touch a) `touch b` "; touch c; ' && touch d"""
    (script.root / "p").mkdir()
    done = script.run(
        "run", project="p", keyword=evil, profile=evil, cluster=evil, baseline=evil, require=evil
    )
    assert done.returncode == 0, done.stderr
    (call,) = script.calls()
    assert {f"--sremut-{name}={evil}" for name in ("profile", "cluster", "baseline")} <= set(call)
    assert call[call.index("-k") + 1] == evil
    assert sorted(path.name for path in (script.root / "p").iterdir()) == []


def test_adjudication_gathers_every_artefact_and_keeps_the_exit_code(
    script: Script, pytester: pytest.Pytester
) -> None:
    for name in ("evidence-b", "evidence-a"):
        (script.root / "temp" / "evidence" / name / "attempts").mkdir(parents=True)
    (script.root / "temp" / "evidence" / "evidence-c" / "clusters").mkdir(parents=True)
    (script.root / "p").mkdir()
    done = script.run("adjudicate", exit_code=1, project="p", studies="one two")
    assert done.returncode == 1
    assert "::warning::no attempt was begun in evidence-c" in done.stdout
    (call,) = script.calls()
    assert call[:2] == ["audits/one", "audits/two"]
    evidence = [one for one in call if one.startswith("--sremut-evidence")]
    assert [Path(one).name for one in evidence] == ["evidence-a", "evidence-b"]
    assert f"--sremut-report=md:{script.root}/summary" in call
    pytester.parseconfig(*call[2:])


def test_without_evidence_nothing_is_judged(script: Script) -> None:
    (script.root / "p").mkdir()
    done = script.run("adjudicate", project="p")
    assert done.returncode == 1
    assert "::error::there is no evidence to judge" in done.stdout
    assert not (script.root / "calls").exists()


def test_all_runs_and_then_judges_the_same_evidence(script: Script) -> None:
    (script.root / "temp" / "evidence" / "attempts").mkdir(parents=True)
    (script.root / "p").mkdir()
    assert script.run("all", exit_code=1, project="p").returncode == 1
    run, adjudication = script.calls()
    evidence = f"--sremut-evidence={script.root}/temp/evidence"
    assert evidence in run
    assert evidence in adjudication
    assert "--sremut-adjudicate" in adjudication


def test_an_unknown_phase(script: Script) -> None:
    (script.root / "p").mkdir()
    done = script.run("walk", project="p")
    assert done.returncode == 2
    assert "::error::phase: found 'walk'; allowed: all, plan, run, adjudicate" in done.stdout


VENV = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "%s pip $*"\\n' "$(basename "$3")" >"$3/bin/pip"
printf '#!/bin/sh\\nexec {python} "$@"\\n' >"$3/bin/python"
chmod +x "$3/bin/pip" "$3/bin/python"
"""


@pytest.mark.parametrize(("phase", "makes_clusters"), [("run", True), ("plan", False)])
def test_what_is_installed(tmp_path: Path, phase: str, makes_clusters: bool) -> None:
    """Each interpreter gets its own packages, and kind is the release that is pinned."""
    (tmp_path / "python").write_text(VENV.format(python=sys.executable))
    (tmp_path / "go").write_text('#!/bin/sh\necho "go $*"\n')
    for name in ("python", "go"):
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(ACTION / "install.sh")],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHON": str(tmp_path / "python"),
            "BENCHMARK_PYTHON": str(tmp_path / "python"),
            "BENCHMARK_REQUIREMENTS": "kubernetes==30.1.0\nrich",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_ACTION_PATH": str(ACTION),
            "CLUSTER": "kind",
            "PHASE": phase,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    ours, theirs, *rest = done.stdout.splitlines()
    source = re.fullmatch(r"sremut-venv pip install .* (\S+)\[xdist\]", ours)
    assert source is not None
    assert Path(source[1]).resolve() == ROOT
    assert theirs.endswith(" -- kubernetes==30.1.0 rich")
    assert theirs.startswith("benchmark-venv pip install")
    assert rest == ([f"go install sigs.k8s.io/kind@{pins().kind}"] if makes_clusters else [])
