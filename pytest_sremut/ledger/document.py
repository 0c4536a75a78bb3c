"""The ledger as a document: its schema, its bytes, and checks against the schemas of this room.

The bytes are canonical JSON and a final newline: same records, same bytes, on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.study.canonical import canonical_json
from pytest_sremut.study.quickschema import accepts
from pytest_sremut.study.schema import describe, validator_for
from pytest_sremut.study.yamlevents import dotted_path

__all__ = ["FORMAT", "SCHEMA", "checked", "ledger_bytes", "parse_ledger"]

SCHEMA: Final = "sremut/ledger/v1"
FORMAT: Final = 1
"""Raised whenever the same records would give another ledger."""


def checked(name: str, value: Any, *, what: str) -> Mapping[str, Any]:
    """`value`, which satisfies the schema `name` of this room.

    Raises:
        EvidenceError: It does not; names `what`, the place in it, what stands there and what may.
    """
    if isinstance(value, Mapping) and accepts("pytest_sremut.ledger", name, value):
        return value
    errors = validator_for("pytest_sremut.ledger", name).iter_errors(value)
    told = sorted((describe(error) for error in errors), key=lambda item: [str(p) for p in item[0]])
    if told:
        path, found, allowed = told[0]
        where = dotted_path(path)
        place = f"{what}: {where}" if where else what
        raise EvidenceError(f"{place}: found {found}; allowed: {allowed}")
    assert isinstance(value, Mapping)
    return value


def ledger_bytes(ledger: Mapping[str, Any]) -> bytes:
    """What stands in `ledger.json`."""
    return canonical_json(ledger, what="ledger") + b"\n"


def parse_ledger(data: bytes, *, what: str) -> Mapping[str, Any]:
    """A ledger read back. Raises EvidenceError for anything else, another version included."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{what}: not JSON: {error}") from None
    return checked("ledger", value, what=what)
