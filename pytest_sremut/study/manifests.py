"""An application that is given as files: Kubernetes objects in a directory of the project.

Rules kept here: every object is of a kind that a run may create and take away again, lies in the
study's namespace, has a name of its own, and says nothing that a server would have to fill in; the
target and its workload are among them, and the target is the object that the mutants were proven
against. What is in a file is what is sent: nothing is rendered and nothing replaced. What only a
server can judge, it judges when the application is deployed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json
from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlevents import Step, dotted_path
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_documents
from pytest_sremut.study.model import MutantRegistry, Target
from pytest_sremut.study.mutants import template_workloads

__all__ = ["Manifests", "load_manifests"]

_ORDER: Final = ("ConfigMap", "Service", "Deployment")  # so that pods find both when they start
_SUFFIXES: Final = (".yaml", ".yml", ".json")  # in capitals, too: nothing is left out unsaid
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OF_THE_CLUSTER: Final = "kube-root-ca.crt"  # a controller puts it into every namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The objects in the order of their creation, and the files in which they stand, by role."""

    objects: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, PurePosixPath] = field(default_factory=dict)


def load_manifests(
    root: Path, source: YamlFile, target: Target, registry: MutantRegistry
) -> Manifests:
    """What a study's `application: manifests:DIR` names; nothing for one of another sort.

    Args:
        root: The project's root.
        source: The study's file, valid by its schema.
        target: The study's.
        registry: Whose mutants change the target.

    Raises:
        InputError: The first thing that is not allowed, in the study or in one of the files.
    """
    scheme, _, directory = source.value["application"].partition(":")
    if scheme == "demo":
        return Manifests()
    _check_images(source)
    if scheme != "manifests":
        return Manifests()  # a benchmark's own code deploys it
    files = _files(root, source, PurePosixPath(directory))
    found: dict[tuple[str, str], YamlFile] = {}
    for document in (one for file in files for one in read_documents(root, file)):
        _check(document, source.value["namespace"])
        kind, name = document.value["kind"], document.value["metadata"]["name"]
        if (kind, name) in found:
            first = found[kind, name]
            raise document.error(
                ("metadata", "name"),
                found=f"{kind} {name} a second time, after {first.file} ({first.place()})",
                allowed="every kind and name once",
            )
        found[kind, name] = document
    for needed in _needed(target, registry):
        if needed not in found:
            raise source.error(
                ("application",),
                found=f"manifests without {' '.join(needed)}",
                allowed="manifests with the study's target, its workload and those of its mutants",
            )
    _check_target(found[target.kind, target.name], registry)
    objects = (document.value for document in found.values())
    return Manifests(
        objects=tuple(sorted(objects, key=lambda body: _ORDER.index(body["kind"]))),
        files={f"application/{file.name}": file for file in files},
    )


def _needed(target: Target, registry: MutantRegistry) -> Iterator[tuple[str, str]]:
    """Kind and name of what a run looks for by name."""
    yield target.kind, target.name
    yield target.workload_kind, target.workload_name
    for mutant in registry.mutants:
        for workload in template_workloads(mutant.creates):
            kind, _, name = workload.partition("/")
            yield kind, name


def _files(root: Path, source: YamlFile, directory: PurePosixPath) -> list[PurePosixPath]:
    """The directory's files of manifests, in the order of their names; what else lies in it is
    none, but a directory would look as if it were read."""
    allowed = "a directory inside the project, with .yaml, .yml or .json files"
    try:
        path = (root / directory).resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            found = f"a symbolic link out of the project: {directory}"
            raise source.error(("application",), found=found, allowed=allowed)
        with os.scandir(path) as entries:
            names = sorted((entry.name, entry.is_dir()) for entry in entries)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, Python 3.11
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise source.error(
            ("application",), found=f"{directory}: {reason}", allowed=allowed
        ) from None
    for name, is_directory in names:
        if is_directory or (_chosen(name) and not _FILE_NAME.fullmatch(name)):
            raise source.error(
                ("application",),
                found=f"{'directory' if is_directory else 'file'} {name!r} in {directory}",
                allowed="files alone, named with letters, digits, dots, hyphens and underscores",
            )
    files = [directory / name for name, _ in names if _chosen(name)]
    if not files:
        raise source.error(("application",), found=f"no manifests in {directory}", allowed=allowed)
    return files


def _chosen(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES)


def _check_images(source: YamlFile) -> None:
    for name, profile in source.value["profiles"].items():
        if "demo" in profile.get("images", {}):
            raise source.error(
                ("profiles", name, "images", "demo"),
                found="an image of the demo application",
                allowed="load and probe: only the demo application takes an image from here",
            )


def _check(document: YamlFile, namespace: str) -> None:
    validate(document, "manifest")
    metadata = document.value["metadata"]
    if metadata.get("namespace", namespace) != namespace:
        raise document.error(
            ("metadata", "namespace"),
            found=metadata["namespace"],
            allowed=f"{namespace}, the study's, or none",
        )
    if (document.value["kind"], metadata["name"]) == ("ConfigMap", _OF_THE_CLUSTER):
        raise document.error(
            ("metadata", "name"), found=_OF_THE_CLUSTER, allowed="a name that no cluster uses"
        )
    if document.value["kind"] == "Deployment":
        _check_selector(document)
    try:
        canonical_json(document.value)
    except CanonicalError as error:
        raise document.error((), found=str(error), allowed="what JSON carries exactly") from None


def _check_selector(document: YamlFile) -> None:
    spec = document.value["spec"]
    for key, value in spec["selector"]["matchLabels"].items():
        if spec["template"]["metadata"]["labels"].get(key) != value:
            raise document.error(
                ("spec", "selector", "matchLabels", key),
                found=f"{key}: {value}",
                allowed="labels of the template's pods",
            )


def _check_target(document: YamlFile, registry: MutantRegistry) -> None:
    """Patches are proven against the registry's reference; a live target must be like it."""
    for path in _differing(document.value, registry.captured, ()):
        raise document.error(
            path,
            found=f"another value than `captured` has in {registry.file}",
            allowed=f"the object that the mutants change, with its {dotted_path(path)}",
        )


def _differing(given: Any, captured: Any, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Where something is given that is not captured; a server may have added to the latter."""
    match given, captured:
        case dict(), dict():
            for key, value in given.items():
                yield from _differing(value, captured.get(key), (*path, key))
        case list(), list() if len(given) == len(captured):
            for index, value in enumerate(given):
                yield from _differing(value, captured[index], (*path, index))
        case _ if given != captured:
            yield path
        case _:
            pass
