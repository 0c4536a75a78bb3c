"""Registering: all or nothing, nothing overwritten, nothing written that would not verify."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import forge
import pytest
from asn1crypto import tsp
from forge import committed, git

from pytest_sremut.attestation.errors import (
    AlreadyRegisteredError,
    CheckoutError,
    FrozenFileError,
    MisuseError,
    NonceMismatchError,
    NotATimestampError,
    NotRegisteredError,
    RejectedByAuthorityError,
    TokenOrderError,
    UncommittedChangesError,
    UntrustedRootError,
)
from pytest_sremut.attestation.registration import freeze as freezing
from pytest_sremut.attestation.registration.check import check
from pytest_sremut.attestation.registration.freeze import freeze, freeze_tree
from pytest_sremut.attestation.registration.pins import trust_of
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.trust import SELF_ISSUED
from pytest_sremut.errors import EvidenceError, InputError
from pytest_sremut.ground.formats.canonical import sha256


class Answers:
    """An authority that answers with given bytes."""

    name = "test"
    root = None

    def __init__(self, answer):
        self.answer = answer

    def stamp(self, query: bytes) -> bytes:
        return self.answer(query) if callable(self.answer) else self.answer


def everything(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"dir"
        for path in sorted(root.rglob("*"))
        if ".git" not in path.parts
    }


class TestFreeze:
    def test_self(self, project, study):
        made = freeze(project, study, SelfIssuedAuthority())
        assert made.revision == 1
        manifest = json.loads((made.directory / "manifest.json").read_bytes())
        assert manifest["previous"] is None
        assert manifest["files"]["mutants"] == {
            "path": "mutants/s1.yaml",
            "sha256": sha256((project / "mutants/s1.yaml").read_bytes()),
        }
        assert set(manifest["files"]) == set(study.frozen)
        assert made.token.independence == SELF_ISSUED
        assert [root.independence for root in trust_of(project).roots] == [SELF_ISSUED]
        assert check(project, study).ok
        names = {path.name for path in made.directory.iterdir()}
        assert names == {"manifest.json", "predictions.tsq", "predictions.tsr",
                         "predictions.root.pem"}  # fmt: skip

    def test_again_keeps_the_old(self, project, study):
        first = freeze(project, study, SelfIssuedAuthority())
        before = everything(first.directory)
        (project / "audits/s1/predictions.yaml").write_text("changed\n")
        second = freeze(project, study, SelfIssuedAuthority())
        assert second.revision == 2
        assert everything(first.directory) == before
        manifest = json.loads((second.directory / "manifest.json").read_bytes())
        assert manifest["previous"] == first.digest
        report = check(project, study)
        assert report.ok, report.failures
        assert report.revision == 2
        assert not check(project, study, revision=1).ok

    def test_existing_trust_file_is_kept(self, project, study):
        file = project / "attestation" / "trust.yaml"
        file.parent.mkdir()
        text = "# ours\nschema: sremut/trust/v1\nroots: []\n"
        file.write_text(text)
        freeze(project, study, SelfIssuedAuthority())
        assert file.read_text().startswith("# ours\nschema: sremut/trust/v1\nroots:\n")
        freeze(project, study, SelfIssuedAuthority())
        assert len(trust_of(project).roots) == 2

    def test_the_same_authority_is_pinned_once(self, project, study):
        authority = SelfIssuedAuthority()
        freeze(project, study, authority)
        freeze(project, study, authority)
        assert len(trust_of(project).roots) == 1

    @pytest.mark.parametrize("length", [1, 3])
    def test_the_printed_command_has_all_it_needs(self, project, study, length):
        made = freeze(project, study, SelfIssuedAuthority(length=length))
        command = check(project, study).openssl[0].split()
        for option in ("-in", "-data", "-CAfile"):
            assert (project / command[command.index(option) + 1]).is_file()
        assert ("-untrusted" in command) is (not made.token.complete)


class TestNothingIsWritten:
    """Whatever fails leaves the project as it was."""

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            (b"", NotATimestampError),
            (b"<html>busy</html>", NotATimestampError),
            (b"MIIDyTADAgEA", NotATimestampError),
            (lambda query: SelfIssuedAuthority().stamp(b"no query"), RejectedByAuthorityError),
            (lambda query: SelfIssuedAuthority().stamp(query), UntrustedRootError),
            (lambda query: SelfIssuedAuthority().stamp(query)[:-3], NotATimestampError),
        ],
    )
    def test_bad_answers(self, project, study, answer, error):
        before = everything(project)
        with pytest.raises(error):
            freeze(project, study, Answers(answer))
        assert everything(project) == before

    def test_reply_to_another_query(self, project, study):
        authority = SelfIssuedAuthority()

        class Confused(Answers):
            root = authority.root

            def stamp(self, query: bytes) -> bytes:
                other = tsp.TimeStampReq.load(query).copy()
                other["nonce"] = 5
                return authority.stamp(other.dump())

        before = everything(project)
        with pytest.raises(NonceMismatchError):
            freeze(project, study, Confused(None))
        assert everything(project) == before

    def test_missing_file(self, project, study):
        (project / "mutants/s1.yaml").unlink()
        before = everything(project)
        with pytest.raises(FrozenFileError, match=r"mutants/s1.yaml: missing"):
            freeze(project, study, SelfIssuedAuthority())
        assert everything(project) == before

    def test_link_out_of_the_project(self, project, study):
        (project.parent / "outside").write_text("x")
        (project / "mutants/s1.yaml").unlink()
        (project / "mutants/s1.yaml").symlink_to("../../outside")
        with pytest.raises(FrozenFileError, match="inside the project"):
            freeze(project, study, SelfIssuedAuthority())

    def test_no_predictions(self, project, study):
        del study.frozen["predictions"]
        with pytest.raises(MisuseError, match="no predictions"):
            freeze(project, study, SelfIssuedAuthority())

    def test_edited_while_it_was_stamped(self, project, study):
        authority = SelfIssuedAuthority()

        class Editing(Answers):
            root = authority.root

            def stamp(self, query: bytes) -> bytes:
                (project / "contracts/s1.yaml").write_text("edited")
                return authority.stamp(query)

        with pytest.raises(FrozenFileError, match="changed while"):
            freeze(project, study, Editing(None))
        assert not (project / "attestation").exists()

    def test_disk_full(self, project, study, monkeypatch):
        real = freezing.write_new

        def failing(path, data):
            if path.name == "predictions.tsr":
                raise EvidenceError("No space left on device")
            real(path, data)

        monkeypatch.setattr(freezing, "write_new", failing)
        before = everything(project)
        with pytest.raises(EvidenceError):
            freeze(project, study, SelfIssuedAuthority())
        assert everything(project) == before

    @pytest.mark.parametrize(
        "text",
        [
            "roots: []\nschema: sremut/trust/v1\n",
            "schema: sremut/trust/v1\nroots: []\n# and nothing below\nx: 1\n",
        ],
    )
    def test_trust_file_that_cannot_take_the_pin(self, project, study, text):
        file = project / "attestation" / "trust.yaml"
        file.parent.mkdir()
        file.write_text(text)
        before = everything(project)
        with pytest.raises((MisuseError, InputError)):
            freeze(project, study, SelfIssuedAuthority())
        assert everything(project) == before

    def test_two_at_once(self, project, study):
        """The slower one finds its revision taken and writes nothing."""
        authority = SelfIssuedAuthority()

        class Racing(Answers):
            root = authority.root

            def stamp(self, query: bytes) -> bytes:
                freeze(project, study, SelfIssuedAuthority())
                self.before = everything(project)
                return authority.stamp(query)

        racing = Racing(None)
        with pytest.raises(AlreadyRegisteredError):
            freeze(project, study, racing)
        assert everything(project) == racing.before


class TestTree:
    def test_sound(self, project, study):
        freeze(project, study, SelfIssuedAuthority())
        committed(project)
        made = freeze_tree(project, study, SelfIssuedAuthority())
        report = check(project, study)
        assert report.ok, report.failures
        assert report.tree is not None
        assert report.tree.commit == git(project, "rev-parse", "HEAD")
        assert report.product_changed == ()
        assert report.refuses_sealed() == ()
        assert made.files[-1] == "tree.json"
        committed(project)  # the token itself is committed after: its commit is an ancestor
        assert check(project, study).ok

    def test_not_registered(self, project, study):
        committed(project)
        with pytest.raises(NotRegisteredError):
            freeze_tree(project, study, SelfIssuedAuthority())

    def test_outside_git(self, project, study, monkeypatch):
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
        freeze(project, study, SelfIssuedAuthority())
        before = everything(project)
        with pytest.raises(CheckoutError):
            freeze_tree(project, study, SelfIssuedAuthority())
        assert everything(project) == before

    @pytest.mark.parametrize(
        "name",
        ["audits/s1/predictions.yaml", "attestation/trust.yaml", "pytest_sremut/x.py",
         "conftest.py", "attestation/s1/r01/manifest.json"],
    )  # fmt: skip
    @pytest.mark.parametrize("change", ["edit", "remove", "stage"])
    def test_uncommitted(self, project, study, name, change):
        (project / "pytest_sremut").mkdir()
        (project / "pytest_sremut/x.py").write_text("x = 1\n")
        (project / "conftest.py").write_text("\n")
        freeze(project, study, SelfIssuedAuthority())
        committed(project)
        file = project / name
        if change == "remove":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes() + b"\n")
            if change == "stage":
                git(project, "add", name)
        before = everything(project)
        with pytest.raises(Exception) as caught:
            freeze_tree(project, study, SelfIssuedAuthority())
        assert everything(project) == before
        if not name.startswith("attestation"):
            assert isinstance(caught.value, UncommittedChangesError)
            assert name in caught.value.diagnostics()

    def test_untracked_product_file(self, project, study):
        freeze(project, study, SelfIssuedAuthority())
        (project / "pytest_sremut").mkdir()
        committed(project)
        (project / "pytest_sremut/new.py").write_text("x = 1\n")
        with pytest.raises(UncommittedChangesError, match="1 frozen or product"):
            freeze_tree(project, study, SelfIssuedAuthority())

    def test_twice(self, project, study):
        freeze(project, study, SelfIssuedAuthority())
        committed(project)
        freeze_tree(project, study, SelfIssuedAuthority())
        committed(project)
        with pytest.raises(AlreadyRegisteredError):
            freeze_tree(project, study, SelfIssuedAuthority())

    def test_earlier_than_the_predictions(self, project, study):
        freeze(project, study, SelfIssuedAuthority())
        committed(project)
        before = everything(project)
        early = SelfIssuedAuthority(clock=lambda: datetime.now(UTC) - timedelta(hours=1))
        with pytest.raises(TokenOrderError):
            freeze_tree(project, study, early)
        assert everything(project) == before

    def test_accuracy_counts(self, project, study):
        freeze(project, study, SelfIssuedAuthority(accuracy=timedelta(seconds=5)))
        committed(project)
        with pytest.raises(TokenOrderError, match="is not before"):
            freeze_tree(project, study, SelfIssuedAuthority())

    def test_project_below_the_top_of_the_checkout(self, project, study):
        top = project.parent
        freeze(project, study, SelfIssuedAuthority())
        git(top, "init", "-q")
        (top / "elsewhere.txt").write_text("not ours\n")
        git(top, "add", "-A")
        git(top, "commit", "-q", "-m", "all")
        (top / "elsewhere.txt").write_text("changed, and none of our business\n")
        freeze_tree(project, study, SelfIssuedAuthority())
        assert check(project, study).ok

    def test_environment_cannot_point_git_elsewhere(self, project, study, monkeypatch, tmp_path):
        freeze(project, study, SelfIssuedAuthority())
        committed(project)
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
        freeze_tree(project, study, SelfIssuedAuthority())


def test_forged_identity_is_not_ours():
    """The fixtures' keys are no part of the product."""
    assert forge.identity().chain[-1] != SelfIssuedAuthority().chain[-1]
