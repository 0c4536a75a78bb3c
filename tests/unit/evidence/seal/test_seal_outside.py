"""Whatever stands where a seal should: verification tells it and never raises."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sealed_doubles import SESSION, sealed_evidence

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.seal import SessionKey
from pytest_sremut.evidence.seal.evidence import verify_evidence
from pytest_sremut.evidence.seal.key import fingerprint, is_signed
from pytest_sremut.evidence.seal.sums import dump_sums, parse_sums
from pytest_sremut.evidence.seal.verify import verify_attempt
from pytest_sremut.ground.formats.canonical import canonical_json

PLACE = "missing_service/ms-m01-r01/a01"
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

digests = st.text("0123456789abcdef", min_size=64, max_size=64)
paths = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(st.dictionaries(paths, digests, max_size=6))
def test_a_listing_reads_back_as_it_was_or_is_refused(files: dict[str, str]) -> None:
    try:
        data = dump_sums(files)
    except EvidenceError:
        assert any("\\" in path or path.splitlines() != [path] for path in files)
        return
    assert parse_sums(data) == files


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader_of_listings(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert dump_sums(parse_sums(data)) == data


@pytest.mark.parametrize(
    "text",
    [
        b"0" * 64 + b" *path\n",
        b"0" * 64 + b"  path",
        b"0" * 63 + b"  path\n",
        b"A" * 64 + b"  path\n",
        b"0" * 64 + b"  b\n" + b"0" * 64 + b"  a\n",
        b"0" * 64 + b"  a\n" + b"1" * 64 + b"  a\n",
        b"0" * 64 + b"  a\r\n",
        b"\n",
    ],
    ids=["binary mode", "no end", "short", "upper case", "unsorted", "twice", "CRLF", "empty line"],
)
def test_listings_that_are_not_ours(text: bytes) -> None:
    with pytest.raises(EvidenceError, match="SHA256SUMS"):
        parse_sums(text)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader_of_keys(text: str) -> None:
    for reader in (fingerprint, lambda given: is_signed(given, b"", b"x" * 64)):
        with contextlib.suppress(EvidenceError):
            reader(text)


def test_a_key_of_another_kind() -> None:
    import base64

    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = (
        X25519PrivateKey.generate()
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(EvidenceError, match="another kind than Ed25519"):
        is_signed(base64.b64encode(der).decode(), b"", b"x" * 64)


@quick
@given(
    st.sampled_from(["seal/seal.json", "seal/SHA256SUMS", "attempt.json", "journal.jsonl"]),
    st.one_of(
        st.binary(max_size=80),
        st.recursive(
            st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=6,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_whatever_stands_there_is_told(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    directory = _shared(tmp_path_factory)
    file = directory / PLACE / name
    before = file.read_bytes()
    try:
        file.write_bytes(data)
        assert not verify_attempt(directory / PLACE).holds
        assert verify_evidence(directory).first_broken is not None
    finally:
        file.write_bytes(before)


_MADE: list[Path] = []


def _shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not _MADE:
        _MADE.append(
            sealed_evidence(tmp_path_factory.mktemp("outside") / "e", attempts=1).directory
        )
    return _MADE[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(key={**body["key"], "sha256": "0" * 64}),
        lambda body: body["sums"].update(files=1),
        lambda body: body["journal"].update(entries=1),
        lambda body: body.update(extent="partial"),
        lambda body: body.update(
            extent="partial",
            stop={"reason": "x", "last_transition": "CLOSING", "after_entries": 1},
        ),
        lambda body: body.update(guards={"held": True, "broken": ["x"]}),
        lambda body: body["identity"].update(registration="0" * 64),
        lambda body: body["identity"].update(cluster="another"),
        lambda body: body["identity"].update(product="another"),
        lambda body: body.update(outcome="PROTOCOL_VIOLATION"),
        lambda body: body.update(record="0" * 64),
        lambda body: body.update(empty_directories=["raw/x"]),
        lambda body: body["anchor"].update(files={"anchor.tsr": "0" * 64}),
    ],
    ids=[
        "fingerprint", "count", "entries", "extent", "stop", "guards", "registration", "cluster",
        "product", "outcome", "record", "empty directory", "stamp",
    ],
)  # fmt: skip
def test_a_seal_that_is_signed_and_says_what_is_not_so(tmp_path: Path, change: object) -> None:
    """Whoever holds the key can sign anything; what it says is compared with the evidence."""
    from sealed_doubles import begin, evidence, finish

    from pytest_sremut.evidence.seal import seal_attempt

    key = SessionKey.generate(SESSION)
    attempt = finish(begin(evidence(tmp_path / "evidence"), key)).directory
    seal_attempt(attempt, key=key)
    assert verify_attempt(attempt).holds
    file = attempt / "seal" / "seal.json"
    body = json.loads(file.read_bytes())
    change(body)  # type: ignore[operator]
    data = canonical_json(body)
    file.write_bytes(data)
    (attempt / "seal" / "seal.sig").write_bytes(key.sign(data))
    assert not verify_attempt(attempt).holds
