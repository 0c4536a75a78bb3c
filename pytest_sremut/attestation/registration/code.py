"""The code of others that decides in a study, as a registration covers it.

Covered are the modules of `python:` graders, plugins that implement a hook of ours (adapters to
benchmarks, faults), and what both import from the project. Each has a role `code:NAME`. The path of
one that lies outside the project begins with `<python>`: it is looked up as Python would.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from pytest_sremut.attestation.errors import FrozenFileError
from pytest_sremut.attestation.registration.manifest import FrozenFile, Manifest, digest_of
from pytest_sremut.study.code import (
    CodeFile,
    code_of,
    file_code,
    grader_modules,
    module_file,
)
from pytest_sremut.study.model import Study

__all__ = [
    "ROLE",
    "code_roles",
    "digest_of_role",
    "frozen_code",
    "in_project",
    "is_outside",
    "lacking_graders",
]

ROLE = "code:"
"""What the role of a module begins with; its name follows."""

_OUTSIDE = "<python>"
_HOOK = "pytest_sremut_"
_ENTRY_POINTS = "pytest11"
_OURS = "pytest_sremut"
_MOST_FILES = 2_000  # of a plugin's package


def frozen_code(root: Path, study: Study) -> dict[str, FrozenFile]:
    """The code that decides in the study as it lies there now, by role.

    Modules beside a `conftest.py` are found, as pytest finds them. One that cannot be found has no
    role: whoever runs or registers the study is told.
    """
    conftests = list(_conftests(root, study))
    beside = [path.parent for path in conftests]
    found = code_of(grader_modules(study), root, beside=beside)
    for path in conftests:
        code = file_code(path, root, beside=beside)
        if any(_brings_hooks(one.path) for one in code.values()):
            found |= code
    for module in _installed_plugins(tuple(sys.path)):
        found |= code_of([module], root)
    return {f"{ROLE}{name}": _frozen(root, one) for name, one in sorted(found.items())}


def lacking_graders(root: Path, study: Study) -> tuple[str, ...]:
    """The modules of graders that cannot be found, sorted."""
    found = frozen_code(root, study)
    return tuple(name for name in grader_modules(study) if f"{ROLE}{name}" not in found)


def digest_of_role(root: Path, role: str, file: FrozenFile) -> str:
    """SHA-256 of a frozen file, wherever its role lets it lie. Raises FrozenFileError."""
    if not is_outside(file.path):
        return digest_of(root, file.path)
    name = role.removeprefix(ROLE)
    code = module_file(name, root)
    if code is None:
        raise FrozenFileError(f"{file.path}: Python finds no module {name}")
    return code.sha256


def is_outside(path: PurePosixPath) -> bool:
    """Whether a frozen file lies outside the project."""
    return path.parts[:1] == (_OUTSIDE,)


def in_project(manifest: Manifest) -> list[str]:
    """The paths of the frozen files that git can know of."""
    return [str(file.path) for file in manifest.files.values() if not is_outside(file.path)]


def code_roles(manifest: Manifest) -> Mapping[str, FrozenFile]:
    """What of a manifest is code."""
    return {role: file for role, file in manifest.files.items() if role.startswith(ROLE)}


def _frozen(root: Path, code: CodeFile) -> FrozenFile:
    tree = root.resolve()
    if code.path.is_relative_to(tree):
        path = PurePosixPath(code.path.relative_to(tree).as_posix())
    else:
        path = PurePosixPath(_OUTSIDE, *code.module.split(".")).with_suffix(code.path.suffix)
    return FrozenFile(path=path, sha256=code.sha256)


def _conftests(root: Path, study: Study) -> Iterator[Path]:
    """Those that pytest loads for the study's file."""
    folder = root
    for part in ("", *study.file.parent.parts):
        folder = folder / part
        if (folder / "conftest.py").is_file():
            yield folder / "conftest.py"


@cache
def _installed_plugins(_path: tuple[str, ...]) -> tuple[str, ...]:
    """Installed plugins of pytest that name a hook of ours anywhere; with this path of Python's."""
    modules = {
        entry.module
        for entry in metadata.entry_points(group=_ENTRY_POINTS)
        if entry.module.partition(".")[0] != _OURS
    }
    return tuple(sorted(module for module in modules if _names_hooks(module)))


def _names_hooks(module: str) -> bool:
    top = module.partition(".")[0]
    code = module_file(top, Path("/nonexistent"))
    if code is None:
        return False
    if code.path.name != "__init__.py":
        return _brings_hooks(code.path)
    files = sorted(code.path.parent.rglob("*.py"))[:_MOST_FILES]
    return any(_brings_hooks(path) for path in files)


def _brings_hooks(path: Path) -> bool:
    """Whether a file names a hook of ours."""
    try:
        return _HOOK in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
