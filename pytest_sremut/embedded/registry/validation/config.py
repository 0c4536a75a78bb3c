"""Rules of ConfigMaps and Secrets."""

from __future__ import annotations

import re

from pytest_sremut.embedded.meta.fielderrors import FieldErrors
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["check_config_map", "check_config_update", "check_secret"]

MAX_DATA = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")


def check_config_map(value: JsonObject, errors: FieldErrors) -> None:
    """Keys, their uniqueness across both maps, total size."""
    data, binary = value.get("data") or {}, value.get("binaryData") or {}
    _check_keys("data", data, errors)
    for key in data:
        if key in binary:
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    _check_keys("binaryData", binary, errors)
    _check_size("", [*data.values(), *binary.values()], errors)


def check_secret(value: JsonObject, errors: FieldErrors) -> None:
    """Keys and total size."""
    data = value.get("data") or {}
    _check_keys("data", data, errors)
    _check_size("data", list(data.values()), errors)


def check_config_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """What is immutable stays; a Secret keeps its type."""
    if value.get("type") != old.get("type"):
        errors.invalid("type", value.get("type", ""), "field is immutable")
    if not old.get("immutable"):
        return
    if not value.get("immutable"):
        errors.forbidden("immutable", "field is immutable when `immutable` is set")
    for key in ("data", "binaryData"):
        if value.get(key) != old.get(key):
            errors.forbidden(key, "field is immutable when `immutable` is set")


def _check_keys(field: str, data: JsonObject, errors: FieldErrors) -> None:
    for key in data:
        place = f"{field}[{key}]"
        if len(key) > 253:
            errors.invalid(place, key, "must be no more than 253 characters")
        if not _KEY.match(key):
            errors.invalid(
                place,
                key,
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                "'[-._a-zA-Z0-9]+')",
            )
        if key in (".", "..") or key.startswith(".."):
            why = f"must not be '{key}'" if key in (".", "..") else "must not start with '..'"
            errors.invalid(place, key, why)


def _check_size(field: str, values: list[str], errors: FieldErrors) -> None:
    if sum(len(item.encode("utf-8", "replace")) for item in values) > MAX_DATA:
        errors.invalid(field or "[]", "", f"Too long: may not be more than {MAX_DATA} bytes")
