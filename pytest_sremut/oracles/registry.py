"""From the name that a study uses to the oracle itself."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.context import GraderContext
from pytest_sremut.oracles.oracle_port import Oracle
from pytest_sremut.oracles.reference.all_of import AllOf
from pytest_sremut.oracles.reference.pods_and_deployments import PodsAndDeployments
from pytest_sremut.oracles.reference.service_endpoints import ServiceEndpoints
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.study.names import ALL_OF, ReferenceOracle

__all__ = ["ALLOWED", "build", "known", "module_of", "modules_of", "resolve"]

_REFERENCE: Final[Mapping[ReferenceOracle, Callable[..., Oracle]]] = {
    ReferenceOracle.PODS_AND_DEPLOYMENTS: PodsAndDeployments,
    ReferenceOracle.SERVICE_ENDPOINTS: ServiceEndpoints,
}
_PYTHON: Final = re.compile(r"python:(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")

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
        if not node.of:
            raise UsageError(f"oracle {node.id}: {ALL_OF} needs at least one oracle in 'of'")
        return AllOf([(child.id, build(child, context_of)) for child in node.of])
    factory = resolve(node.use)
    try:
        return factory(context_of(node), **node.arguments)
    except TypeError as error:
        if factory in _REFERENCE.values():
            raise UsageError(f"oracle {node.id}: {node.use} takes no such arguments") from error
        raise


def known(use: str) -> None:
    """Check a name without importing anything. Raises UsageError listing what is allowed."""
    if use != ALL_OF and not _PYTHON.fullmatch(use):
        resolve(use)


def resolve(use: str) -> Callable[..., Oracle]:
    """The class behind a `use` other than all-of. Raises UsageError listing what is allowed."""
    prefix, _, name = use.partition(":")
    if prefix == "reference":
        for reference, factory in _REFERENCE.items():
            if reference.value == name:
                return factory
    if match := _PYTHON.fullmatch(use):
        return _foreign(use, match["module"], match["name"])
    raise UsageError(f"unknown oracle {use!r}; allowed: {', '.join(ALLOWED)}")


def module_of(use: str) -> str:
    """The module that a `use` is implemented in. Raises UsageError."""
    return AllOf.__module__ if use == ALL_OF else resolve(use).__module__


def modules_of(node: OracleNode) -> list[str]:
    """Modules that hold the oracle and its parts, for a worker to import beforehand."""
    matches = (_PYTHON.fullmatch(part.use) for part in node.walk())
    return sorted({match["module"] for match in matches if match})


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
