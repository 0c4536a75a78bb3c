"""Loading a registry of mutants: every patch is proven against the registry's reference body."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.ground.formats.schema import show, validate
from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_yaml
from pytest_sremut.study.model import Mutant, MutantRegistry
from pytest_sremut.study.mutants import (
    POD_ADDRESSES,
    build_body,
    differing_paths,
    strip_server_fields,
)
from pytest_sremut.study.names import Criterion
from pytest_sremut.study.verdict import Expectation

__all__ = ["WHOLE_OBJECT", "load_registry", "parse_registry"]

WHOLE_OBJECT = ""
"""The JSON pointer of a document itself: what an absent mutant differs in."""


def load_registry(root: Path, file: PurePosixPath) -> MutantRegistry:
    """Load `file`, relative to `root`. Raises InputError."""
    return parse_registry(read_yaml(root, file))


def parse_registry(source: YamlFile) -> MutantRegistry:
    """A registry from its parsed file. Raises InputError."""
    validate(source, "mutants")
    captured: Mapping[str, Any] = source.value["captured"]
    managed = differing_paths(strip_server_fields(captured), captured)
    if managed:
        raise source.error(
            ("captured",),
            found=f"fields that the server manages: {', '.join(managed)}",
            allowed="the object without them",
        )
    mutants: list[Mutant] = []
    slugs: dict[str, str] = {}
    for index, entry in enumerate(source.value["mutants"]):
        path: tuple[Step, ...] = ("mutants", index)
        mutant = _mutant(entry)
        if mutant.slug in slugs:
            raise source.error(
                (*path, "id"),
                found=f"{mutant.id}, whose runs would be named like those of {slugs[mutant.slug]}",
                allowed="ids that differ in more than case",
            )
        slugs[mutant.slug] = mutant.id
        _prove(source, path, mutant, captured)
        mutants.append(mutant)
    return MutantRegistry(
        id=source.value["id"], file=source.file, captured=captured, mutants=tuple(mutants)
    )


def _mutant(entry: Mapping[str, Any]) -> Mutant:
    absent = "absent" in entry
    return Mutant(
        id=entry["id"],
        slug=entry["id"].lower(),
        models=entry["models"],
        absent=absent,
        patch=tuple(entry.get("patch", ())),
        creates=tuple(entry.get("creates", ())),
        activation=tuple(Criterion(word).value for word in entry["activation"]),
        differs=(WHOLE_OBJECT,) if absent else tuple(sorted(entry["differs"])),
        expect=Expectation(entry.get("expect", Expectation.REJECT)),
    )


def _prove(
    source: YamlFile, path: tuple[Step, ...], mutant: Mutant, captured: Mapping[str, Any]
) -> None:
    needs_absence = Criterion.SERVICE_ABSENT.value in mutant.activation
    if mutant.absent != needs_absence:
        raise source.error(
            (*path, "activation"),
            found=show(list(mutant.activation)),
            allowed=f"{Criterion.SERVICE_ABSENT} for an absent mutant, and for no other",
        )
    if not mutant.absent:
        place = f"mutants[{path[-1]}] ({source.place(*path, 'patch')})"
        body = build_body(mutant, captured, file=str(source.file), place=place)
        really = differing_paths(dict(captured), body)
        if really != mutant.differs:
            raise source.error(
                (*path, "differs"),
                found=", ".join(mutant.differs),
                allowed=f"what the patch really changes: {', '.join(really) or 'nothing'}",
            )
    for index, template in enumerate(mutant.creates):
        _check_template(source, (*path, "creates", index), template)
    pins = Criterion.ENDPOINTS_PINNED.value in mutant.activation
    if pins and not any(one["kind"] == "Endpoints" for one in mutant.creates):
        raise source.error(
            (*path, "activation"),
            found=Criterion.ENDPOINTS_PINNED.value,
            allowed="that criterion only where `creates` has an Endpoints object",
        )


def _check_template(source: YamlFile, path: tuple[Step, ...], value: Any) -> None:
    """Template keys are the closed list, each alone in its mapping and with a workload."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_template(source, (*path, index), item)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if not key.startswith("$"):
            _check_template(source, (*path, key), item)
        elif key != POD_ADDRESSES or len(value) != 1:
            raise source.error(
                (*path, key), found=f"template key {key}", allowed=f"{POD_ADDRESSES}, alone"
            )
        elif not isinstance(item, str) or not item.startswith("Deployment/"):
            raise source.error((*path, key), found=show(item), allowed="Deployment/NAME")
