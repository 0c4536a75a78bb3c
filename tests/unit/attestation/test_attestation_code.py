"""Graders and plugins are frozen: whoever exchanges one after registering is seen."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from forge import committed, git, make_study

import pytest_sremut
from pytest_sremut.attestation.errors import ManifestError, MisuseError, UncommittedChangesError
from pytest_sremut.attestation.registration import code as coded
from pytest_sremut.attestation.registration import freeze as freezing
from pytest_sremut.attestation.registration.against import compare_attempt, compare_product
from pytest_sremut.attestation.registration.check import check, recheck
from pytest_sremut.attestation.registration.checkout import open_checkout, product_at
from pytest_sremut.attestation.registration.code import frozen_code
from pytest_sremut.attestation.registration.freeze import freeze, freeze_tree
from pytest_sremut.attestation.registration.manifest import Manifest, parse_manifest
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.evidence.identity import product_digest, product_digest_of
from pytest_sremut.evidence.seal.checks import Report

FILES = {
    "graders_here/__init__.py": "",
    "graders_here/mine.py": "import json\nfrom .parts import look\n\n\nclass Grader: ...\n",
    "graders_here/parts.py": "def look():\n    import late_here\n",
    "late_here.py": "raise SystemExit('never imported to be found')\n",
    "beside.py": "",
}
HOOK = "import plugin_parts\n\n\ndef pytest_sremut_oracles(config): ...\n"


def graded(use: str = "python:graders_here.mine:Grader", *instruments: str) -> SimpleNamespace:
    """A study with one grader."""
    study = make_study()
    spec = SimpleNamespace(use=use, instruments=instruments or ("in-process", "isolated"))
    study.oracles = (spec,)
    return study


@pytest.fixture
def own(project: Path) -> Path:
    """A project with a grader of its own."""
    for name, text in FILES.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    return project


def failed(report) -> dict[str, str]:
    return {result.name: result.detail for result in report.failures}


# -- what is covered -------------------------------------------------------------------------------


def test_a_grader_and_what_it_imports_from_the_project(own: Path) -> None:
    found = frozen_code(own, graded())
    assert {role: str(file.path) for role, file in found.items()} == {
        "code:graders_here": "graders_here/__init__.py",
        "code:graders_here.mine": "graders_here/mine.py",
        "code:graders_here.parts": "graders_here/parts.py",
        "code:late_here": "late_here.py",
    }
    text = (own / "late_here.py").read_bytes()
    assert found["code:late_here"].sha256 == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("use", "instruments"),
    [("reference:pods-and-deployments", ()), ("python:graders_here.mine:Grader", ("own",))],
)
def test_ours_and_a_benchmarks_are_covered_elsewhere(
    own: Path, use: str, instruments: tuple[str, ...]
) -> None:
    assert frozen_code(own, graded(use, *instruments)) == {}


@pytest.mark.parametrize(
    "line",
    [
        "from graders_here import parts",
        "import graders_here.parts as p",
        "if False:\n    from graders_here.parts import *",
        "import importlib\nimportlib.import_module('graders_here.parts')",
        "__import__('graders_here.parts')",
    ],
)
def test_ways_to_import(own: Path, line: str) -> None:
    (own / "graders_here" / "mine.py").write_text(f"{line}\nclass Grader: ...\n")
    assert "code:graders_here.parts" in frozen_code(own, graded())


@pytest.mark.parametrize(
    "text",
    ["def (", "\0", "(" * 50_000, "x = " + "-" * 200_000 + "1", "\xff", "# coding: nothing\n"],
)
def test_a_source_that_cannot_be_parsed_is_covered_all_the_same(own: Path, text: str) -> None:
    (own / "graders_here" / "mine.py").write_text(text, encoding="latin-1")
    found = frozen_code(own, graded())
    assert set(found) == {"code:graders_here", "code:graders_here.mine"}


def test_a_grader_outside_the_project(own: Path, tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "elsewhere"
    (place / "far_graders").mkdir(parents=True)
    (place / "far_graders" / "__init__.py").write_text("")
    (place / "far_graders" / "one.py").write_text("from far_graders import two\nclass G: ...\n")
    (place / "far_graders" / "two.py").write_text("")
    monkeypatch.syspath_prepend(str(place))
    study = graded("python:far_graders.one:G")
    freeze(own, study, SelfIssuedAuthority())
    report = check(own, study)
    assert report.ok, report.failures
    paths = {str(file.path) for file in report.manifest.files.values()}
    assert {"<python>/far_graders/one.py", "<python>/far_graders/two.py"} <= paths
    (place / "far_graders" / "two.py").write_text("changed = 1\n")
    assert list(failed(check(own, study))) == ["frozen code:far_graders.two"]
    assert [one.name for one in recheck(own, report)] == ["frozen code:far_graders.two"]
    shutil.rmtree(place / "far_graders")
    assert (
        "finds no module far_graders.one"
        in failed(check(own, study))["frozen code:far_graders.one"]
    )


def test_plugins_that_bring_hooks(own: Path) -> None:
    study = make_study()
    (own / "conftest.py").write_text("import plugin_parts\n")
    (own / "plugin_parts.py").write_text("")
    assert frozen_code(own, study) == {}
    (own / "audits" / "conftest.py").write_text(HOOK)
    assert set(frozen_code(own, study)) == {"code:audits/conftest.py", "code:plugin_parts"}
    (own / "conftest.py").write_text("pytest_plugins = ['plugin_parts']\n")
    (own / "plugin_parts.py").write_text("def pytest_sremut_faults(config): ...\n")
    assert "code:conftest.py" in frozen_code(own, study)


def test_installed_plugins_that_bring_hooks(own: Path, tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "installed"
    (place / "brings_hooks").mkdir(parents=True)
    (place / "brings_hooks" / "__init__.py").write_text("from brings_hooks.plugin import *\n")
    (place / "brings_hooks" / "plugin.py").write_text("def pytest_sremut_faults(config): ...\n")
    (place / "brings_hooks-1.dist-info").mkdir()
    (place / "brings_hooks-1.dist-info" / "METADATA").write_text("Name: brings_hooks\nVersion: 1\n")
    (place / "brings_hooks-1.dist-info" / "entry_points.txt").write_text(
        "[pytest11]\nbrings = brings_hooks\n"
    )
    monkeypatch.syspath_prepend(str(place))
    assert set(frozen_code(own, make_study())) == {
        "code:brings_hooks", "code:brings_hooks.plugin",
    }  # fmt: skip


# -- what is seen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(FILES) - {"beside.py"}))
def test_an_exchanged_module_is_seen(own: Path, name: str) -> None:
    freeze(own, graded(), SelfIssuedAuthority())
    report = check(own, graded())
    assert report.ok, report.failures
    assert "not covered" not in report.header()
    (own / name).write_text(FILES[name] + "# exchanged\n")
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert list(failed(check(own, graded()))) == [f"frozen code:{module}"]
    assert [one.name for one in recheck(own, report)] == [f"frozen code:{module}"]


def test_a_module_that_comes_in_later_is_seen(own: Path) -> None:
    """A package without an `__init__` gets one; a plugin is added."""
    study = graded("python:bare.mine:Grader")
    (own / "bare").mkdir()
    (own / "bare" / "mine.py").write_text("class Grader: ...\n")
    freeze(own, study, SelfIssuedAuthority())
    assert check(own, study).ok
    (own / "bare" / "__init__.py").write_text("")
    assert failed(check(own, study)) == {
        "frozen code:bare": "the study uses bare/__init__.py, registered is none"
    }
    (own / "bare" / "__init__.py").unlink()
    (own / "conftest.py").write_text(HOOK)
    assert failed(check(own, study)) == {
        "frozen code:conftest.py": "the study uses conftest.py, registered is none"
    }


def test_a_module_in_front_of_the_registered_one_is_seen(
    own: Path, tmp_path: Path, monkeypatch
) -> None:
    freeze(own, graded(), SelfIssuedAuthority())
    shutil.copytree(own / "graders_here", tmp_path / "front" / "graders_here")
    monkeypatch.syspath_prepend(str(tmp_path / "front"))
    assert "frozen code:graders_here.mine" in failed(check(own, graded()))


def test_what_cannot_be_found_cannot_be_registered(own: Path) -> None:
    with pytest.raises(MisuseError, match=r"no_such\.grader cannot be found.*PYTHONPATH"):
        freeze(own, graded("python:no_such.grader:G"), SelfIssuedAuthority())
    assert not (own / "attestation").exists()


def test_a_registration_made_before_holds_and_says_so(own: Path, monkeypatch) -> None:
    def before(**fields) -> Manifest:
        files = {role: one for role, one in fields["files"].items() if not role.startswith("code:")}
        return Manifest(**{**fields, "files": files, "has_code": False})

    monkeypatch.setattr(freezing, "Manifest", before)
    made = freeze(own, graded(), SelfIssuedAuthority())
    assert b'"code"' not in (made.directory / "manifest.json").read_bytes()
    report = check(own, graded())
    assert report.ok
    (line,) = [one.line() for one in report.results if one.name == "frozen code"]
    assert line.startswith("--   frozen code: not checked: graders not covered")
    assert "graders_here.mine" in line
    assert report.header().endswith(", graders not covered")
    (own / "late_here.py").write_text("# exchanged\n")
    assert check(own, graded()).ok
    assert "not covered" not in check(own, make_study()).header()  # there are none


def test_the_flag_is_true_or_not_there(own: Path) -> None:
    made = freeze(own, graded(), SelfIssuedAuthority())
    data = (made.directory / "manifest.json").read_bytes()
    assert parse_manifest(data).has_code
    with pytest.raises(ManifestError, match="code: of another type"):
        parse_manifest(data.replace(b'"code":true', b'"code":false'))


# -- the tree --------------------------------------------------------------------------------------


@pytest.fixture
def treed(own: Path) -> Path:
    """Registered and stamped, the grader and a product in it."""
    (own / "pytest_sremut").mkdir()
    (own / "pytest_sremut" / "__init__.py").write_text("x = 1\n")
    freeze(own, graded(), SelfIssuedAuthority())
    committed(own)
    freeze_tree(own, graded(), SelfIssuedAuthority())
    committed(own)
    return own


def hide(root: Path, name: str, how: str) -> None:
    """Let git see no change in a file."""
    if how == "clean filter":
        git(root, "config", "filter.hide.clean", f"git show HEAD:{name}")
        (root / ".git" / "info").mkdir(exist_ok=True)
        (root / ".git" / "info" / "attributes").write_text(f"{name} filter=hide\n")
    else:
        git(root, "update-index", f"--{how}", name)


@pytest.mark.parametrize("how", ["assume-unchanged", "skip-worktree", "clean filter"])
def test_a_product_file_that_git_does_not_look_at_is_seen(treed: Path, how: str) -> None:
    assert check(treed, graded()).product_changed == ()
    name = "pytest_sremut/__init__.py"
    hide(treed, name, how)
    (treed / name).write_text("x = 2\n")
    assert git(treed, "status", "--porcelain") == ""
    report = check(treed, graded())
    assert report.product_changed == (name,)
    assert any("product files changed" in line for line in report.refuses_sealed())


def test_what_git_does_not_look_at_cannot_be_stamped(own: Path) -> None:
    freeze(own, graded(), SelfIssuedAuthority())
    (own / "pytest_sremut").mkdir()
    (own / "pytest_sremut" / "__init__.py").write_text("x = 1\n")
    committed(own)
    hide(own, "pytest_sremut/__init__.py", "assume-unchanged")
    (own / "pytest_sremut" / "__init__.py").write_text("x = 2\n")
    with pytest.raises(UncommittedChangesError):
        freeze_tree(own, graded(), SelfIssuedAuthority())


def test_links_are_compared_as_links(treed: Path) -> None:
    (treed / "pytest_sremut" / "link.py").symlink_to("__init__.py")
    committed(treed)
    checkout = open_checkout(treed)
    assert checkout.altered("HEAD", ["pytest_sremut"]) == ()
    (treed / "pytest_sremut" / "link.py").unlink()
    (treed / "pytest_sremut" / "link.py").symlink_to("other.py")
    assert checkout.altered("HEAD", ["pytest_sremut"]) == ("pytest_sremut/link.py",)
    (treed / "pytest_sremut" / "__init__.py").unlink()
    (treed / "pytest_sremut" / "__init__.py").symlink_to("/dev/null")
    assert "pytest_sremut/__init__.py" in checkout.altered("HEAD", ["pytest_sremut"])


def test_an_uncommitted_grader_cannot_be_stamped(own: Path) -> None:
    freeze(own, graded(), SelfIssuedAuthority())
    committed(own)
    git(own, "rm", "-q", "--cached", "late_here.py")
    with pytest.raises(UncommittedChangesError) as caught:
        freeze_tree(own, graded(), SelfIssuedAuthority())
    assert "late_here.py" in caught.value.diagnostics()


def test_the_products_digest_from_gits_objects(tmp_path: Path) -> None:
    """The same as that of the files, of the real product."""
    package = Path(pytest_sremut.__file__).parent
    copy = tmp_path / "copy" / "pytest_sremut"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    git(copy.parent, "init", "-q")
    committed(copy.parent)
    checkout = open_checkout(copy.parent)
    assert product_at(checkout, "HEAD") == product_digest(copy) == product_digest()
    (copy / "errors.py").write_text("# exchanged\n")
    assert product_at(checkout, "HEAD") == product_digest()
    files = checkout.digests("HEAD", "pytest_sremut")
    assert product_digest_of({**files, "notes.txt": "0" * 64}) == product_digest()
    assert product_digest_of({**files, "errors.py": "0" * 64}) != product_digest()
    shutil.rmtree(copy)
    committed(copy.parent)
    assert product_at(checkout, "HEAD") == ""


# -- evidence beside it ----------------------------------------------------------------------------


def attempt(place: Path, root: Path, study, modules: dict[str, str]) -> Path:
    """What an attempt says of files and graders."""
    (place / "states").mkdir(parents=True)
    files = {
        role: hashlib.sha256((root / path).read_bytes()).hexdigest()
        for role, path in study.frozen.items()
    }
    (place / "attempt.json").write_text(json.dumps({"files": files}))
    readings = [
        {"oracle": "O1", "instrument": name, "instrument_facts": {"modules": modules}}
        for name in ("in-process", "own")
    ]
    (place / "states" / "faulted.json").write_text(json.dumps({"readings": readings}))
    return place


def test_evidence_of_other_files_or_graders_is_seen(own: Path, tmp_path: Path) -> None:
    study = graded()
    freeze(own, study, SelfIssuedAuthority())
    manifest = check(own, study).manifest
    modules = {
        role.removeprefix("code:"): one.sha256 for role, one in frozen_code(own, study).items()
    }
    sound = attempt(tmp_path / "sound", own, study, {**modules, "pytest_sremut.x": "0"})
    report = Report("")
    compare_attempt(sound, manifest, report, "s/r/a01")
    assert [one.ok for one in report.checks] == [True]

    other = attempt(tmp_path / "other", own, study, {**modules, "late_here": "1" * 64, "new": "2"})
    body = json.loads((other / "attempt.json").read_bytes())
    body["files"]["mutants"] = "3" * 64
    (other / "attempt.json").write_text(json.dumps(body))
    report = Report("")
    compare_attempt(other, manifest, report, "s/r/a01")
    told = [(one.ok, one.place, one.detail) for one in report.checks]
    assert [(ok, place) for ok, place, _ in told] == [
        (False, "s/r/a01/attempt.json"),
        (False, "s/r/a01/states/faulted.json"),
        (False, "s/r/a01/states/faulted.json"),
    ]
    assert "files.mutants" in told[0][2]
    assert "in-process was made of late_here" in told[1][2]
    assert "registered nothing" in told[2][2]
    report = Report("")
    compare_attempt(other, replace(manifest, has_code=False), report, "s/r/a01")
    assert len(report.failures) == 1  # of graders nothing was registered


@pytest.mark.parametrize("text", ["[]", "{", '{"readings": []}', "null"])
def test_a_state_that_is_none_is_others_to_tell(own: Path, tmp_path: Path, text: str) -> None:
    study = graded()
    freeze(own, study, SelfIssuedAuthority())
    place = attempt(tmp_path / "attempt", own, study, {})
    (place / "states" / "faulted.json").write_text(text)
    report = Report("")
    compare_attempt(place, check(own, study).manifest, report, "s/r/a01")
    assert report.failures == ()


def test_a_seal_of_another_product_is_seen(treed: Path) -> None:
    found = check(treed, graded())
    stamped = product_at(open_checkout(treed), found.tree.commit)
    for product, ok in ((stamped, True), ("0" * 64, False)):
        report = Report("")
        compare_product(treed, found, product, report, "s/r/a01")
        assert [one.ok for one in report.checks] == [ok]
    for nothing in (replace(found, tree=None), replace(
        found, tree=replace(found.tree, commit="0" * 40)
    )):  # fmt: skip
        report = Report("")
        compare_product(treed, nothing, "0" * 64, report, "s/r/a01")
        assert report.checks == []


def test_paths_of_python_lie_outside() -> None:
    assert coded.is_outside(PurePosixPath("<python>/a.py"))
    assert not coded.is_outside(PurePosixPath("python/a.py"))
    assert os.sep not in coded.ROLE
