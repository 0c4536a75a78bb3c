"""A kubeconfig whose current context is the one that a reading is about.

A benchmark's client takes the current context of `$KUBECONFIG`, whatever that may be. So it gets a
file of its own, readable by us alone, in which the context is the right one and every other is
left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pytest_sremut.errors import UsageError

__all__ = ["write_single_context"]

_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def write_single_context(source: Path, context: str, destination: Path) -> None:
    """Write `destination` (mode 0600) with only `context` of `source` in it.

    Raises:
        UsageError: `source` cannot be read or has no such context.
    """
    try:
        document = yaml.safe_load(source.read_bytes())
        chosen = _named(document, "contexts", context)["context"]
        parts = {
            "clusters": _named(document, "clusters", chosen["cluster"]),
            "users": _named(document, "users", chosen["user"]),
        }
    except (OSError, yaml.YAMLError, KeyError, TypeError, LookupError) as error:
        raise UsageError(f"{source}: context {context} cannot be read: {error}") from error
    for entry, key in ((parts["clusters"], "cluster"), (parts["users"], "user")):
        entry[key] = _absolute(entry[key], source.parent)
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": chosen}],
        **{kind: [entry] for kind, entry in parts.items()},
    }
    temporary = destination.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(written, file)
    temporary.replace(destination)


def _named(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in document[kind]:
        if entry["name"] == name:
            return dict(entry)
    raise LookupError(f"no {name} among its {kind}")


def _absolute(values: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Paths in a kubeconfig are relative to the file they stand in."""
    return {
        key: str(base / value) if key in _FILES and isinstance(value, str) else value
        for key, value in values.items()
    }
