"""Checks a record against its schema, in words that name the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.formats.quickschema import accepts
from pytest_sremut.ground.formats.schema import describe, validator_for
from pytest_sremut.ground.formats.yamlevents import dotted_path

__all__ = ["checked", "parse_checked", "plain"]


def checked(
    name: str, value: Any, *, what: str, package: str = "pytest_sremut.evidence"
) -> Mapping[str, Any]:
    """`value`, which satisfies the schema `name` of a package of ours.

    Raises:
        EvidenceError: It does not; names `what`, the place in it, what stands there and what may.
    """
    if isinstance(value, Mapping) and accepts(package, name, value):
        return value
    errors = validator_for(package, name).iter_errors(value)
    # Of keys and indices beside each other only their texts can be ordered.
    told = sorted((describe(error) for error in errors), key=lambda item: [str(p) for p in item[0]])
    if told:
        path, found, allowed = told[0]
        where = dotted_path(path)
        place = f"{what}: {where}" if where else what
        raise EvidenceError(f"{place}: found {found}; allowed: {allowed}")
    assert isinstance(value, Mapping)
    return value


def parse_checked(
    name: str, data: bytes, *, what: str, package: str = "pytest_sremut.evidence"
) -> Mapping[str, Any]:
    """The JSON value of `data`, which satisfies the schema. Raises EvidenceError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{what}: not JSON: {error}") from None
    return checked(name, value, what=what, package=package)


def plain(value: Any) -> Any:
    """A copy in which every mapping is a dict and every tuple a list, as JSON would give back."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
