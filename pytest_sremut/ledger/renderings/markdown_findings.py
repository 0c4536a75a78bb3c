"""Sections of `ledger.md` on what graders said: scores, matrix, unexpected readings, rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sremut.ledger.renderings.markdown_tables import (
    Json,
    amount,
    attempt_name,
    cited,
    code,
    counts,
    escaped,
    ids,
    section,
    yes_no,
)

__all__ = [
    "compact_table",
    "disagreements",
    "falsification",
    "matrix",
    "scores",
    "share",
    "survives",
    "totals",
    "unexpected_readings",
    "violated",
]


def scores(study: Json) -> Iterator[str]:
    """False rejects and survivors, the two sides of each grader, and mutation scores."""
    yield from _findings(study)
    yield from section(
        "Two sides of each grader",
        ("grader", "wrong repairs rejected", "right systems accepted", "informedness", "sources"),
        (
            (
                code(row["grader"]),
                share(row["wrong_rejected"]),
                share(row["right_accepted"]),
                amount(row["informedness"]),
                cited(row),
            )
            for row in study["scores"]
        ),
    )
    yield from section(
        "Mutation score",
        (
            "grader",
            "killed of scored",
            "percent",
            "brittle (runs)",
            "equivalent",
            "controls accepted",
            "unscored",
            "unproven",
            "sources",
        ),
        (
            (
                code(row["grader"]),
                f"{row['killed']} of {row['scored']}",
                amount(row["percent"], " %") if row["percent"] is not None else "no score",
                f"{row['brittle']} ({row['brittle_runs']})",
                str(row["equivalent"]),
                f"{row['controls_accepted']} of {row['controls']}",
                str(row["unscored"]),
                str(row["unproven"]),
                cited(row),
            )
            for row in study["scores"]
        ),
    )


def _findings(study: Json) -> Iterator[str]:
    """What a maintainer looks for: right systems rejected, and wrong ones accepted."""
    models = {mutant["id"]: mutant["models"] for mutant in study["plan"]["mutants"]}
    columns = ("grader", "mutant", "accepted", "runs", "fate", "models", "sources")

    def row_of(row: Json, item: Json) -> tuple[str, ...]:
        return (
            code(row["grader"]),
            code(item["mutant"]),
            f"{item['accepted']} of {item['readings']} readings",
            f"{sum(item['runs'].values())} by {item['instruments']} instruments",
            item["fate"],
            escaped(models[item["mutant"]]),
            cited(item),
        )

    every = [(row, item) for row in study["scores"] for item in row["mutants"]]
    yield from section(
        "Controls: right repairs, which a grader must accept",
        columns,
        [row_of(row, item) for row, item in every if item["expect"] == "accept"],
    )
    yield from section(
        "Survivors: the grader accepted a system that was never repaired",
        columns,
        [row_of(row, item) for row, item in every if survives(item)],
    )


def survives(item: Json) -> bool:
    """Whether a grader let a mutant survive in some run; controls and equivalents never do."""
    lost: int = item["runs"].get("survived", 0) + item["runs"].get("unstable", 0)
    return lost > 0 and bool(item["expect"] == "reject")


def share(given: Json) -> str:
    """Counts, then the percentage."""
    shown = f"{given['part']} of {given['of']} runs"
    if given["percent"] is not None:
        shown += f" ({amount(given['percent'], ' %')})"
    return shown + (f", {given['errors']} errors" if given["errors"] else "")


def disagreements(study: Json) -> Iterator[str]:
    """False accepts and false rejects."""
    yield from section(
        "Disagreement with the contract",
        ("oracle", "false accepts", "false rejects", "sources"),
        (
            (
                code(row["oracle"]),
                f"{row['false_accepts']} of {row['of_contract_rejects']} readings that the "
                "contract rejects",
                f"{row['false_rejects']} of {row['of_contract_passes']} readings that it passes",
                cited(row),
            )
            for row in study["disagreements"]
        ),
    )


def totals(study: Json) -> Iterator[str]:
    """Totals of readings and cells."""
    totals = study["totals"]

    def matched(name: str, title: str) -> tuple[str, str, str]:
        row = totals[name]
        return title, f"{row['matched']} of {row['of']}", cited(row)

    def observed(name: str, title: str) -> tuple[str, str, str]:
        row = totals[name]
        return title, counts(row["observed"], row["of"]), cited(row)

    faulted, controls = totals["contract_faulted"], totals["contract_controls"]
    yield from section(
        "Predicted and observed, in sum",
        ("what", "count", "sources"),
        [
            matched("oracle_readings", "oracle readings as predicted"),
            matched("oracle_cells", "oracle cells as predicted"),
            matched("table_cells", "cells of the compact table as predicted"),
            matched("contract_cells", "contract cells as predicted, violated set included"),
            observed("oracle_readings", "oracle readings"),
            observed("faulted_oracle_readings", "oracle readings, faulted"),
            observed("control_oracle_readings", "oracle readings, controls"),
            (
                "faulted states that the contract rejects",
                f"{faulted['rejected']} of {faulted['of']}",
                cited(faulted),
            ),
            (
                "control states that the contract passes",
                f"{controls['passed']} of {controls['of']}",
                cited(controls),
            ),
        ],
    )


def matrix(study: Json) -> Iterator[str]:
    """Mutant by grader by state."""
    yield from section(
        "Matrix",
        ("mutant", "grader", "state", "predicted", "observed", "matched", "sources"),
        (
            (
                code(row["mutant"]),
                code(row["grader"]),
                row["state"],
                (row["predicted"] or "–") + _violated_ids(row.get("predicted_violated")),
                counts(row["observed"], row["readings"]),
                f"{row['matched']} of {row['matched'] + row['mismatched']}",
                cited(row),
            )
            for row in study["matrix"]
        ),
    )


def _violated_ids(found: Sequence[str] | None) -> str:
    return f" {ids(found)}" if found else ""


def compact_table(study: Json) -> Iterator[str]:
    """Control states pooled over mutants."""
    yield from section(
        "Compact table",
        ("grader", "column", "observed", "as predicted", "sources"),
        (
            (
                code(row["grader"]),
                code(row["column"]),
                counts(row["observed"], row["readings"]),
                yes_no(row["matched"]),
                cited(row),
            )
            for row in study["table"]
        ),
    )


def violated(study: Json) -> Iterator[str]:
    """Violated sets, and whether repetitions agree."""
    yield from section(
        "Violated invariants, faulted",
        ("mutant", "predicted", "observed (runs)", "repetitions agree", "sources"),
        (
            (
                code(row["mutant"]),
                "–" if row["predicted"] is None else ids(row["predicted"]),
                " / ".join(
                    f"{ids(one['violated'])} ({', '.join(map(code, one['runs']))})"
                    for one in row["sets"]
                )
                or "–",
                yes_no(row["agree"]),
                cited(row),
            )
            for row in study["violated"]
        ),
    )


def unexpected_readings(study: Json) -> Iterator[str]:
    """Readings that were not as predicted, and what they mean."""
    yield from section(
        "Surprises, judged by the sampler's timeline",
        ("where", "grader", "predicted", "observed", "pods", "meaning", "sources"),
        (
            (
                f"{code(attempt_name(row))} {row['state']}",
                f"{code(row['grader'])} {row['instrument']}",
                escaped(row["predicted"]),
                escaped(row["observed"]),
                row["pods"],
                row["meaning"],
                cited(row),
            )
            for row in study["surprises"]
        ),
    )


def falsification(study: Json) -> Iterator[str]:
    """The study's own rules, and which fired."""
    yield from section(
        "Falsification rules",
        ("rule", "fired", "consequence", "says", "where", "sources"),
        (
            (
                code(row["rule"]),
                str(row["fired"]),
                row["then"],
                escaped(row["says"]),
                "; ".join(
                    f"{code(item['grader'])} {code(item['mutant'])} {item['state']}: "
                    + ", ".join(map(code, item["at"]))
                    for item in row["where"]
                )
                or "–",
                cited(row),
            )
            for row in study["falsification"]
        ),
    )
