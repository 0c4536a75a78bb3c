"""The ledger as a document: its schema, its bytes, and checks against the schemas of this room.

The bytes are canonical JSON and a final newline: same records, same bytes, on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_sremut.evidence import check
from pytest_sremut.ground.formats.canonical import canonical_json

__all__ = ["FORMAT", "SCHEMA", "checked", "ledger_bytes", "parse_ledger"]

SCHEMA: Final = "sremut/ledger/v1"
FORMAT: Final = 2
"""Raised whenever the same records would give another ledger."""
_ROOM: Final = "pytest_sremut.ledger"


def checked(name: str, value: Any, *, what: str) -> Mapping[str, Any]:
    """`value`, which satisfies the schema `name` of this room.

    Raises:
        EvidenceError: It does not. Names `what`, the place, what was found and what is allowed.
    """
    return check.checked(name, value, what=what, package=_ROOM)


def ledger_bytes(ledger: Mapping[str, Any]) -> bytes:
    """The bytes of `ledger.json`."""
    return canonical_json(ledger, what="ledger") + b"\n"


def parse_ledger(data: bytes, *, what: str) -> Mapping[str, Any]:
    """Read a ledger. Raises EvidenceError for anything else, including another version."""
    return check.parse_checked("ledger", data, what=what, package=_ROOM)
