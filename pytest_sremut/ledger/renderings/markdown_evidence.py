"""Sections of `ledger.md` on the evidence: instruments, registration, attempts, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sremut.ledger.renderings.markdown_tables import (
    Json,
    amount,
    attempt_name,
    cited,
    code,
    escaped,
    section,
    yes_no,
)

__all__ = [
    "agreement",
    "attempts",
    "compositions",
    "diagnostics",
    "instruments",
    "limits",
    "missing",
    "readings",
    "registration",
    "timings",
]


def agreement(study: Json) -> Iterator[str]:
    """Between the instruments of each oracle, and where they differ."""
    yield from section(
        "Agreement between instruments",
        ("oracle", "states in which they agree", "where not", "sources"),
        (
            (
                code(row["oracle"]),
                f"{row['agreed']} of {row['compared']}",
                "; ".join(
                    f"{code(attempt_name(item))} {item['state']}: "
                    + ", ".join(f"{name} {verdict}" for name, verdict in item["verdicts"].items())
                    for item in row["differ"]
                )
                or "–",
                cited(row),
            )
            for row in study["agreement"]
        ),
    )


def instruments(study: Json) -> Iterator[str]:
    """What instruments reported of themselves, and if it was always the same."""
    yield from section(
        "Instruments: what they said of themselves",
        ("oracle", "instrument", "identical over all readings", "digests (readings)", "sources"),
        (
            (
                code(row["oracle"]),
                row["instrument"],
                yes_no(row["identical"]),
                ", ".join(f"{code(one)} ({count})" for one, count in row["digests"].items())
                or "not told",
                cited(row),
            )
            for row in study["instruments"]
        ),
    )


def compositions(study: Json) -> Iterator[str]:
    """Composed oracles beside the conjunction of their parts."""
    yield from section(
        "Composed oracles against their parts",
        ("oracle", "parts", "says what the parts add up to", "sources"),
        (
            (
                code(row["oracle"]),
                " and ".join(map(code, row["of"])),
                f"{row['equal']} of {row['compared']}",
                cited(row),
            )
            for row in study["compositions"]
        ),
    )


def diagnostics(study: Json) -> Iterator[str]:
    """Direct calls beside readings, and what they raised."""
    yield from section(
        "Diagnostic calls beside readings (they touch no verdict)",
        ("oracle", "calls", "raised", "sources"),
        (
            (
                code(row["oracle"]),
                str(row["calls"]),
                "; ".join(f"{one['count']} × {escaped(one['exception'])}" for one in row["raised"])
                or "nothing",
                cited(row),
            )
            for row in study["diagnostics"]
        ),
    )


def registration(study: Json) -> Iterator[str]:
    """Regime, files, the registration as recorded, the order of times."""
    given = study["registration"]
    rows = [("regime", escaped(given["headline"]), cited(given))]
    for role, file in study["plan"]["files"].items():
        rows.append(
            (f"file of the study: {role}", f"{code(file['path'])} {code(file['sha256'])}", "")
        )
    for seal in given.get("seals", ()):
        rows.append(
            (
                f"seal of {code(attempt_name(seal))}",
                f"{escaped(seal['label'])}; seal {code(seal['seal'] or 'none')}, "
                f"key {code(seal['key'] or 'none')}, stamped {seal['stamped'] or 'never'}",
                "",
            )
        )
    for block in given["records"]:
        rows += [
            (escaped(name), escaped(text), cited(given)) for name, text in sorted(_flat(block))
        ]
    rows.append(("first mutation", given["first_mutation"] or "–", cited(given)))
    rows += [
        (
            f"stamped: {escaped(item['stamp'])}",
            f"{item['time']}, before the first mutation: {yes_no(item['before_first_mutation'])}",
            cited(given),
        )
        for item in given["order"]
    ]
    yield from section("Registration", ("what", "as recorded", "sources"), rows)


def _flat(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every scalar of a registration block with its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value, start=1):
            yield from _flat(item, f"{where} {number}")
    elif value is not None:
        yield where, str(value)


def attempts(study: Json) -> Iterator[str]:
    """Every attempt, counted or not, with its reason."""
    yield from section(
        "Attempts",
        ("attempt", "mutant", "evidence", "ended", "counted", "reason", "opened", "sources"),
        (
            (
                code(attempt_name(row)),
                code(row["mutant"]),
                f"e{row['evidence']}",
                _ended(row),
                yes_no(row["counted"]),
                escaped(row["excluded"] or row["reason"]) or "–",
                row["opened"] or "–",
                cited(row) if row["from"] else f"e{row['evidence']} {code(row['directory'])}",
            )
            for row in study["attempts"]
        ),
    )


def _ended(row: Json) -> str:
    if row["damaged"]:
        return "DAMAGED"
    if row["outcome"] is None:
        return "DIED"
    if row["recorded"] != row["outcome"]:
        return f"{row['outcome']} (recorded {row['recorded']})"
    return str(row["outcome"])


def readings(study: Json) -> Iterator[str]:
    """Every reading with its raw returned object."""
    yield from section(
        "Readings",
        (
            "attempt",
            "state",
            "oracle",
            "verdict",
            "predicted",
            "seconds",
            "raw returned object",
            "sources",
        ),
        (
            (
                code(attempt_name(attempt)),
                state,
                f"{code(row['oracle'])} {row['instrument']}",
                row["verdict"] + (f" {escaped(row['exception'])}" if row["exception"] else ""),
                row["predicted"] or "–",
                amount(row["elapsed"]),
                "–"
                if row["raw"] is None
                else f"{code(row['raw']['path'])} {code(row['raw']['sha256'])}",
                cited(fact),
            )
            for attempt in study["attempts"]
            for state, fact in attempt["states"].items()
            for row in fact["readings"]
        ),
    )


def timings(study: Json) -> Iterator[str]:
    """Seconds per phase."""
    given = study["timings"]
    rows = [
        (
            escaped(row["phase"]),
            what,
            str(row["attempts"]),
            f"{amount(row['minimum'])} / {amount(row['median'])} / {amount(row['maximum'])}",
            amount(row["sum"]),
            cited(given),
        )
        for what, name in (("spent", "phases"), ("the protocol's own waiting", "waiting"))
        for row in given[name]
    ]
    if given["attempts"]:
        rows.append(
            (
                "whole attempts",
                "spent",
                str(given["attempts"]),
                "–",
                f"{amount(given['total_seconds'])} ({amount(given['total_minutes'])} minutes)",
                cited(given),
            )
        )
    yield from section(
        "Timings over counted attempts, seconds",
        ("phase", "what", "attempts", "minimum / median / maximum", "sum", "sources"),
        rows,
    )


def missing(study: Json) -> Iterator[str]:
    """Runs without a valid attempt."""
    yield from section(
        "Runs without a valid attempt: their cells are not judged",
        ("run", "why"),
        ((code(row["run"]), escaped(row["why"])) for row in study["runs_without_valid_attempt"]),
    )


def limits(study: Json) -> Iterator[str]:
    """What was not evaluated, and what that leaves unproved."""
    yield from section(
        "Limits: what was not evaluated, and what that leaves unproved",
        ("limit", "how much", "leaves", "sources"),
        (
            (
                escaped(row["limit"]),
                f"{row['count']} of {row['of']}",
                escaped(row["leaves"]),
                cited(row),
            )
            for row in study["limits"]
        ),
    )
