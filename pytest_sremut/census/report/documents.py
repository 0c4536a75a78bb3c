"""The census as canonical JSON with a schema, as CSV for a spreadsheet, and as Markdown to read.

All three are functions of the same data: the same checkout, rules and overrides give the same
bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from pytest_sremut.census.model import (
    Census,
    Finding,
    Observation,
    OracleUse,
    Perturbation,
    Row,
    Trail,
    Verdict,
)
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.ground.formats.schema import validator_for

__all__ = ["census_document", "to_csv", "to_json", "to_markdown"]

SCHEMA: Final = "sremut/census/v1"


def census_document(census: Census) -> dict[str, Any]:
    """The census as JSON data, valid against `schemas/census.schema.json`."""
    return {
        "schema": SCHEMA,
        "layout": census.layout,
        "commit": census.commit,
        "digests": {
            "rules": census.rules_digest,
            "overrides": census.overrides_digest,
            "source": census.source_digest,
        },
        "totals": _totals(census),
        "rows": [_row(row) for row in census.rows],
        "findings": [_finding(one) for one in census.findings],
        "broken_files": dict(census.broken),
    }


def _totals(census: Census) -> dict[str, Any]:
    blind, uncertain = census.count(Verdict.BLIND), census.count(Verdict.UNCERTAIN)
    return {
        "problems": len(census.rows),
        "adequate": census.count(Verdict.ADEQUATE),
        "blind": blind,
        "uncertain": uncertain,
        # The uncertain rows leave this range open.
        "blind_at_least": blind,
        "blind_at_most": blind + uncertain,
        "overridden": sum(bool(row.overridden) for row in census.rows),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "problem": row.problem,
        "place": str(row.place),
        "class": row.cls,
        "arguments": dict(row.arguments),
        "application": row.application,
        "namespace": row.namespace,
        "oracle": _use(row.oracle),
        "verdict": row.verdict.value,
        "rule": row.rule,
        "sentence": row.sentence,
        "would_have_to_observe": row.would_have_to_observe,
        "reason": row.reason.value if row.reason else None,
        "trail_end": str(row.trail_end) if row.trail_end else None,
        "overridden": row.overridden or None,
        "citation": row.citation or None,
        "observations": [_observation(one) for one in row.observations],
        "perturbations": [_perturbation(one) for one in row.perturbations],
        "symptoms": list(row.symptoms),
        "trails": [_trail(one) for one in row.trails],
    }


def _use(use: OracleUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {
        "class": use.name,
        "place": str(use.place),
        "children": [_use(child) for child in use.children],
    }


def _observation(one: Observation) -> dict[str, Any]:
    return {
        "channel": one.channel.value,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "fields": list(one.fields),
        "place": str(one.place),
        "detail": one.detail,
    }


def _perturbation(one: Perturbation) -> dict[str, Any]:
    return {
        "verb": one.verb,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "fields": list(one.fields),
        "place": str(one.place),
        "via": one.via,
        "detail": one.detail,
        "settled": one.settled or None,
        "not_counted": one.dropped or None,
    }


def _trail(one: Trail) -> dict[str, Any]:
    return {"reason": one.reason.value, "place": str(one.place), "what": one.what}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "key": one.key,
        "finder": one.finder,
        "direction": one.direction.value,
        "subject": one.subject,
        "place": str(one.place),
        "sentence": one.sentence,
        "problems": list(one.problems),
    }


def to_json(census: Census) -> bytes:
    """Canonical JSON (RFC 8785) and a final newline."""
    document = census_document(census)
    validator_for("pytest_sremut.census", "census").validate(document)
    return canonical_json(document, what="census") + b"\n"


_COLUMNS: Final = (
    "problem",
    "class",
    "application",
    "namespace",
    "oracle",
    "verdict",
    "rule",
    "reason",
    "trail_end",
    "sentence",
    "would_have_to_observe",
    "perturbed",
    "observed",
    "overridden",
)


def to_csv(census: Census) -> str:
    """One line per problem."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in census.rows:
        writer.writerow(
            [
                row.problem,
                row.cls,
                row.application,
                row.namespace,
                _oracle_text(row.oracle),
                row.verdict.value,
                row.rule,
                row.reason.value if row.reason else "",
                row.trail_end or "",
                row.sentence,
                row.would_have_to_observe,
                "; ".join(_perturbed(row)),
                "; ".join(_observed(row)),
                row.overridden,
            ]
        )
    return stream.getvalue()


def _oracle_text(use: OracleUse | None) -> str:
    if use is None:
        return ""
    inner = ", ".join(child.name for child in use.children)
    return f"{use.name}({inner})" if inner else use.name


def _perturbed(row: Row) -> list[str]:
    return list(
        dict.fromkeys(
            f"{one.verb} {one.kind} @ {one.place}" for one in row.perturbations if not one.dropped
        )
    )


def _observed(row: Row) -> list[str]:
    return list(
        dict.fromkeys(
            f"{one.kind if one.channel == 'api' else one.channel.value} @ {one.place}"
            for one in row.observations
        )
    )


def to_markdown(census: Census) -> str:
    """Markdown: totals, verdicts with their sentences, findings by finder."""
    totals = _totals(census)
    lines = [
        "# Census",
        "",
        f"Benchmark layout `{census.layout}`"
        + (f" at commit `{census.commit}`" if census.commit else "")
        + f", rules `{census.rules_digest[:16]}`.",
        "",
        f"{totals['problems']} problems: {totals['adequate']} ADEQUATE, {totals['blind']} BLIND, "
        f"{totals['uncertain']} UNCERTAIN. Blind rows: at least {totals['blind_at_least']}, at "
        f"most {totals['blind_at_most']}.",
        "",
        "ADEQUATE is structural: the oracle reads what is perturbed, or a signal that it breaks. "
        "It is no proof that the oracle rejects every state that is not repaired.",
        "",
    ]
    for verdict in (Verdict.BLIND, Verdict.UNCERTAIN, Verdict.ADEQUATE):
        rows = [row for row in census.rows if row.verdict is verdict]
        lines += [f"## {verdict.value} ({len(rows)})", ""]
        lines += [line for row in rows for line in _row_lines(row)]
        lines.append("")
    lines += ["## Findings", ""]
    for finding in census.findings:
        used = f" ({len(finding.problems)} problems)" if finding.problems else ""
        lines.append(
            f"- **{finding.finder}**, {finding.direction.value}, `{finding.place}`{used}: "
            f"{_escape(finding.subject)}: {_escape(finding.sentence)}"
        )
    if census.broken:
        lines += ["", "## Files that do not parse", ""]
        lines += [f"- `{file}`: {_escape(why)}" for file, why in census.broken.items()]
    return "\n".join(lines).rstrip() + "\n"


def _row_lines(row: Row) -> Sequence[str]:
    oracle = _oracle_text(row.oracle) or "no oracle"
    lines = [
        f"- **{row.problem}** ({row.cls or 'not followed'}, {oracle}): {_escape(row.sentence)}"
    ]
    if row.overridden:
        lines.append(f"  By hand; the rules said {row.overridden}. {_escape(row.citation)}")
    if row.reason is not None:
        lines.append(f"  Reason: {row.reason.value}; the trail ends at `{row.trail_end}`.")
    if row.verdict is not Verdict.ADEQUATE and row.would_have_to_observe:
        lines.append(f"  Would have to observe: {_escape(row.would_have_to_observe)}.")
    if row.symptoms:
        lines.append(f"  Downstream, not counted: {_escape('; '.join(row.symptoms))}.")
    return lines


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
