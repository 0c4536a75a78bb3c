"""What refuses a sealed session: each failed check one message, exit 4, nothing made."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from sealed_project import git, register

from pytest_sremut.attestation.registration.check import check
from pytest_sremut.session.sealing import refuses_sealed
from pytest_sremut.study.load import load_study

ROOT = Path(__file__).resolve().parents[2]
PINNED = "pinned_endpoints_social_network"
# Behind the gate waits a context that was not allowed.
NOTHING = (
    "-m", "mutant", "-k", f"{PINNED} and healthy and O1", "--sremut-sealed",
    "--sremut-cluster=context:nowhere", "--sremut-profile=embedded",
)  # fmt: skip


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose registration and commit are stamped."""
    directory = tmp_path_factory.mktemp("stamped")
    for name in ("mutants", "contracts", f"audits/{PINNED}"):
        shutil.copytree(ROOT / name, directory / name)
    (directory / "conftest.py").write_text("")
    register(directory, PINNED)
    return directory


@pytest.fixture(scope="module")
def stamped_graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a grader of the project's own."""
    directory = tmp_path_factory.mktemp("graded")
    for name in ("mutants", "contracts", f"audits/{PINNED}"):
        shutil.copytree(ROOT / name, directory / name)
    study = directory / "audits" / PINNED / "study.yaml"
    ours = '"reference:pods-and-deployments"'
    assert ours in study.read_text()
    study.write_text(study.read_text().replace(ours, '"python:our_grader:Grader"'))
    (directory / "our_grader.py").write_text(
        "import our_parts\n\n\nclass Grader:\n    def evaluate(self): ...\n"
    )
    (directory / "our_parts.py").write_text("")
    (directory / "conftest.py").write_text("")
    register(directory, PINNED)
    return directory


@pytest.fixture
def graded(pytester: pytest.Pytester, stamped_graded: Path) -> Path:
    shutil.copytree(stamped_graded, pytester.path, dirs_exist_ok=True)
    return pytester.path


@pytest.fixture
def sealable(pytester: pytest.Pytester, stamped: Path) -> Path:
    shutil.copytree(stamped, pytester.path, dirs_exist_ok=True)
    return pytester.path


def refused(pytester: pytest.Pytester, *arguments: str) -> str:
    distributes = "-n2" in arguments
    start = pytester.runpytest_subprocess if distributes else pytester.runpytest_inprocess
    result = start(*NOTHING, *arguments)
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text
    assert "Traceback" not in text
    assert not (pytester.path / ".sremut").exists()
    return text


def test_what_holds_is_passed(sealable: Path, pytester: pytest.Pytester, how: list[str]) -> None:
    result = pytester.runpytest_subprocess(*NOTHING, *how)
    result.assert_outcomes(errors=1, deselected=result.parseoutcomes().get("deselected", 0))
    result.stdout.fnmatch_lines(
        [
            f"sremut: SEALED {PINNED} r01 sha256:*, stamped by self-*, self-issued, *",
            "sremut: sealed session 20*Z-*: key SHA-256 *",
            "sremut: sealed session *: stamps: unanchored (no timestamp authority was named *",
            "*context 'nowhere' is not allowed*",
        ]
    )
    assert "official" not in result.stdout.str().lower()
    (session,) = (sealable / ".sremut" / "evidence").glob("*/sessions/*")
    assert {path.name for path in session.iterdir()} == {"session.json", "session.sig", "seal"}


def test_never_together_with_exploring(sealable: Path, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsremut_exploratory = true\n")
    text = refused(pytester)
    assert "--sremut-sealed: allowed only without --sremut-exploratory" in text


def test_a_stamp_needs_a_seal(sealable: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(
        *(one for one in NOTHING if one != "--sremut-sealed"), "--sremut-tsa=self"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--sremut-tsa: allowed only with --sremut-sealed"])


@pytest.mark.parametrize("given", ["me", "https://"])
def test_who_cannot_stamp(sealable: Path, pytester: pytest.Pytester, given: str) -> None:
    text = refused(pytester, f"--sremut-tsa={given}")
    assert given in text
    assert "self" in text


def test_no_tree_token(project: Path, pytester: pytest.Pytester) -> None:
    register(project, PINNED, tree=False)
    text = refused(pytester)
    assert f"{PINNED}: a sealed run needs a tree token (`sremut freeze STUDY --tree`)" in text


def test_no_checkout(sealable: Path, pytester: pytest.Pytester) -> None:
    shutil.rmtree(sealable / ".git")
    assert "needs the git checkout of the stamped commit" in refused(pytester)


def test_product_files_that_changed(sealable: Path, pytester: pytest.Pytester) -> None:
    (sealable / "conftest.py").write_text("# other\n")
    git(sealable, "commit", "-q", "-am", "other")  # committed or not, it was not stamped
    text = refused(pytester)
    assert "product files changed since the stamped commit: conftest.py" in text


@pytest.mark.parametrize("name", ["our_grader", "our_parts"])
def test_a_grader_that_changed(graded: Path, pytester: pytest.Pytester, name: str) -> None:
    (graded / f"{name}.py").write_text("class Grader:\n    def evaluate(self): ...\n")
    text = refused(pytester)
    assert f"FAIL frozen code:{name}: {name}.py: its SHA-256 is " in text


def test_a_file_that_git_was_told_not_to_look_at(sealable: Path, pytester: pytest.Pytester) -> None:
    git(sealable, "update-index", "--assume-unchanged", "conftest.py")
    (sealable / "conftest.py").write_text("# other\n")
    text = refused(pytester)
    assert "product files changed since the stamped commit: conftest.py" in text


def test_a_product_that_the_commit_does_not_hold(tmp_path: Path) -> None:
    """The files that run are those beside the project, and git was told not to look at one."""
    import pytest_sremut
    from pytest_sremut.attestation.registration.checkout import open_checkout

    project = tmp_path / "project"
    package = Path(pytest_sremut.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, project / "pytest_sremut", ignore=ignore)
    with (project / "pytest_sremut" / "errors.py").open("a") as file:
        file.write("# what was stamped\n")
    for name in ("mutants", "contracts", f"audits/{PINNED}"):
        shutil.copytree(ROOT / name, project / name)
    register(project, PINNED)
    git(project, "update-index", "--assume-unchanged", "pytest_sremut/errors.py")
    shutil.copy(package / "errors.py", project / "pytest_sremut" / "errors.py")
    study = load_study(project, PurePosixPath(f"audits/{PINNED}/study.yaml"))
    report = check(project, study)
    assert report.tree is not None
    assert open_checkout(project).changed_since(report.tree.commit, ["pytest_sremut"]) == ()
    told = list(refuses_sealed(study, report, project))
    assert told[0].endswith("since the stamped commit: pytest_sremut/errors.py")
    assert told[1].startswith("the product that runs is not the one in the stamped commit: ")


def test_each_failed_check_is_told(sealable: Path, pytester: pytest.Pytester) -> None:
    (sealable / "conftest.py").write_text("# other\n")
    file = sealable / "contracts" / "missing_service_social_network.yaml"
    file.write_text(file.read_text() + "\n")
    told = refused(pytester, "-n2")
    assert "FAIL frozen contract" in told
    assert "frozen files changed since it: contracts/" in told
    assert "needs the git checkout" in told or "product files changed" in told


def test_what_a_sealed_run_asks_of_study_and_product(sealable: Path) -> None:
    study = load_study(sealable, PurePosixPath(f"audits/{PINNED}/study.yaml"))
    report = check(sealable, study)
    assert list(refuses_sealed(study, report, sealable)) == []
    some = replace(study.contract, invariants=study.contract.invariants[:-1])
    (told,) = refuses_sealed(replace(study, contract=some), report, sealable)
    assert told.startswith("a sealed run evaluates all 6 invariants")
    assert told.endswith("has none of check repair-persistence")
    other = sealable / "elsewhere" / "pytest_sremut"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = 'another'\n")
    (told,) = refuses_sealed(study, report, sealable / "elsewhere")
    assert "the product that runs is not the one in" in told
