"""The commands: one line a check, exits that tell invalid, misuse and unverifiable apart."""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import forge
import pytest

from pytest_sremut.attestation import cli
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.server import serve
from pytest_sremut.evidence.identity import AttemptIdentity
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.study.verdict import Registration

REPOSITORY = Path(__file__).resolve().parents[3]
STUDY = "missing_service_social_network"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with this repository's own studies, unregistered."""
    for name in ("audits", "mutants", "contracts"):
        shutil.copytree(REPOSITORY / name, tmp_path / "home" / name)
    return tmp_path / "home"


@pytest.fixture
def sremut(home, capsys, monkeypatch):
    """Runs a command in the project; gives exit code, stdout, stderr."""
    monkeypatch.chdir(home)

    def run(*arguments: object) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser(prog="sremut")
        cli.add_arguments(parser.add_subparsers(required=True))
        parsed = parser.parse_args([str(one) for one in arguments])
        code = parsed.run(parsed)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_freeze_and_verify(sremut, home):
    code, out, _ = sremut("freeze", STUDY, "--tsa", "self")
    assert code == 0
    assert "self-issued, no independent clock" in out
    code, out, _ = sremut("verify", STUDY)
    assert code == 0
    lines = out.splitlines()
    assert {line[:4] for line in lines[1:-3]} <= {"OK  ", "--  "}
    assert "FAIL" not in out
    if shutil.which("openssl"):
        command = next(line for line in lines if line.startswith("  openssl ts"))
        done = subprocess.run(shlex.split(command), cwd=home, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_invalid_is_1(sremut, home):
    sremut("freeze", STUDY, "--tsa", "self")
    file = home / "mutants/missing_service.yaml"
    file.write_bytes(file.read_bytes() + b"\n")
    code, out, _ = sremut("verify", STUDY)
    assert code == 1
    failures = [line for line in out.splitlines() if line.startswith("FAIL frozen")]
    assert len(failures) == 1
    code, out, _ = sremut("verify", STUDY, "--json")
    assert code == 1
    (report,) = json.loads(out)
    assert [one["error"] for one in report["checks"] if one["ok"] is False] == ["FrozenFileError"]


def test_unregistered_is_3(sremut):
    code, out, _ = sremut("verify")
    assert code == 3
    assert "sremut freeze STUDY" in out


def test_unverifiable_is_3(sremut, home, tmp_path):
    sremut("freeze", STUDY, "--tsa", "self")
    pins = tmp_path / "mine.yaml"
    pins.write_text("schema: sremut/trust/v1\nroots: []\n")
    code, out, _ = sremut("verify", STUDY, "--trust", pins)
    assert code == 3
    assert "FAIL predictions token: cannot be verified: no trusted root" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "nothing"),
        ("freeze", "nothing", "--tsa", "self"),
        ("freeze", STUDY, "--tsa", "ftp://x"),
        ("freeze", STUDY, "--tsa", "self", "--policy", "x"),
        ("verify", "--reply", "a"),
        ("verify", STUDY, "--reply", "a", "--data", "a"),
        ("verify", "--trust", "missing.yaml"),
    ],
)
def test_misuse_is_2(sremut, arguments):
    code, out, err = sremut(*arguments)
    assert code == 2
    assert err.startswith("sremut: ")
    assert "Traceback" not in out + err


def test_authority_by_url(sremut, home, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    authority = SelfIssuedAuthority()
    with serve(authority) as server:
        code, _, err = sremut("freeze", STUDY, "--tsa", server.url)
        assert code == 3  # its root is not pinned yet
        assert authority.root.sha256[:16] in err or "no trusted root" in err
        assert not (home / "attestation").exists()
        (home / "attestation").mkdir()
        (home / "attestation/r.pem").write_bytes(forge.pem(authority.chain[-1]))
        (home / "attestation/trust.yaml").write_text(
            "schema: sremut/trust/v1\nroots:\n  - name: loopback\n"
            f'    sha256: "{authority.root.sha256}"\n'
            "    independence: self-issued\n    file: r.pem\n"
        )
        code, out, err = sremut("freeze", STUDY, "--tsa", server.url, "--hash", "sha512")
        assert code == 0, err
    assert "by loopback" in out
    assert sremut("verify", STUDY)[0] == 0


def test_unreachable_is_3(sremut, monkeypatch):
    from pytest_sremut.attestation.rfc3161 import transport

    monkeypatch.setenv("no_proxy", "*")
    once = functools.partial(transport.HttpAuthority, attempts=1)
    monkeypatch.setattr(transport, "HttpAuthority", once)
    code, _, err = sremut("freeze", STUDY, "--tsa", "http://127.0.0.1:1/", "--timeout", "1")
    assert code == 3
    assert "no answer from http://127.0.0.1:1/" in err


def test_evidence(sremut, home, tmp_path):
    sremut("freeze", STUDY, "--tsa", "self")
    evidence = tmp_path / "evidence"
    opened = EvidenceRoot.open(evidence).begin(
        AttemptIdentity(
            study=STUDY,
            run="ms-m01-r01",
            mutant="MS-M01",
            repetition=1,
            registration=Registration.PREREGISTERED,
            session="s",
            files={"study": "0" * 64},
            profile="embedded",
        )
    )
    opened.journal.append("CREATED")
    opened.journal.close()
    attempt = opened.directory
    code, out, _ = sremut("verify", evidence)
    assert code == 3, out  # nothing is sealed; everything that can be checked holds
    assert "OK   order: predictions < first mutation" in out
    assert f"OK   {STUDY}/ms-m01-r01/a01 journal: 1 entries" in out
    assert "a01 seal: cannot be verified: PREREGISTERED: never sealed" in out
    sremut("freeze", STUDY, "--tsa", "self")  # registered again, after the run
    code, out, _ = sremut("verify", evidence)
    assert code == 1
    assert "FAIL order: predictions is not before first mutation" in out
    assert sremut("verify", evidence, "--revision", "1")[0] == 3
    (attempt / "journal.jsonl").write_text("{}\n")
    assert sremut("verify", evidence, "--revision", "1")[0] == 1


class TestReply:
    def test_sound_and_not(self, sremut, tmp_path):
        (tmp_path / "r.pem").write_bytes(forge.pem(forge.identity().chain[-1]))
        from pytest_sremut.attestation.rfc3161 import certificates

        sha256 = certificates.load(forge.identity().chain[-1]).sha256
        pins = tmp_path / "pins.yaml"
        pins.write_text(
            f'schema: sremut/trust/v1\nroots:\n  - name: r\n    sha256: "{sha256}"\n'
            "    independence: independent\n    file: r.pem\n"
        )
        (tmp_path / "reply").write_bytes(forge.reply())
        (tmp_path / "data").write_bytes(forge.DATA)
        one = ("verify", "--trust", pins, "--reply", tmp_path / "reply", "--data")
        code, out, _ = sremut(*one, tmp_path / "data")
        assert code == 0
        assert "--   nonce: not checked" in out
        code, out, _ = sremut(*one, tmp_path / "data", "--json")
        assert json.loads(out)["token"]["root"] == "r"
        code, out, _ = sremut(*one, pins)
        assert code == 1
        assert "FAIL token: the token is over other bytes" in out
        code, out, _ = sremut(*one, pins, "--json")
        assert (code, json.loads(out)["error"]) == (1, "ImprintMismatchError")
        (tmp_path / "reply").write_bytes(b"<html>")
        code, out, _ = sremut(*one, tmp_path / "data")
        assert code == 3
        assert "FAIL token: not a timestamp" in out


def test_tsa_serve():
    """The served authority stamps, and ends on SIGTERM without a word."""
    program = (
        "import argparse, sys; from pytest_sremut.attestation import cli;"
        "p = argparse.ArgumentParser(); cli.add_arguments(p.add_subparsers());"
        "a = p.parse_args(); sys.exit(a.run(a))"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "no_proxy": "*"}
    with subprocess.Popen(
        [sys.executable, "-c", program, "tsa", "serve"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        root = process.stdout.readline()
        assert "self-issued" not in url
        assert "root SHA-256" in root
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}root.pem", timeout=10) as response:
            assert response.read().startswith(b"-----BEGIN CERTIFICATE-----")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert err == ""
