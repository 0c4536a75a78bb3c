"""The worked example of docs/benchmarks.md, word for word: another layout, collected and read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from bench_project import MAIN, ROOT
from kubeconfigs import write_kubeconfig
from minibench import commit, git

from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.benchmark.layout import Layout
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.load import load_study
from pytest_sremut.study.names import Instrument
from pytest_sremut.study.verdict import Verdict

STUDY = "opsgym_study"
# What the tree in the text says of the two modules.
GRADER = """\
import tempfile
from pathlib import Path


class ServiceUp:
    def __init__(self, namespace, service, kubeconfig):
        self.broken = Path(tempfile.gettempdir(), f"opsgym-{namespace}-{service}")
        self.kubeconfig = Path(kubeconfig)

    def check(self):
        return {"passed": self.kubeconfig.is_file() and not self.broken.exists()}
"""
CHAOS = """\
import tempfile
from pathlib import Path


class Chaos:
    def __init__(self, namespace):
        self.namespace = namespace

    def break_(self, name, service):
        self._file(service).write_text(name)
        return name

    def fix(self, name, service):
        self._file(service).unlink()
        return name

    def _file(self, service):
        return Path(tempfile.gettempdir(), f"opsgym-{self.namespace}-{service}")
"""


def block(language: str) -> str:
    """The example's code block of a language."""
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    section = text.partition("\n## Another benchmark\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def layout() -> Layout:
    namespace: dict[str, Any] = {}
    exec(compile(block("python"), "docs/benchmarks.md", "exec"), namespace)
    hook: Callable[[object], Layout] = namespace["pytest_sremut_oracles"]
    return hook(None)


@pytest.fixture
def example(pytester: pytest.Pytester, layout: Layout) -> Path:
    """The project of the example; its checkout is `opsgym` in it."""
    project, checkout = pytester.path, pytester.path / "opsgym"
    graders = checkout / "src" / "opsgym" / "graders"
    graders.mkdir(parents=True)
    (graders / "service_up.py").write_text(GRADER)
    (checkout / "src" / "opsgym" / "chaos.py").write_text(CHAOS)
    git(checkout, "init", "-q")
    told = yaml.safe_load(block("yaml"))
    told["benchmark"]["commit"] = commit(checkout)
    (file,) = told["benchmark"]["files"]
    told["benchmark"]["files"] = {file: Checkout(checkout, layout).digest(file)}
    study = yaml.safe_load((ROOT / "audits" / MAIN / "study.yaml").read_text())
    study |= {"id": STUDY, "only": ["MS-M01"], **told}
    del study["predictions"], study["instruments"]
    place = project / "audits" / STUDY
    place.mkdir(parents=True)
    (place / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    for name in ("mutants", "contracts"):
        shutil.copytree(ROOT / name, project / name)
    (project / "conftest.py").write_text(block("python"))
    return project


def test_its_cells_are_collected(example: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "-m", "mutant", "--collect-only", "-q", "--sremut-exploratory",
        "--sremut-benchmark=opsgym",
    )  # fmt: skip
    assert result.ret == 0, result.stderr.str()
    cells = [line for line in result.outlines if "::test_cell[ms-m01-r01-faulted" in line]
    assert [line.rpartition("-")[2] for line in cells] == ["G1]", "contract]"]


def test_its_grader_is_read_and_its_injector_injects(
    example: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    study = load_study(example, PurePosixPath(f"audits/{STUDY}/study.yaml"))
    (oracle,) = study.oracles
    assert oracle.instruments == ("own",)
    assert study.needs_benchmark("embedded")
    request = ReadingRequest(
        oracle=OracleNode(id=oracle.id, use=oracle.use),
        kubeconfig=str(write_kubeconfig(tmp_path)),
        context="test",
        cluster_uid="cluster-1",
        namespace=study.namespace,
        target=study.target,
        baseline={},
        timeout=60.0,
        benchmark=study.benchmark,
    )
    fault = study.fault.partition(":")[2]
    instrument = BenchmarkInstrument(
        Instrument.OWN, directory=example / "opsgym", layouts={layout.name: layout}
    )
    try:
        assert instrument.problems(study) == []
        assert instrument.read(request).verdict is Verdict.ACCEPT
        assert instrument.operate("inject", request, fault)["returned"] == fault
        assert instrument.read(request).verdict is Verdict.REJECT
        assert instrument.operate("recover", request, fault)["returned"] == fault
        assert instrument.read(request).verdict is Verdict.ACCEPT
    finally:
        instrument.close()
    assert git(example / "opsgym", "status", "--porcelain", "--ignored") == ""
