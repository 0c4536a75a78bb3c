"""The trust file: every mistake is one error that names file, place, found and allowed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import forge
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.trust import (
    INDEPENDENT,
    SELF_ISSUED,
    load_trust,
    parse_trust,
    pin_entry,
)
from pytest_sremut.errors import InputError

ROOT = certificates.load(forge.identity().chain[-1])
HEAD = "schema: sremut/trust/v1\nroots:\n"


def entry(**changes: str) -> str:
    fields = {"name": "r", "sha256": f'"{ROOT.sha256}"', "independence": "independent"}
    lines = [f"    {key}: {value}\n" for key, value in {**fields, **changes}.items() if value]
    return "  -\n" + "".join(lines)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "root.pem").write_bytes(forge.pem(ROOT.der))
    (tmp_path / "root.der").write_bytes(ROOT.der)
    (tmp_path / "chain.pem").write_bytes(forge.pem(*forge.identity().chain))
    (tmp_path / "signer.pem").write_bytes(forge.pem(forge.identity().chain[0]))
    (tmp_path / "text.pem").write_text("no certificate")
    return tmp_path


def load(directory: Path, text: str):
    file = directory / "trust.yaml"
    file.write_text(text)
    return load_trust(file)


@pytest.mark.parametrize("file", ["root.pem", "root.der", "chain.pem", ""])
def test_sound(directory, file):
    store = load(
        directory, HEAD + entry(file=file, policies='["1.2.3"]', certificates="[signer.pem]")
    )
    (root,) = store.roots
    assert (root.name, root.sha256, root.independence) == ("r", ROOT.sha256, INDEPENDENT)
    assert root.policies == ("1.2.3",)
    assert (root.certificate is None) == (not file)
    assert store.certificates == (forge.identity().chain[0],)


def test_fingerprints_as_people_write_them(directory):
    colons = ":".join(ROOT.sha256[i : i + 2] for i in range(0, 64, 2)).upper()
    assert load(directory, HEAD + entry(sha256=f'"{colons}"')).roots[0].sha256 == ROOT.sha256


def test_pin_entry(directory):
    text = HEAD + pin_entry(name="x", sha256=ROOT.sha256, file="root.pem", comment="why")
    assert load(directory, text).roots[0].independence == SELF_ISSUED


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ""),
        ("[]", ""),
        ("schema: other\nroots: []\n", "schema"),
        ("roots: []\n", "schema"),
        ("schema: sremut/trust/v1\n", "roots"),
        ("schema: sremut/trust/v1\nroots: {}\n", "roots"),
        ("schema: sremut/trust/v1\nroots: []\nmore: 1\n", "more"),
        ("schema: sremut/trust/v1\nschema: sremut/trust/v1\nroots: []\n", "line 2"),
        ("schema: [\n", "line"),
        (HEAD + "  - 1\n", "roots"),
        (HEAD + entry(sha256='"12"'), "sha256"),
        (HEAD + entry(sha256=""), "sha256"),
        (HEAD + entry(independence="trusted"), "independence"),
        (HEAD + entry(fingerprint="x"), "fingerprint"),
        (HEAD + entry(name=""), "name"),
        (HEAD + entry(name="1"), "name"),
        (HEAD + entry(policies="1.2"), "policies"),
        (HEAD + entry(policies='["abc"]'), "policies"),
        (HEAD + entry(file="missing.pem"), "file"),
        (HEAD + entry(file="text.pem"), "file"),
        (HEAD + entry(file="signer.pem"), "file"),
        (HEAD + entry(file="."), "file"),
        (HEAD + entry(certificates="[text.pem]"), "certificates"),
        (HEAD + entry() + entry(name="other"), "roots"),
        (HEAD + entry() + entry(sha256=f'"{"0" * 64}"'), "roots"),
    ],
)
def test_mistakes(directory, text, place):
    with pytest.raises(InputError) as caught:
        load(directory, text)
    assert place in caught.value.place
    assert caught.value.file.endswith("trust.yaml")
    assert caught.value.found
    assert caught.value.allowed


def test_a_pin_of_something_that_is_no_root(directory):
    signer = certificates.load(forge.identity().chain[0])
    with pytest.raises(InputError, match="issued by another authority"):
        load(directory, HEAD + entry(sha256=f'"{signer.sha256}"', file="signer.pem"))


def test_missing(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_trust(tmp_path / "trust.yaml")


def test_the_projects_own():
    file = Path(__file__).resolve().parents[3] / "attestation" / "trust.yaml"
    store = load_trust(file)
    assert store.roots[0].name == "freetsa"
    assert store.roots[0].sha256.startswith("a6379e7cecc05faa3cbf076013d745e3")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes(data):
    for text in (data, HEAD.encode() + data):
        with contextlib.suppress(InputError):
            parse_trust(text, file=Path("trust.yaml"))
