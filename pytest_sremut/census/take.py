"""Taking a census: from a checkout's directory to rows and findings.

Completeness is checked: without exactly one row for every id of the registry there is no census.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_sremut.census.finders.graph import graph_findings
from pytest_sremut.census.finders.source import baseline_users, oracle_modules, source_findings
from pytest_sremut.census.interpreter.classes import mro_of
from pytest_sremut.census.interpreter.values import Inst
from pytest_sremut.census.judge.overrides import Overrides, apply_overrides
from pytest_sremut.census.layout import Layout, find_layout
from pytest_sremut.census.model import Census, Finding
from pytest_sremut.census.rules import Rules, shipped_rules
from pytest_sremut.census.source import SourceTree
from pytest_sremut.census.survey.details import children_of
from pytest_sremut.census.survey.survey import Followed, Survey
from pytest_sremut.errors import InputError, SremutError

__all__ = ["Taken", "take_census"]

Taken = tuple[Census, Sequence[Followed]]


def take_census(
    root: Path,
    *,
    layouts: Sequence[Layout] = (),
    pairs: Sequence[tuple[str, str]] = (),
    overrides: Overrides | None = None,
    rules: Rules | None = None,
) -> Census:
    """The census of a checkout.

    Args:
        root: The checkout's directory; read only, and only as text.
        layouts: Layouts that plugins offer.
        pairs: Proposed pairings (problem id, oracle class). Their findings are added to the census,
            their rows are not.
        overrides: Verdicts by hand.
        rules: Rule data instead of the shipped ones.

    Raises:
        InputError: No registry, an unknown id or class in a pairing, a stale override.
        SremutError: Rows and registry do not agree.
    """
    tree = SourceTree(root)
    rules = rules or shipped_rules()
    layout = find_layout(tree.root, layouts)
    survey = Survey(tree=tree, rules=rules, layout=layout)
    registry = survey.registry()
    followed = [
        survey.follow(problem, factory, place)
        for problem, (factory, place) in sorted(registry.items())
    ]
    proposed = []
    for problem, oracle in pairs:
        if problem not in registry:
            raise InputError(
                file=str(root),
                place=f"--pair {problem}=…",
                found=f"no problem {problem}",
                allowed="an id of the registry",
            )
        factory, place = registry[problem]
        proposed.append(survey.follow(problem, factory, place, oracle=oracle))
    findings = [
        *_with_problems(source_findings(tree, layout), followed, survey),
        *graph_findings([*followed, *proposed], tree),
    ]
    rows = [one.row for one in followed]
    if {row.problem for row in rows} != set(registry) or len(rows) != len(registry):
        raise SremutError("the census has not exactly one row for every id of the registry")
    overrides = overrides or Overrides(entries={})
    return Census(
        rows=apply_overrides(rows, overrides),
        findings=sorted(
            findings, key=lambda one: (one.finder, one.place, one.subject, one.direction)
        ),
        rules_digest=rules.digest,
        overrides_digest=overrides.digest,
        source_digest=tree.digest(),
        commit=_commit(tree.root),
        layout=layout.name,
        broken={file: str(one.why) for file, one in sorted(tree.broken.items())},
    )


def _with_problems(
    findings: Sequence[Finding], followed: Sequence[Followed], survey: Survey
) -> list[Finding]:
    """Which problems use the class that a finding is about."""
    users: dict[str, set[str]] = {}
    for one in followed:
        for oracle in _instances(one.oracle, survey.layout.children, 0):
            for cls in mro_of(survey.machine, oracle.cls):
                users.setdefault(cls.name, set()).add(one.row.problem)
    baselines = baseline_users(list(oracle_modules(survey.tree, survey.layout)), survey.layout)
    need = {problem for name in baselines for problem in users.get(name, ())}
    return [
        replace(
            finding,
            problems=tuple(
                sorted(
                    need
                    if finding.finder == "evaluate-without-baseline"
                    else users.get(finding.subject.partition(".")[0], ())
                )
            ),
        )
        for finding in findings
    ]


def _instances(oracle: Inst | None, children: str, depth: int) -> list[Inst]:
    if oracle is None or depth > 4:
        return []
    inner = [
        one
        for item in children_of(oracle, children)
        for one in _instances(item, children, depth + 1)
    ]
    return [oracle, *inner]


def _commit(root: Path) -> str:
    """The checked-out commit, from the repository's files; empty if there is none."""
    try:
        head = (root / ".git" / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: "):
            reference = root / ".git" / head.removeprefix("ref: ")
            head = reference.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else ""
