"""Where a benchmark has its registry, its oracles and its load generators.

One layout is built in; others come through the hook `pytest_sremut_census` or a YAML file
(`.sremut-census.yaml` at the top of the checkout).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_sremut.census.rules import check
from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlfile import read_yaml

__all__ = ["FILE", "SREGYM", "Layout", "find_layout"]

FILE: Final = ".sremut-census.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A benchmark's conventions. Files are relative to its checkout.

    `registry` is `module:NAME` or `module:Class.NAME`: a mapping from problem id to a class or
    something that makes an instance when called. `plumbing` names wrappers: their callers are cited
    instead of them. `workload` names the files of load generators, `alerts` the files with alert
    rules, `runners` the directories from which `evaluate()` is called.
    """

    name: str
    registry: str
    oracle: str = "mitigation_oracle"
    inject: str = "inject_fault"
    evaluate: str = "evaluate"
    baseline: str = "capture_baseline"
    children: str = "oracles"
    subject: str = "problem"
    plumbing: Sequence[str] = ()
    workload: Sequence[str] = ()
    alerts: Sequence[str] = ()
    runners: Sequence[str] = ()
    oracles: Sequence[str] = ()  # directories whose classes the finders look at


SREGYM: Final = Layout(
    name="sregym",
    registry="sregym.conductor.problems.registry:ProblemRegistry.PROBLEM_REGISTRY",
    plumbing=(
        "sregym/service/kubectl.py",
        "sregym/service/helm.py",
        "sregym/utils/decorators.py",
        "sregym/generators/fault/base.py",
    ),
    workload=("sregym/generators/workload/",),
    alerts=("sregym/observer/prometheus/prometheus/values.yaml",),
    runners=("", "sregym/conductor"),
    oracles=("sregym/conductor/oracles",),
)


def find_layout(root: Path, offered: Sequence[Layout] = ()) -> Layout:
    """The layout of a checkout: its own file, one that a plugin offers, or the built-in one.

    Raises:
        InputError: None of them fits, or the file is not allowed.
    """
    if (root / FILE).is_file():
        source = read_yaml(root, PurePosixPath(FILE))
        check(source, "layout")
        known = {one.name for one in fields(Layout)}
        given = {key: value for key, value in source.value.items() if key in known}
        return Layout(**given)
    for layout in (*offered, SREGYM):
        module = layout.registry.partition(":")[0].replace(".", "/")
        if (root / f"{module}.py").is_file() or (root / module / "__init__.py").is_file():
            return layout
    raise InputError(
        file=str(root),
        found="no registry of problems where a known layout keeps one",
        allowed=f"a checkout of {SREGYM.name}, or a file {FILE}, or a plugin that implements "
        "pytest_sremut_census",
    )
