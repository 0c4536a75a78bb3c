"""Whether a registration holds: every way of breaking one is a failed check of its own."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest
from forge import committed, git, make_study, write_project

from pytest_sremut.attestation.errors import Fault
from pytest_sremut.attestation.registration.check import check, recheck
from pytest_sremut.attestation.registration.freeze import freeze, freeze_tree
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.trust import TrustStore

LATER = datetime.now(UTC) + timedelta(hours=1)


def failed(report) -> dict[str, str]:
    return {result.name: result.error for result in report.failures}


@pytest.fixture(scope="module")
def templates(tmp_path_factory) -> dict[str, Path]:
    """A registered project and one with a tree; made once, copied for each test."""
    registered = write_project(tmp_path_factory.mktemp("template") / "registered")
    freeze(registered, make_study(), SelfIssuedAuthority())
    treed = registered.with_name("treed")
    shutil.copytree(registered, treed)
    (treed / "pytest_sremut").mkdir()
    (treed / "pytest_sremut/code.py").write_text("x = 1\n")
    committed(treed)
    freeze_tree(treed, make_study(), SelfIssuedAuthority())
    committed(treed)
    return {"registered": registered, "treed": treed}


@pytest.fixture
def registered(templates, tmp_path):
    return shutil.copytree(templates["registered"], tmp_path / "project")


@pytest.fixture
def treed(templates, tmp_path):
    return shutil.copytree(templates["treed"], tmp_path / "project")


def test_sound(registered, study):
    report = check(registered, study, first_mutation=LATER)
    assert report.ok
    assert report.fault is None
    assert "self-issued, no independent clock" in report.header()
    assert report.token is not None
    assert report.token.root in report.header()
    assert {result.line()[:4] for result in report.results} == {"OK  ", "--  "}
    assert json.loads(json.dumps(report.to_json()))["ok"] is True
    assert recheck(registered, report) == ()


def test_none(project, study):
    report = check(project, study)
    assert failed(report) == {"registration": "NotRegisteredError"}
    assert report.fault is Fault.UNVERIFIABLE


@pytest.mark.parametrize("role", ["study", "predictions", "mutants", "contract"])
@pytest.mark.parametrize("how", ["byte", "newline", "crlf", "missing", "directory"])
def test_frozen_files(registered, study, role, how):
    report = check(registered, study)
    file = registered / study.frozen[role]
    data = file.read_bytes()
    match how:
        case "byte":
            file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        case "newline":
            file.write_bytes(data + b"\n")
        case "crlf":
            file.write_bytes(data.replace(b"\n", b"\r\n"))
        case "missing":
            file.unlink()
        case _:
            file.unlink()
            file.mkdir()
    after = check(registered, study)
    assert failed(after) == {f"frozen {role}": "FrozenFileError"}
    assert after.fault is Fault.INVALID
    assert [result.name for result in recheck(registered, report)] == [f"frozen {role}"]


def test_each_failure_on_its_own_line(registered, study):
    (registered / "mutants/s1.yaml").write_text("x")
    (registered / "contracts/s1.yaml").write_text("x")
    (registered / "attestation/s1/r01/predictions.tsr").write_bytes(b"<html>")
    report = check(registered, study)
    assert failed(report) == {
        "frozen mutants": "FrozenFileError",
        "frozen contract": "FrozenFileError",
        "predictions token": "NotATimestampError",
    }
    assert len([line for line in report.results if line.line().startswith("FAIL")]) == 3


def test_study_uses_another_file(registered, study):
    study.frozen["mutants"] = PurePosixPath("mutants/other.yaml")
    assert failed(check(registered, study)) == {"frozen mutants": "FrozenFileError"}
    study.frozen["mutants"] = PurePosixPath("mutants/s1.yaml")
    study.frozen["extra"] = PurePosixPath("mutants/s1.yaml")
    assert failed(check(registered, study)) == {"frozen extra": "FrozenFileError"}


@pytest.mark.parametrize("name", ["manifest.json", "predictions.tsr"])
def test_missing_file(registered, study, name):
    (registered / "attestation/s1/r01" / name).unlink()
    errors = failed(check(registered, study))
    assert "IncompleteRegistrationError" in errors.values()


def test_missing_query_leaves_the_nonce_unchecked(registered, study):
    (registered / "attestation/s1/r01/predictions.tsq").unlink()
    report = check(registered, study)
    assert report.ok
    assert report.token is not None
    assert report.token.nonce == "not checked"
    assert any(line.line().startswith("--   predictions nonce") for line in report.results)


def test_missing_root_beside_the_token(registered, study):
    """The pin names its file: without it the trust file is wrong, not the token."""
    (registered / "attestation/s1/r01/predictions.root.pem").unlink()
    report = check(registered, study)
    assert failed(report) == {"trust": "InputError"}
    assert report.fault is Fault.MISUSE


def test_swapped_token(registered, study, tmp_path):
    """The token of another revision."""
    (registered / "audits/s1/predictions.yaml").write_text("new\n")
    freeze(registered, study, SelfIssuedAuthority())
    for name in ("predictions.tsr", "predictions.tsq"):
        shutil.copy(
            registered / "attestation/s1/r01" / name, registered / "attestation/s1/r02" / name
        )
    assert failed(check(registered, study)) == {"predictions token": "ImprintMismatchError"}


def test_reply_of_another_query(registered, study, tmp_path):
    """Same manifest, another stamp: the query does not fit."""
    other = SelfIssuedAuthority()
    from pytest_sremut.attestation.rfc3161.request import build_query

    directory = registered / "attestation/s1/r01"
    query = build_query((directory / "manifest.json").read_bytes())
    (directory / "predictions.tsr").write_bytes(other.stamp(query))
    report = check(registered, study)
    assert failed(report) == {"predictions token": "UntrustedRootError"}
    trust = TrustStore(roots=(other.root,))
    assert failed(check(registered, study, trust=trust)) == {
        "predictions token": "NonceMismatchError"
    }


def test_wrong_root(registered, study):
    trust = TrustStore(roots=(SelfIssuedAuthority().root,))
    report = check(registered, study, trust=trust)
    assert failed(report) == {"predictions token": "UntrustedRootError"}
    assert report.fault is Fault.UNVERIFIABLE


def test_manifest_edited(registered, study):
    file = registered / "attestation/s1/r01/manifest.json"
    (registered / "mutants/s1.yaml").write_text("easier mutants\n")
    import hashlib

    value = json.loads(file.read_bytes())
    digest = hashlib.sha256(b"easier mutants\n").hexdigest()
    value["files"]["mutants"]["sha256"] = digest
    from pytest_sremut.ground.formats.canonical import canonical_json

    file.write_bytes(canonical_json(value))
    assert failed(check(registered, study)) == {"predictions token": "ImprintMismatchError"}


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data + b"\n",
        lambda data: data.replace(b'"revision":1', b'"revision":2'),
        lambda data: data.replace(b'"study":"s1"', b'"study":"s2"'),
        lambda data: data.replace(b'"previous":null', b'"previous":7'),
        lambda data: data.replace(b'"files":{', b'"files":{"x":1,'),
        lambda data: b"[]",
        lambda data: b"\xff",
        lambda data: b"[" * 100_000,
        lambda data: data.replace(b'"created"', b'"made"'),
    ],
)
def test_manifest_that_is_none(registered, study, edit):
    file = registered / "attestation/s1/r01/manifest.json"
    file.write_bytes(edit(file.read_bytes()))
    errors = failed(check(registered, study))
    assert errors["manifest"] == "ManifestError"
    assert errors["predictions token"] == "ImprintMismatchError"


def test_revision_taken_out(registered, study):
    freeze(registered, study, SelfIssuedAuthority())
    shutil.rmtree(registered / "attestation/s1/r01")
    assert failed(check(registered, study)) == {"registration": "ManifestError"}


def test_revision_taken_out_and_renamed(registered, study):
    (registered / "mutants/s1.yaml").write_text("second\n")
    freeze(registered, study, SelfIssuedAuthority())
    directory = registered / "attestation/s1"
    shutil.rmtree(directory / "r01")
    (directory / "r02").rename(directory / "r01")
    assert "manifest" in failed(check(registered, study))


def test_earlier_revision_exchanged(registered, study):
    freeze(registered, study, SelfIssuedAuthority())
    file = registered / "attestation/s1/r01/manifest.json"
    file.write_bytes(file.read_bytes().replace(b"mutants", b"mutantx"))
    assert failed(check(registered, study)) == {"revisions": "ManifestError"}


class TestOrder:
    def test_first_mutation_before_the_token(self, registered, study):
        early = datetime.now(UTC) - timedelta(hours=1)
        assert failed(check(registered, study, first_mutation=early)) == {
            "order": "TokenOrderError"
        }

    def test_accuracy_counts(self, project, study):
        made = freeze(project, study, SelfIssuedAuthority(accuracy=timedelta(seconds=2)))
        at = made.token.gen_time
        for seconds, holds in ((1.9, False), (2, False), (2.1, True)):
            report = check(project, study, first_mutation=at + timedelta(seconds=seconds))
            assert report.ok is holds

    def test_all_three(self, treed, study):
        report = check(treed, study, first_mutation=LATER)
        assert report.ok
        line = next(result for result in report.results if result.name == "order")
        assert line.detail == "predictions < tree < first mutation"

    def test_tree_before_predictions(self, treed, study):
        """Three sound tokens in the wrong order: the stamps of tree and predictions made anew."""
        directory = treed / "attestation/s1/r01"
        from pytest_sremut.attestation.registration.stamped import make_stamp

        late = SelfIssuedAuthority(clock=lambda: datetime.now(UTC) + timedelta(minutes=30))
        trust = TrustStore(roots=())
        _, files = make_stamp(
            (directory / "manifest.json").read_bytes(), "predictions", late, trust
        )
        for name, data in files.items():
            (directory / name).write_bytes(data)
        file = treed / "attestation/trust.yaml"
        text = file.read_text()
        old = next(line.split('"')[1] for line in text.splitlines() if "sha256" in line)
        file.write_text(text.replace(old, late.root.sha256))
        assert failed(check(treed, study, first_mutation=LATER)) == {"order": "TokenOrderError"}


class TestTree:
    def test_sound(self, treed, study):
        report = check(treed, study)
        assert report.ok, report.failures
        assert report.product_changed == ()
        assert len(report.openssl) == 2

    def test_product_changed_is_named(self, treed, study):
        (treed / "pytest_sremut/code.py").write_text("x = 2\n")
        (treed / "pytest_sremut/more.py").write_text("y = 2\n")
        report = check(treed, study)
        assert report.ok
        assert report.product_changed == ("pytest_sremut/code.py", "pytest_sremut/more.py")
        assert "product files changed" in report.refuses_sealed()[0]
        committed(treed)
        assert check(treed, study).product_changed == report.product_changed

    def test_frozen_file_changed(self, treed, study):
        (treed / "mutants/s1.yaml").write_text("edited\n")
        committed(treed)
        assert failed(check(treed, study)) == {
            "frozen mutants": "FrozenFileError",
            "tree commit": "TreeChangedError",
        }

    def test_no_ancestor(self, treed, study):
        git(treed, "checkout", "-q", "--orphan", "other")
        git(treed, "commit", "-q", "-m", "rewritten")
        assert failed(check(treed, study)) == {"tree commit": "TreeChangedError"}

    def test_shallow_clone(self, treed, study, tmp_path):
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{treed}", "shallow")
        report = check(tmp_path / "shallow", study)
        assert failed(report) == {"tree commit": "CommitNotAtHandError"}
        assert report.fault is Fault.UNVERIFIABLE

    def test_clone(self, treed, study, tmp_path):
        git(tmp_path, "clone", "-q", f"file://{treed}", "clone")
        assert check(tmp_path / "clone", study).ok

    def test_outside_git(self, treed, study, tmp_path, monkeypatch):
        copy = tmp_path / "copy"
        shutil.copytree(treed, copy, ignore=shutil.ignore_patterns(".git"))
        report = check(copy, study)
        assert report.ok
        assert report.product_changed is None
        assert report.tree_token is not None
        line = next(result for result in report.results if result.name == "tree commit")
        assert line.ok is None
        assert "not checked" in line.line()
        assert "needs the git checkout" in report.refuses_sealed()[0]

    def test_unpacked_inside_a_foreign_checkout(self, treed, study, tmp_path):
        outer = tmp_path / "outer"
        outer.mkdir()
        git(outer, "init", "-q")
        git(outer, "commit", "-q", "--allow-empty", "-m", "empty")
        copy = outer / "copy"
        shutil.copytree(treed, copy, ignore=shutil.ignore_patterns(".git"))
        report = check(copy, study)
        assert report.ok
        assert report.product_changed is None

    @pytest.mark.parametrize("name", ["tree.json", "tree.tsr"])
    def test_missing_file(self, treed, study, name):
        (treed / "attestation/s1/r01" / name).unlink()
        errors = failed(check(treed, study))
        assert "IncompleteRegistrationError" in errors.values()

    def test_other_commit(self, treed, study):
        file = treed / "attestation/s1/r01/tree.json"
        head = git(treed, "rev-parse", "HEAD")
        old = json.loads(file.read_bytes())["commit"]
        file.write_bytes(file.read_bytes().replace(old.encode(), head.encode()))
        assert "tree token" in failed(check(treed, study))

    def test_no_tree_is_no_failure(self, registered, study):
        report = check(registered, study)
        assert report.ok
        assert "sealed run needs a tree token" in report.refuses_sealed()[0]
