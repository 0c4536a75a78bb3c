"""What the alert rules of a checkout are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sremut.census.interpreter.bodies import documents
from pytest_sremut.census.layout import Layout
from pytest_sremut.census.rules import Rules
from pytest_sremut.census.source import SourceTree

__all__ = ["alert_aspects"]


def alert_aspects(tree: SourceTree, rules: Rules, layout: Layout) -> frozenset[str]:
    """The aspects of the rules that any alert in the layout's files watches."""
    patterns: Mapping[str, str] = rules.verdicts["aspects"]
    found: set[str] = set()
    for file in layout.alerts:
        for document in documents(tree.text(file) or ""):
            for alert, expression in _alerts(document):
                text = f"{alert} {expression}"
                found |= {key for key, one in patterns.items() if re.search(one, text)}
    return frozenset(found)


def _alerts(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if "alert" in value and "expr" in value:
            yield str(value["alert"]), str(value["expr"])
        for item in value.values():
            yield from _alerts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _alerts(item)
