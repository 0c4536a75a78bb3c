"""An export in the mutation-testing report schema, for existing viewers. It is never the record.

Each grader is a folder with the registry's file in it, so that a viewer shows one score per grader:

| fate | status | in a viewer's denominator |
|---|---|---|
| killed | Killed | yes |
| survived, unstable | Survived | yes |
| unproven: evidence of it is damaged | NoCoverage | yes, undetected |
| equivalent: the contract passes it | Ignored | no |
| a control, accepted or rejected | Ignored | no |
| brittle: rejected like the grader's own controls | RuntimeError | no |
| unscored: a reading is an error | RuntimeError | no |
| unscored: no valid reading | Ignored | no |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_sremut.ledger.scores import Fate
from pytest_sremut.study.verdict import Expectation

__all__ = ["stryker_report"]

Json = Mapping[str, Any]


def stryker_report(ledger: Json, sources: Mapping[str, str]) -> dict[str, Any]:
    """The report, JSON-ready (schema version 2).

    Args:
        ledger: The ledger.
        sources: Text of the studies' mutant registries, by path as the ledger names it.
    """
    files: dict[str, Any] = {}
    for study in ledger["studies"]:
        path = study["plan"]["files"]["mutants"]["path"]
        text = sources.get(path, "")
        for row in study["scores"]:
            files[f"{study['id']}/{row['grader']}/{path}"] = {
                "language": "yaml",
                "source": text,
                "mutants": [_mutant(study, row, item, text) for item in row["mutants"]],
            }
    return {
        "schemaVersion": "2",
        "thresholds": {"high": 100, "low": 50},
        "files": files,
        "framework": {"name": "pytest-sremut"},
    }


def _mutant(study: Json, row: Json, item: Json, text: str) -> dict[str, Any]:
    status = _status(item)
    models = {mutant["id"]: mutant["models"] for mutant in study["plan"]["mutants"]}
    return {
        "id": f"{study['id']}/{row['grader']}/{item['mutant']}",
        "mutatorName": item["mutant"],
        "description": models[item["mutant"]],
        "replacement": models[item["mutant"]],
        "location": _location(text, item["mutant"]),
        "status": status,
        "statusReason": (
            f"{item['fate']}: accepted {item['accepted']}, rejected {item['rejected']}, "
            f"errors {item['errors']}"
        ),
        "killedBy": [row["grader"]] if status == "Killed" else [],
        "coveredBy": [row["grader"]],
    }


def _status(item: Json) -> str:
    if item["expect"] == Expectation.ACCEPT:
        return "Ignored"
    match Fate(item["fate"]):
        case Fate.KILLED:
            return "Killed"
        case Fate.SURVIVED | Fate.UNSTABLE:
            return "Survived"
        case Fate.UNPROVEN:
            return "NoCoverage"
        case Fate.BRITTLE:
            return "RuntimeError"
        case Fate.EQUIVALENT | Fate.CONTROL_ACCEPTED | Fate.CONTROL_REJECTED:
            return "Ignored"
        case Fate.UNSCORED:
            return "RuntimeError" if item["errors"] else "Ignored"


def _location(text: str, mutant: str) -> dict[str, dict[str, int]]:
    """The line of the registry that names the mutant; the first line if none does."""
    name = re.compile(rf"\bid:\s*[\"']?{re.escape(mutant)}\b")
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := name.search(line)) is not None:
            return {
                "start": {"line": number, "column": found.start() + 1},
                "end": {"line": number, "column": found.end() + 1},
            }
    return {"start": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}}
