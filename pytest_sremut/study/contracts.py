"""Loading a contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.ground.formats.durations import seconds
from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_yaml
from pytest_sremut.study.model import Contract, Invariant
from pytest_sremut.study.names import Check

__all__ = ["load_contract", "parse_contract"]

_DURATIONS = frozenset({"connect_timeout"})


def load_contract(root: Path, file: PurePosixPath) -> Contract:
    """Load `file`, relative to `root`. Raises InputError."""
    return parse_contract(read_yaml(root, file))


def parse_contract(source: YamlFile) -> Contract:
    """A contract from its parsed file. Raises InputError."""
    validate(source, "contract")
    entries = source.value["invariants"]
    ids: list[str] = [entry["id"] for entry in entries]
    for index, entry in enumerate(entries):
        if entry["id"] in ids[:index]:
            raise source.error(
                ("invariants", index, "id"),
                found=f"{entry['id']} a second time",
                allowed="every id once",
            )
        _check_again(source, index, entry, ids)
    poll = seconds(source.value["poll"])
    if poll <= 0:
        raise source.error(("poll",), found=source.value["poll"], allowed="more than 0s")
    return Contract(
        id=source.value["id"],
        title=source.value["title"],
        file=source.file,
        invariants=tuple(_invariant(entry) for entry in entries),
        poll=poll,
    )


def _check_again(source: YamlFile, index: int, entry: Mapping[str, Any], ids: list[str]) -> None:
    by_id = {other["id"]: other for other in source.value["invariants"]}
    for position, name in enumerate(entry.get("parameters", {}).get("again", ())):
        others = [one for one in ids if by_id[one]["check"] != Check.REPAIR_PERSISTENCE.value]
        if name not in others:
            raise source.error(
                ("invariants", index, "parameters", "again", position),
                found=name,
                allowed=", ".join(others) or "ids of other invariants",
            )


def _invariant(entry: Mapping[str, Any]) -> Invariant:
    parameters = {
        key: seconds(value) if key in _DURATIONS else value
        for key, value in entry.get("parameters", {}).items()
    }
    return Invariant(
        id=entry["id"],
        name=entry["name"],
        check=Check(entry["check"]).value,
        deadline=seconds(entry["deadline"]),
        parameters=parameters,
    )
