"""Makes tokens of every kind, right and wrong, from fresh keys and a fixed clock."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import tlv
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.authority import (
    SelfIssuedAuthority,
    Stamp,
    assemble_reply,
    assemble_token,
)
from pytest_sremut.attestation.rfc3161.identity import Identity, KeyKind, new_identity
from pytest_sremut.attestation.rfc3161.trust import INDEPENDENT, PinnedRoot, TrustStore

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
DATA = b"predictions: all of them\n"
POLICY = "1.2.3.4.1"
TOKENS = Path(__file__).with_name("tokens")
SHARED = Path(__file__).resolve().parents[4] / "shared" / "tokens"


def identity(kind: KeyKind = "ec", length: int = 2) -> Identity:
    """One identity for each kind, valid a day from NOW."""
    return _identity(kind, length)


@functools.cache
def _identity(kind: KeyKind, length: int) -> Identity:
    return new_identity(
        organization=f"Forge {kind} {length}",
        now=NOW.replace(microsecond=0),
        lifetime=timedelta(days=1),
        kind=kind,
        length=length,
    )


def authority(
    kind: KeyKind = "ec", length: int = 2, *, clock: Callable[[], datetime] = lambda: NOW
) -> SelfIssuedAuthority:
    return SelfIssuedAuthority(
        identity=identity(kind, length), clock=clock, policies=(POLICY, "1.2.3.4.2")
    )


def trust(*chains: Identity, policies: tuple[str, ...] = ()) -> TrustStore:
    """Pins the roots of these identities."""
    return TrustStore(
        roots=tuple(
            PinnedRoot(
                name=f"root{index}",
                sha256=root.sha256,
                independence=INDEPENDENT,
                certificate=root,
                policies=policies,
            )
            for index, root in enumerate(certificates.load(one.chain[-1]) for one in chains)
        )
    )


def stamp(**changes: object) -> Stamp:
    """What a sound token over DATA says, with changes."""
    sound = Stamp(
        policy=POLICY,
        hash_algorithm="sha256",
        imprint=hashlib.sha256(DATA).digest(),
        serial=7,
        gen_time=NOW,
        accuracy=timedelta(seconds=1),
        nonce=1234,
    )
    return dataclasses.replace(sound, **changes)  # type: ignore[arg-type]


def token(
    content: Stamp | bytes | None = None,
    *,
    by: Identity | None = None,
    embedded: Sequence[bytes] | None = None,
    identifiers: Sequence[int] = (2,),
    digest: str = "sha256",
) -> bytes:
    """A bare token."""
    signer = by or identity()
    if content is None:
        content = stamp()
    return assemble_token(
        content.dump() if isinstance(content, Stamp) else content,
        signer,
        embedded=signer.chain[:-1] or signer.chain if embedded is None else embedded,
        identifiers=identifiers,
        digest=digest,
    )


def reply(content: Stamp | bytes | None = None, **options: object) -> bytes:
    """A granted reply."""
    return assemble_reply(token(content, **options))  # type: ignore[arg-type]


def pem(*chain: bytes) -> bytes:
    return b"".join(x509.load_der_x509_certificate(one).public_bytes(Encoding.PEM) for one in chain)


def key_pem(one: Identity) -> bytes:
    return one.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def to_ber(data: bytes) -> bytes:
    """The same value with indefinite lengths and octet strings in pieces."""
    element = tlv.read(data)
    if element.tag == tlv.OCTET_STRING and len(element.contents) > 40:
        half = len(element.contents) // 2
        pieces = (element.contents[:half], element.contents[half:])
        inner = b"".join(tlv.encode(tlv.OCTET_STRING, piece) for piece in pieces)
        return bytes((tlv.OCTET_STRING | 0x20, 0x80)) + inner + b"\0\0"
    if element.tag & 0x20:
        inner = b"".join(to_ber(child.raw) for child in tlv.children(element))
        return bytes((element.tag, 0x80)) + inner + b"\0\0"
    return element.raw


def rebuilt(data: bytes, path: Sequence[int], change: Callable[[bytes], bytes]) -> bytes:
    """`data` with the element at `path` (child numbers) replaced by `change` of it."""
    element = tlv.read(data)
    if not path:
        return change(data)
    parts = [child.raw for child in tlv.children(element)]
    parts[path[0]] = rebuilt(parts[path[0]], path[1:], change)
    return tlv.encode(element.tag, b"".join(parts))


# -- projects ------------------------------------------------------------------------------------

FILES = {
    "study": "audits/s1/study.yaml",
    "predictions": "audits/s1/predictions.yaml",
    "mutants": "mutants/s1.yaml",
    "contract": "contracts/s1.yaml",
}


def write_project(root: Path) -> Path:
    """The files of one study."""
    for role, name in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{role} of s1\n")
    return root


def make_study() -> SimpleNamespace:
    """What this room needs of a `Study`: id, file, frozen, and whose its graders are."""
    frozen = {role: PurePosixPath(name) for role, name in FILES.items()}
    return SimpleNamespace(id="s1", file=frozen["study"], frozen=frozen, oracles=())


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=root, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def committed(root: Path) -> None:
    if not (root / ".git").exists():
        git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
