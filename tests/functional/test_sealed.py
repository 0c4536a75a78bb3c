"""A sealed session on a real cluster, verified offline and judged; then what tampering gets."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from quick import HOW, MAIN, Result, require_clusters, run, session
from sealed_project import git, register, sremut
from small import make_small

from pytest_sremut.evidence.seal import seal_recovered

OPTIONS = ("-p", "no:cacheprovider", "--sremut-sealed", "--sremut-profile=quick")


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick project whose registration and commit are stamped."""
    require_clusters()
    directory = make_small(tmp_path_factory.mktemp("sealed"))
    register(directory, MAIN)
    return directory


@pytest.fixture(scope="module")
def sealed(registered: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Two runs over two workers, stamped by an authority of their own."""
    project = tmp_path_factory.mktemp("run") / "project"
    shutil.copytree(registered, project)
    return run(
        project, *HOW["-n2"], "--sremut-tsa=self", "-k", "ms-m01 or ms-m03", f"audits/{MAIN}",
        options=OPTIONS,
    )  # fmt: skip


@pytest.fixture
def copy(sealed: Result, tmp_path: Path) -> Result:
    """A copy of it, to be tampered with."""

    project = tmp_path / "project"
    shutil.copytree(sealed.project, project, ignore=shutil.ignore_patterns("tmp", "state"))
    return replace(sealed, project=project)


def test_every_run_is_sealed_by_the_controller(sealed: Result) -> None:
    assert sealed.code == 0, sealed.out
    assert [attempt["outcome"] for attempt in sealed.attempts()] == ["COMPLETE"] * 2
    keys = set()
    for attempt in sealed.attempts():
        directory = sealed.directory(attempt)
        seal = json.loads((directory / "seal" / "seal.json").read_bytes())
        keys.add(seal["key"]["public"])
        assert seal["extent"] == "complete"
        assert seal["guards"] == {"held": True, "broken": []}
        assert seal["anchor"]["state"] == "self-issued, no independent clock"
        assert seal["identity"]["session"] == attempt["session"]
        assert seal["identity"]["cluster"]
        identity = json.loads((directory / "attempt.json").read_bytes())
        assert identity["registration"] == "SEALED"
        assert {identity["sealed"]["key"]} == keys
    assert len(keys) == 1
    (session,) = (sealed.evidence() / "sessions").iterdir()
    assert json.loads((session / "session.json").read_bytes())["key"]["public"] in keys
    assert json.loads((session / "seal" / "seal.json").read_bytes())["key"]["public"] in keys


def test_what_the_session_says_of_itself(sealed: Result) -> None:
    told = "SEALED [registration self-issued; anchor self-issued]"
    assert f"sremut: SEALED {MAIN} r01 sha256:" in sealed.out
    assert "key SHA-256 " in sealed.out
    assert f"sremut: {told} {MAIN} r01" in sealed.out
    properties = {
        (p.attrib["name"], p.attrib["value"])
        for p in ElementTree.parse(sealed.junit).iter("property")
    }
    assert ("sremut.registration", "SEALED") in properties
    assert "official" not in sealed.out.lower()


def test_it_verifies_offline(sealed: Result) -> None:
    evidence = sealed.evidence()
    done = sremut(sealed.project, "verify", str(evidence))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert f"OK   {MAIN}/ms-m01-r01/a01 guards: held" in done.stdout
    assert (
        f"OK   {MAIN}/ms-m01-r01/a01 registered: files and graders are the registered ones"
        in done.stdout
    )
    one = sremut(sealed.project, "verify", str(sealed.directory(sealed.attempts()[0])))
    assert one.returncode == 0, one.stdout + one.stderr


def test_it_is_judged(copy: Result) -> None:
    report = copy.project / "page.md"
    result = run(
        copy.project, "-p", "no:xdist", "--sremut-adjudicate", f"--sremut-report=md:{report}",
        "-m", "mutant", options=("-p", "no:cacheprovider"),
    )  # fmt: skip
    assert f"{MAIN}: SEALED [registration self-issued; anchor self-issued]" in result.out
    assert "evidence " not in "\n".join(x for x in result.out.splitlines() if "does not hold" in x)
    ledger = json.loads((copy.project / ".sremut" / "ledger.json").read_bytes())
    (study,) = (one for one in ledger["studies"] if one["id"] == MAIN)
    assert [row["holds"] for row in study["registration"]["seals"]] == [True] * 2
    for text in (
        result.out,
        report.read_text(),
        json.dumps(ledger),
        (copy.project / ".sremut" / "ledger.md").read_text(),
    ):
        assert "official" not in text.lower()
        assert "SEALED [registration self-issued; anchor self-issued]" in text.replace("\\", "")


def test_one_changed_byte_is_named_and_not_counted(copy: Result) -> None:
    attempt = copy.directory(copy.attempts()[1])
    journal = attempt / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"utc":"2', b'"utc":"3')
    journal.write_bytes(b"".join(lines))
    done = sremut(copy.project, "verify", str(copy.evidence()))
    assert done.returncode == 1
    place = attempt.relative_to(copy.evidence())
    assert f"first broken link: {place}/journal.jsonl: line 5: " in done.stdout
    result = run(
        copy.project, "-p", "no:xdist", "--sremut-adjudicate", "-m", "mutant",
        options=("-p", "no:cacheprovider"),
    )  # fmt: skip
    assert result.code == 1
    assert "1 of 3 runs have a valid attempt" in result.out


def test_a_record_without_its_seal_or_with_that_of_another_is_not_counted(copy: Result) -> None:
    first, second = (copy.directory(attempt) for attempt in copy.attempts())
    shutil.rmtree(second / "seal")
    (first / "seal").rename(second / "seal")
    assert sremut(copy.project, "verify", str(copy.evidence())).returncode == 1
    assert sremut(copy.project, "verify", str(first)).returncode == 3
    assert sremut(copy.project, "verify", str(second)).returncode == 1
    result = run(
        copy.project, "-p", "no:xdist", "--sremut-adjudicate", "-m", "mutant",
        options=("-p", "no:cacheprovider"),
    )  # fmt: skip
    assert result.code == 1
    assert "0 of 3 runs have a valid attempt" in result.out
    assert "seal: not sealed" in result.out


def test_in_one_process(registered: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(registered, project)
    arguments = (*HOW["no xdist"], "-k", "ms-m01", f"audits/{MAIN}")
    result = run(project, *arguments, options=OPTIONS)
    assert result.code == 0, result.out
    assert "SEALED [registration self-issued; unanchored]" in result.out
    done = sremut(project, "verify", str(result.evidence()))
    assert done.returncode == 0, done.stdout
    git(project, "diff", "--exit-code")  # nothing of the project was written to


def test_interrupted(registered: Path, tmp_path: Path) -> None:
    """What was mutated is put back, and the attempt is sealed as what it is."""
    project = tmp_path / "project"
    shutil.copytree(registered, project)
    arguments = (*HOW["-n0"], "-k", "ms-m01", f"audits/{MAIN}")
    with session(project, *arguments, options=OPTIONS) as running:
        running.until_journal("MUTANT_INJECTED")
        running.signal(signal.SIGINT)
        result = running.end()
    assert result.code == 2, result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "DRIVER_ABORTED"
    seal = json.loads((result.directory(attempt) / "seal" / "seal.json").read_bytes())
    assert (seal["extent"], seal["outcome"]) == ("complete", "DRIVER_ABORTED")
    assert "the run ended at ABORTED_SAFE, not at FINALIZED" in seal["guards"]["broken"]
    done = sremut(project, "verify", str(result.evidence()))
    assert done.returncode == 0, done.stdout
    assert "not every guard held" in done.stdout


def test_killed_before_sealing(registered: Path, tmp_path: Path) -> None:
    """Nothing is sealed, nothing is wrong, and nothing can be verified; recovery seals the rest."""
    project = tmp_path / "project"
    shutil.copytree(registered, project)
    arguments = ("-p", "no:xdist", "-k", "ms-m01", f"audits/{MAIN}")
    with session(project, *arguments, options=OPTIONS) as running:
        running.until_journal("MUTANT_INJECTED")
        running.signal(signal.SIGKILL)
        result = running.end()
        running.until_gone()
    (attempt,) = result.attempts()
    directory = result.directory(attempt)
    assert not (directory / "seal").exists()
    done = sremut(project, "verify", str(result.evidence()))
    assert done.returncode == 3, done.stdout
    assert "seal: cannot be verified: not sealed" in done.stdout
    assert "the session was not closed" in done.stdout
    assert seal_recovered(directory, session="recovery", stop="the session was killed") is not None
    done = sremut(project, "verify", str(result.evidence()))
    assert done.returncode == 3, done.stdout
    assert "extent: partial: the session was killed" in done.stdout
