"""Adding a self-issued root to `attestation/trust.yaml`.

Rules: the file belongs to people, so lines are added at its end and nothing else is touched; the
result is read back before it replaces the old file, in one step; what cannot be added is told as
the lines to add by hand.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from pytest_sremut.attestation.errors import MisuseError
from pytest_sremut.attestation.rfc3161.trust import (
    TRUST_FILE,
    PinnedRoot,
    TrustStore,
    load_trust,
    parse_trust,
    pin_entry,
)
from pytest_sremut.errors import InputError
from pytest_sremut.ground.durable.atomic import TEMPORARY, fsync_directory, write_new

__all__ = ["add_pin", "trust_of"]

_EMPTY = "roots: []"
_HEADER = """\
# The roots that this project believes, pinned by SHA-256 fingerprint. A root inside a token proves
# nothing by itself. `independence: self-issued` marks authorities that the project ran itself.
schema: sremut/trust/v1
roots:
"""


def trust_of(root: Path) -> TrustStore:
    """The project's pins; none where it has no trust file yet.

    Raises:
        InputError: The trust file is not what it must be.
    """
    file = root / TRUST_FILE
    return load_trust(file) if os.path.lexists(file) else TrustStore(roots=())


def add_pin(root: Path, pin: PinnedRoot, *, file: str, comment: str) -> None:
    """Pin a root whose certificate lies at `file`, relative to the trust file.

    Raises:
        MisuseError: The trust file cannot take it; it is as before.
    """
    target = root / TRUST_FILE
    entry = pin_entry(name=pin.name, sha256=pin.sha256, file=file, comment=comment)
    old = target.read_text(encoding="utf-8") if target.exists() else _HEADER
    body = old.rstrip()
    if body.endswith(_EMPTY):
        body = body.removesuffix(" []")
    new = f"{body}\n{entry}".encode()
    try:
        taken = any(one.sha256 == pin.sha256 for one in parse_trust(new, file=target).roots)
    except InputError as error:
        taken, why = False, str(error)
    else:
        why = "the lines would not become part of `roots:`"
    if not taken:
        raise MisuseError(
            f"{TRUST_FILE} cannot take the pin of {pin.name}: {why}",
            details=["Put `roots:` last, as a list with two spaces before each dash."],
        )
    temporary = target.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        write_new(temporary, new)
        temporary.replace(target)
        fsync_directory(target.parent)
    except OSError as error:
        raise MisuseError(f"{TRUST_FILE} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
