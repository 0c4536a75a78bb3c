"""Who made a piece of evidence: product, process, boot, session, and which files were studied."""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest_sremut
from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable.atomic import reason_of
from pytest_sremut.ground.durable.clock import Clock
from pytest_sremut.study.model import Protocol
from pytest_sremut.study.verdict import Registration

__all__ = [
    "AttemptIdentity",
    "boot_id",
    "file_digests",
    "new_session_id",
    "product_digest",
    "product_digest_of",
    "product_facts",
    "protocol_facts",
]

_OWN_FILES: Final = ("*.py", "*.json", "*.yaml", "*.lua", "Dockerfile", "types.txt")
_DEPENDENCIES: Final = ("jsonpatch", "jsonschema", "kubernetes", "pytest", "PyYAML", "rfc8785")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptIdentity:
    """What an attempt is an attempt at, and under which conditions. All of it is recorded."""

    study: str
    run: str
    mutant: str
    repetition: int  # from 1
    registration: Registration
    session: str
    files: Mapping[str, str]  # role -> SHA-256 of the study's file, see `file_digests`
    profile: str
    protocol: Mapping[str, Any] = field(default_factory=dict)  # `protocol_facts`
    cluster: Mapping[str, Any] = field(default_factory=dict)  # kind, name, context, facts
    product: Mapping[str, Any] = field(default_factory=dict)  # `product_facts`
    sealed: Mapping[str, Any] | None = None  # in a sealed session: registration, revision, key

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, enumerations as text."""
        bound = {} if self.sealed is None else {"sealed": dict(self.sealed)}
        return {
            **bound,
            "study": self.study,
            "run": self.run,
            "mutant": self.mutant,
            "repetition": self.repetition,
            "registration": self.registration.value,
            "session": self.session,
            "files": dict(self.files),
            "profile": self.profile,
            "protocol": dict(self.protocol),
            "cluster": dict(self.cluster),
            "product": dict(self.product),
        }


def file_digests(root: Path, files: Mapping[str, PurePosixPath]) -> dict[str, str]:
    """SHA-256 of a study's files (`Study.frozen`), by role. Raises EvidenceError."""
    digests: dict[str, str] = {}
    for role, file in files.items():
        try:
            digests[role] = hashlib.sha256((root / file).read_bytes()).hexdigest()
        except OSError as error:
            raise EvidenceError(f"{file}: cannot be read: {reason_of(error)}") from error
    return digests


def protocol_facts(protocol: Protocol) -> dict[str, Any]:
    """The numbers of a profile as a record keeps them."""
    facts = asdict(protocol)
    facts["deadlines"] = dict(protocol.deadlines)
    facts["images"] = dict(protocol.images)
    facts["workload"]["mix"] = list(facts["workload"]["mix"])
    return facts


def product_facts() -> dict[str, Any]:
    """Version and digest of this product, of what runs it and of what it stands on."""
    return {
        "name": "pytest-sremut",
        "version": pytest_sremut.__version__,
        "digest": product_digest(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "dependencies": {name: _version(name) for name in _DEPENDENCIES},
    }


def product_digest(package: Path | None = None) -> str:
    """SHA-256 over the package's own files: two installations agree exactly if their code does.

    Over one line `SHA256  PATH` per file of ours that says what is done, sorted by path: code,
    schemas, rules, roles, images.
    """
    base = package or Path(pytest_sremut.__file__).parent
    return _digest_of(
        {
            path.relative_to(base).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in base.rglob("*")
            if _is_own(path) and path.is_file()
        }
    )


def product_digest_of(files: Mapping[str, str]) -> str:
    """`product_digest` of a package that is known by the SHA-256 of its files.

    Args:
        files: Path in the package -> SHA-256, of all its files.
    """
    return _digest_of({name: digest for name, digest in files.items() if _is_own(Path(name))})


def _is_own(path: Path) -> bool:
    return any(path.match(pattern) for pattern in _OWN_FILES)


def _digest_of(files: Mapping[str, str]) -> str:
    lines = [f"{digest}  {name}\n" for name, digest in files.items()]
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()


def boot_id() -> str:
    """Identifies the boot within which monotonic times compare; `unknown` where there is none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def new_session_id(clock: Clock) -> str:
    """`20260829T102209Z-1f2e3d`: sorts by time, unique enough for one evidence directory."""
    return clock.now().strftime("%Y%m%dT%H%M%SZ-") + secrets.token_hex(3)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
