"""From the name that a study uses to the oracle itself."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.context import GraderContext
from pytest_sremut.oracles.oracle_port import Oracle
from pytest_sremut.oracles.reference.all_of import AllOf
from pytest_sremut.oracles.reference.pods_and_deployments import PodsAndDeployments
from pytest_sremut.oracles.reference.service_endpoints import ServiceEndpoints
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.study.code import (
    PYTHON_USE,
    CodeFile,
    as_digests,
    code_of,
    module_file,
    names_bound,
)
from pytest_sremut.study.names import ALL_OF, ReferenceOracle

__all__ = ["ALLOWED", "build", "code_behind", "digests", "is_foreign", "known", "resolve"]

_REFERENCE: Final[Mapping[ReferenceOracle, Callable[..., Oracle]]] = {
    ReferenceOracle.PODS_AND_DEPLOYMENTS: PodsAndDeployments,
    ReferenceOracle.SERVICE_ENDPOINTS: ServiceEndpoints,
}

ALLOWED: Final = (
    *(f"reference:{name.value}" for name in ReferenceOracle),
    ALL_OF,
    "python:package.module:Class",
)
"""The forms of `use` that have an implementation here."""


def build(node: OracleNode, context_of: Callable[[OracleNode], GraderContext]) -> Oracle:
    """Make the oracle with everything it is composed of.

    Raises:
        UsageError: A name is unknown or a module or class cannot be imported.
        Exception: Whatever the constructor of a foreign class raises.
    """
    if node.use == ALL_OF:
        _needs_parts(node)
        return AllOf([(child.id, build(child, context_of)) for child in node.of])
    factory = resolve(node.use)
    try:
        return factory(context_of(node), **node.arguments)
    except TypeError as error:
        if factory in _REFERENCE.values():
            raise UsageError(f"oracle {node.id}: {node.use} takes no such arguments") from error
        raise


def is_foreign(node: OracleNode) -> bool:
    """Whether any of the oracle's code is not ours."""
    return any(part.use.startswith("python:") for part in node.walk())


def known(node: OracleNode, root: Path) -> None:
    """Check an oracle's names without importing anything of a grader's.

    Args:
        node: The oracle.
        root: The project: its modules are found wherever Python looks besides.

    Raises:
        UsageError: One means nothing, with what is allowed.
    """
    for part in node.walk():
        if part.use == ALL_OF:
            _needs_parts(part)
        elif match := PYTHON_USE.fullmatch(part.use):
            _here(part.use, match["module"], match["name"], root)
        else:
            resolve(part.use)


def code_behind(node: OracleNode, root: Path) -> dict[str, CodeFile]:
    """The modules of others that the oracle is made of, as they lie on disk now, by name.

    Args:
        node: The oracle.
        root: The project, whose modules are followed.
    """
    matches = (PYTHON_USE.fullmatch(part.use) for part in node.walk())
    return code_of([match["module"] for match in matches if match], root)


def digests(node: OracleNode, code: Mapping[str, CodeFile]) -> dict[str, str]:
    """SHA-256 of each module that the oracle is made of: of ours, and of the others in `code`."""
    ours = {
        AllOf.__module__ if part.use == ALL_OF else resolve(part.use).__module__
        for part in node.walk()
        if not part.use.startswith("python:")
    }
    own = {module: _own_digest(module) for module in ours}
    return dict(sorted({**as_digests(code), **own}.items()))


@cache
def _own_digest(module: str) -> str:
    origin = sys.modules[module].__file__
    assert origin is not None
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest()


def _needs_parts(node: OracleNode) -> None:
    if not node.of:
        raise UsageError(f"oracle {node.id}: {ALL_OF} needs at least one oracle in 'of'")


def _here(use: str, module: str, name: str, root: Path) -> None:
    """Whether there is such a module, and whether its source can bind such a name."""
    found = module_file(module, root)
    if found is None:
        if module.partition(".")[0] not in sys.stdlib_module_names:
            raise UsageError(f"oracle {use!r}: cannot import {module}: there is no such module")
        return
    bound = names_bound(found.path) if found.path.suffix == ".py" else None
    if bound is not None and name not in bound:
        raise UsageError(f"oracle {use!r}: {module} has no class {name}")


def resolve(use: str) -> Callable[..., Oracle]:
    """The class behind a `use` other than all-of. Raises UsageError listing what is allowed."""
    prefix, _, name = use.partition(":")
    if prefix == "reference":
        for reference, factory in _REFERENCE.items():
            if reference.value == name:
                return factory
    if match := PYTHON_USE.fullmatch(use):
        return _foreign(use, match["module"], match["name"])
    raise UsageError(f"unknown oracle {use!r}; allowed: {', '.join(ALLOWED)}")


def _foreign(use: str, module_name: str, class_name: str) -> Callable[..., Oracle]:
    module = _import(use, module_name)
    found: Any = getattr(module, class_name, None)
    if not callable(found):
        raise UsageError(f"oracle {use!r}: {module_name} has no class {class_name}")
    factory: Callable[..., Oracle] = found
    return factory


def _import(use: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except Exception as error:  # a foreign module may raise anything while it is imported
        raise UsageError(
            f"oracle {use!r}: cannot import {module_name}: {type(error).__name__}: {error}"
        ) from error
