"""What a session makes of a benchmark before anything runs: skipped, refused, or admitted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench_project import ORACLES, STUDY, make_bench_project
from minibench import commit
from sealed_project import register

NODE = f"audits/{STUDY}/study.yaml"
# Behind the gate waits a context that was not allowed: nothing is ever run here.
NOTHING = (
    "-m", "mutant", "--sremut-exploratory", "--sremut-profile=embedded",
    "--sremut-cluster=context:nowhere",
)  # fmt: skip


@pytest.fixture
def bench(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SREMUT_BENCHMARK", "SREMUT_BENCHMARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return make_bench_project(pytester.path)


def test_without_a_checkout_a_study_is_one_skipped_item_and_counted(
    bench: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    result = pytester.runpytest_subprocess(*NOTHING, "-rs", *how)
    result.assert_outcomes(skipped=1)
    why = "*minibench_study was not run: it audits minibench at *--sremut-benchmark=DIR*"
    result.stdout.fnmatch_lines([f"SKIPPED*{why}"])
    result.stdout.fnmatch_lines(["sremut: 1 study not run", why])
    assert result.ret == 0


@pytest.mark.parametrize("keyword", ["minibench_study", "E3", "ms-m01-r01-faulted-contract"])
def test_any_choice_of_its_cells_selects_the_skipped_item(
    bench: Path, pytester: pytest.Pytester, keyword: str
) -> None:
    result = pytester.runpytest_subprocess(*NOTHING, "-k", keyword)
    result.assert_outcomes(skipped=1)


def test_with_a_checkout_its_cells_are_collected(bench: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *NOTHING, "--collect-only", "-q", "--sremut-benchmark=checkout"
    )
    assert result.outlines[0] == f"{NODE}::test_cell[ms-m01-r01-healthy-P1]"
    assert sum("::test_cell[" in line for line in result.outlines) == 3 * 6


@pytest.mark.parametrize("where", ["option", "ini", "environment"])
def test_the_checkout_is_named_in_three_ways(
    bench: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    arguments = [*NOTHING, "--collect-only", "-q"]
    match where:
        case "option":
            arguments.append("--sremut-benchmark=checkout")
        case "ini":
            (bench / "pytest.ini").write_text("[pytest]\nsremut_benchmark = checkout\n")
        case _:
            monkeypatch.setenv("SREMUT_BENCHMARK", str(bench / "checkout"))
    result = pytester.runpytest_subprocess(*arguments)
    assert sum("::test_cell[" in line for line in result.outlines) == 18


def refused(pytester: pytest.Pytester, *arguments: str) -> str:
    result = pytester.runpytest_subprocess(*NOTHING, "--sremut-benchmark=checkout", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (pytester.path / ".sremut").exists()
    told = result.stderr.str()
    assert "nothing was run:" in told
    return told


def test_a_changed_oracle_is_refused_with_file_and_both_digests(
    bench: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    file = bench / "checkout/minibench/harness/oracles/attentive.py"
    pinned = subprocess.run(["sha256sum", file], check=True, capture_output=True, text=True)
    file.write_text(file.read_text() + "# changed\n")
    found = subprocess.run(["sha256sum", file], check=True, capture_output=True, text=True)
    told = refused(pytester, *how)
    assert (
        f"{file}: SHA-256: found {found.stdout.split()[0]}; pinned: {pinned.stdout.split()[0]}"
    ) in told
    assert "work tree: found M minibench/harness/oracles/attentive.py" in told


def test_another_commit_is_refused(bench: Path, pytester: pytest.Pytester) -> None:
    found = commit(bench / "checkout")
    assert f"commit: found {found}; pinned: " in refused(pytester)


def test_a_directory_that_is_no_checkout_is_refused(bench: Path, pytester: pytest.Pytester) -> None:
    for directory in ("mutants", "nowhere"):
        result = pytester.runpytest_subprocess(*NOTHING, f"--sremut-benchmark={directory}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "--sremut-benchmark: " in result.stderr.str()


def test_a_class_that_does_not_exist_is_refused(pytester: pytest.Pytester) -> None:
    make_bench_project(pytester.path, oracles=ORACLES.replace("PodsRunning", "PodRunning"))
    assert "no class PodRunning" in refused(pytester)


def test_a_benchmark_without_an_adapter_is_refused(bench: Path, pytester: pytest.Pytester) -> None:
    (bench / "conftest.py").write_text("")
    told = refused(pytester)
    assert "benchmark 'minibench': no adapter; allowed: sregym" in told


def test_an_interpreter_that_is_none_is_refused(bench: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*NOTHING, "--sremut-benchmark-python=no-such-python")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "found 'no-such-python'; allowed: an executable" in result.stderr.str()


def test_a_plugin_that_the_registration_does_not_know_is_refused(
    bench: Path, pytester: pytest.Pytester
) -> None:
    """The adapter's plugin is frozen with the study; another one is refused by name."""
    register(bench, STUDY, tree=False)
    registered = [one for one in NOTHING if one != "--sremut-exploratory"]
    asked = [*registered, "--sremut-benchmark=checkout", "-k", "healthy and P1"]
    (bench / "brings_more.py").write_text("def pytest_sremut_faults(config):\n    return {}\n")
    passed = pytester.runpytest_subprocess(*asked)
    passed.stdout.fnmatch_lines(["*context 'nowhere' is not allowed*"])
    text = pytester.runpytest_subprocess(*asked, "-p", "brings_more").stderr.str()
    assert f"{bench / 'brings_more.py'}: brings adapters or faults, and the registration" in text
    with (bench / "conftest.py").open("a") as conftest:
        conftest.write("# exchanged\n")
    result = pytester.runpytest_subprocess(*asked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "FAIL frozen code:conftest.py: conftest.py: its SHA-256 is " in result.stderr.str()
