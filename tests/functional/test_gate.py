"""Nothing runs under a registration that does not hold; each failed check is told; exit 4."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN = "missing_service_social_network"
PINNED = "pinned_endpoints_social_network"
FROZEN = {
    "predictions": f"audits/{PINNED}/predictions.yaml",
    "study": f"audits/{PINNED}/study.yaml",
    "mutants": "mutants/pinned_endpoints.yaml",
    "contract": "contracts/missing_service_social_network.yaml",
}
# A cell that is selected and cannot run: behind the gate waits a context that was not allowed.
NOTHING = (
    "-m", "mutant", "-k", f"{PINNED} and healthy and O1",
    "--sremut-cluster=context:nowhere", "--sremut-profile=embedded",
)  # fmt: skip


def sremut(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest_sremut.cli", *arguments)


@pytest.fixture(scope="module")
def registered_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose studies are registered by an authority of its own."""
    import subprocess

    directory = tmp_path_factory.mktemp("registered")
    for name in ("audits", "mutants", "contracts"):
        shutil.copytree(ROOT / name, directory / name)
    (directory / "attestation").mkdir()
    (directory / "attestation" / "trust.yaml").write_text("schema: sremut/trust/v1\nroots: []\n")
    for study in (MAIN, PINNED):
        subprocess.run(
            [sys.executable, "-m", "pytest_sremut.cli", "freeze", study, "--tsa", "self"],
            cwd=directory, check=True, capture_output=True,
        )  # fmt: skip
    return directory


@pytest.fixture
def registered(pytester: pytest.Pytester, registered_files: Path) -> Path:
    shutil.copytree(registered_files, pytester.path, dirs_exist_ok=True)
    return pytester.path


def revision(project: Path) -> Path:
    return project / "attestation" / PINNED / "r01"


def assert_passed(result: pytest.RunResult) -> None:
    """Past the gate: the cell was collected and stopped for want of its cluster."""
    result.assert_outcomes(errors=1, deselected=result.parseoutcomes().get("deselected", 0))
    result.stdout.fnmatch_lines(["*context 'nowhere' is not allowed*"])


def refused(pytester: pytest.Pytester, *how: str) -> str:
    start = pytester.runpytest_subprocess if how else pytester.runpytest_inprocess
    result = start(*NOTHING, *how)
    text = result.stderr.str() + result.stdout.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text
    assert "nothing was run:" in text
    assert "Traceback" not in text
    assert not (pytester.path / ".sremut").exists()
    return text


def test_a_registration_that_holds_is_passed_whatever_is_not_selected(
    registered: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    other = registered / "audits" / MAIN / "predictions.yaml"
    other.write_bytes(other.read_bytes() + b"\n")
    result = pytester.runpytest_subprocess(*NOTHING, *how)
    assert_passed(result)
    result.stdout.fnmatch_lines(
        [
            f"sremut: {PINNED} r01 sha256:*, stamped by self-* at 20*Z, "
            "self-issued, no independent clock"
        ]
    )


@pytest.mark.parametrize("role", sorted(FROZEN))
def test_one_byte_of_a_frozen_file(registered: Path, pytester: pytest.Pytester, role: str) -> None:
    file = registered / FROZEN[role]
    file.write_bytes(file.read_bytes() + b"\n")
    text = refused(pytester)
    assert f"FAIL frozen {role}" in text
    assert FROZEN[role] in text


def test_every_failed_check_has_its_line(
    registered: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    for role in ("predictions", "mutants"):
        file = registered / FROZEN[role]
        file.write_bytes(file.read_bytes() + b"\n")
    text = refused(pytester, *how)
    assert "FAIL frozen predictions" in text
    assert "FAIL frozen mutants" in text


def test_a_missing_file(registered: Path, pytester: pytest.Pytester) -> None:
    (revision(registered) / "predictions.tsr").unlink()
    assert "predictions.tsr" in refused(pytester)


def test_no_registration_at_all(project: Path, pytester: pytest.Pytester) -> None:
    text = refused(pytester)
    assert "no registration" in text
    assert f"sremut freeze {PINNED} --tsa URL" in text
    assert "--sremut-exploratory" in text


def test_a_token_of_another_study(registered: Path, pytester: pytest.Pytester) -> None:
    other = registered / "attestation" / MAIN / "r01" / "predictions.tsr"
    shutil.copy(other, revision(registered) / "predictions.tsr")
    assert "FAIL predictions" in refused(pytester)


def test_a_root_that_is_not_pinned(registered: Path, pytester: pytest.Pytester) -> None:
    (registered / "attestation" / "trust.yaml").write_text("schema: sremut/trust/v1\nroots: []\n")
    assert "FAIL predictions" in refused(pytester)


def test_an_edited_manifest(registered: Path, pytester: pytest.Pytester) -> None:
    file = revision(registered) / "manifest.json"
    body = json.loads(file.read_bytes())
    changed = registered / FROZEN["predictions"]
    changed.write_bytes(changed.read_bytes() + b"\n")
    import hashlib

    for entry in body["files"].values() if isinstance(body["files"], dict) else body["files"]:
        if entry["path"] == FROZEN["predictions"]:
            entry["sha256"] = hashlib.sha256(changed.read_bytes()).hexdigest()
    file.write_bytes(json.dumps(body, separators=(",", ":"), sort_keys=True).encode())
    text = refused(pytester)
    assert "FAIL frozen" not in text  # the digests agree, and the token does not cover them
    assert "FAIL predictions" in text


def test_exploring_needs_no_registration(project: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*NOTHING, "--sremut-exploratory")
    assert_passed(result)
    result.stdout.fnmatch_lines([f"sremut: {PINNED}: EXPLORATORY: no registration*"])


def test_exploring_is_said_under_a_registration_too(
    registered: Path, pytester: pytest.Pytester
) -> None:
    result = pytester.runpytest_inprocess(*NOTHING, "--sremut-exploratory")
    result.stdout.fnmatch_lines([f"sremut: {PINNED}: EXPLORATORY: no registration*"])
    result.stdout.no_fnmatch_line("*stamped by*")


def test_evidence_that_is_older_than_the_token(registered: Path, pytester: pytest.Pytester) -> None:
    """A stamp that came after the first recorded attempt proves nothing about it."""
    from pytest_sremut.evidence.identity import AttemptIdentity
    from pytest_sremut.evidence.root import EvidenceRoot
    from pytest_sremut.ground.durable.clock import SystemClock
    from pytest_sremut.study.verdict import Registration

    class Yesterday(SystemClock):
        def now(self):  # type: ignore[no-untyped-def]
            from datetime import timedelta

            return super().now() - timedelta(days=1)

    evidence = registered / "evidence"
    attempt = EvidenceRoot.open(evidence, clock=Yesterday()).begin(
        AttemptIdentity(
            study=PINNED,
            run="ms-m04-r01",
            mutant="MS-M04",
            repetition=1,
            registration=Registration.PREREGISTERED,
            session="s",
            files={"study": "0" * 64},
            profile="embedded",
        )
    )
    attempt.journal.append("CREATED")
    result = pytester.runpytest_inprocess(*NOTHING, f"--sremut-evidence={evidence}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "FAIL order" in result.stderr.str() + result.stdout.str()


def test_the_frozen_revision_stays_when_freezing_again(
    registered: Path, pytester: pytest.Pytester
) -> None:
    before = {f.name: f.read_bytes() for f in revision(registered).iterdir()}
    assert sremut(pytester, "freeze", PINNED, "--tsa", "self").ret == 0
    assert {f.name: f.read_bytes() for f in revision(registered).iterdir()} == before
    assert (registered / "attestation" / PINNED / "r02" / "manifest.json").is_file()
    result = pytester.runpytest_inprocess(*NOTHING)
    result.stdout.fnmatch_lines([f"sremut: {PINNED} r02 sha256:*"])


def test_an_exploration_says_what_would_make_it_fail(
    project: Path, pytester: pytest.Pytester
) -> None:
    study = project / "audits" / MAIN / "study.yaml"
    text = study.read_text()
    study.write_text(text.replace(f"predictions: audits/{MAIN}/predictions.yaml\n", ""))
    result = pytester.runpytest_inprocess("-m", "mutant", "--sremut-exploratory", "--collect-only")
    result.stdout.fnmatch_lines(
        [
            f"sremut: {MAIN}: a cell fails if a grader contradicts the contract, or raises",
            "sremut: pinned_*: a cell fails if it is not as predicted, or a grader raises",
        ]
    )
