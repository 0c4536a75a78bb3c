"""The ledger for people: `ledger.md`, rendered from `ledger.json` and from nothing else.

Every row that holds a figure ends in its sources, `s3–s5 s9`, whose paths and SHA-256 stand in the
last section. Text that came from records is escaped: it can neither break a table nor become
markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_sremut.ledger.markdown_tables import (
    amount,
    cited,
    code,
    counts,
    escaped,
    ids,
    numbers,
    table,
    yes_no,
)
from pytest_sremut.ledger.store import MARK

__all__ = ["render"]

Json = Mapping[str, Any]


def render(ledger: Json) -> bytes:
    """The bytes of `ledger.md`."""
    lines = [MARK, "# Ledger", "", *_head(ledger)]
    for study in ledger["studies"]:
        lines += _study(study)
    lines += _problems(ledger)
    lines += _sources(ledger)
    return ("\n".join(lines) + "\n").encode()


def _head(ledger: Json) -> Iterator[str]:
    headlines = {study["registration"]["headline"] for study in ledger["studies"]}
    for headline in sorted(headlines):
        yield f"**{escaped(headline)}**"
        yield ""
    yield (
        "Every figure is computed from the records named at the end of its row; `sN` are listed "
        "with path and SHA-256 under *Sources*. Counts come before percentages, and only valid "
        "attempts are counted. Nothing of nothing is no number: it is shown as –. Intervals: "
        f"{code(ledger['interval'])}."
    )
    yield ""
    yield from table(
        ("evidence", "digest of what lists its attempts", "sessions"),
        (
            (f"e{item['id']}", code(item["digest"]), ", ".join(map(code, item["sessions"])))
            for item in ledger["evidence"]
        ),
    )


def _study(study: Json) -> Iterator[str]:
    yield f"## {escaped(study['title'])}"
    yield ""
    yield f"Study {code(study['id'])}."
    yield ""
    for section in (
        _scores, _disagreements, _totals, _matrix, _table, _violated, _surprises, _falsification,
        _retained, _windows, _quantities, _agreement, _instruments, _compositions, _diagnostics,
        _registration, _attempts, _readings, _timings, _missing, _limits,
    ):  # fmt: skip
        yield from section(study)


def _section(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A titled table; nothing at all without rows."""
    listed = list(rows)
    if listed:
        yield f"### {title}"
        yield ""
        yield from table(headings, listed)


# -- what was found -----------------------------------------------------------------------------


def _scores(study: Json) -> Iterator[str]:
    yield from _section(
        "Mutation score",
        ("grader", "killed of scored", "percent", "unscored", "unproven", "sources"),
        (
            (
                code(row["grader"]),
                f"{row['killed']} of {row['scored']}",
                amount(row["percent"], " %") if row["percent"] is not None else "no score",
                str(row["unscored"]),
                str(row["unproven"]),
                cited(row),
            )
            for row in study["scores"]
        ),
    )
    models = {mutant["id"]: mutant["models"] for mutant in study["plan"]["mutants"]}
    yield from _section(
        "Survivors: the grader accepted a system that was never repaired",
        ("grader", "mutant", "accepted", "fate", "models", "sources"),
        (
            (
                code(row["grader"]),
                code(item["mutant"]),
                f"{item['accepted']} of {item['accepted'] + item['rejected'] + item['errors']}",
                item["fate"],
                escaped(models[item["mutant"]]),
                cited(item),
            )
            for row in study["scores"]
            for item in row["mutants"]
            if item["accepted"]
        ),
    )


def _disagreements(study: Json) -> Iterator[str]:
    yield from _section(
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


def _totals(study: Json) -> Iterator[str]:
    totals = study["totals"]

    def matched(name: str, title: str) -> tuple[str, str, str]:
        row = totals[name]
        return title, f"{row['matched']} of {row['of']}", cited(row)

    def observed(name: str, title: str) -> tuple[str, str, str]:
        row = totals[name]
        return title, counts(row["observed"], row["of"]), cited(row)

    faulted, controls = totals["contract_faulted"], totals["contract_controls"]
    yield from _section(
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


def _matrix(study: Json) -> Iterator[str]:
    yield from _section(
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


def _table(study: Json) -> Iterator[str]:
    yield from _section(
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


def _violated(study: Json) -> Iterator[str]:
    yield from _section(
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


def _surprises(study: Json) -> Iterator[str]:
    yield from _section(
        "Surprises, judged by the sampler's timeline",
        ("where", "grader", "predicted", "observed", "pods", "meaning", "sources"),
        (
            (
                f"{code(_attempt_name(row))} {row['state']}",
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


def _attempt_name(row: Json) -> str:
    return f"{row['run']} a{row['attempt']:02d}"


def _falsification(study: Json) -> Iterator[str]:
    yield from _section(
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


# -- workload -----------------------------------------------------------------------------------


def _retained(study: Json) -> Iterator[str]:
    def cells(part: Json) -> tuple[str, str]:
        retained, rates = (
            f"{numbers(part[name])} (mean {amount(part[f'{name}_mean'])})"
            for name in ("retained_percent", "error_rate_percent")
        )
        return retained, rates

    yield from _section(
        "Retained volume and error rate of the faulted state, percent",
        (
            "mutant",
            "retained, full window",
            "error rate, full window",
            "retained, post-mutation",
            "error rate, post-mutation",
            "sources",
        ),
        (
            (
                code(row["mutant"]),
                *cells(row["full_window"]),
                *cells(row["post_mutation"]),
                cited(row),
            )
            for row in study["retained"]
        ),
    )


def _windows(study: Json) -> Iterator[str]:
    yield from _section(
        "Workload windows",
        (
            "attempt",
            "state",
            "requests in rounds",
            "failed",
            "error rate",
            "requests and failures of each round",
            "successes retained (full window)",
            "successes retained (post-mutation)",
            "sources",
        ),
        (
            (
                code(_attempt_name(row)),
                row["state"],
                f"{row['requests']} in {row['rounds']}",
                f"{row['failures']} of {row['requests']}",
                amount(row["error_rate_percent"], " %"),
                " ".join(f"{asked}/{failed}" for asked, failed in row["per_round"]),
                _retained_cell(row.get("retained_full_window")),
                _retained_cell(row.get("retained_post_mutation")),
                cited(row, *filter(None, [row.get("retained_full_window")])),
            )
            for row in study["windows"]
        ),
    )


def _retained_cell(row: Json | None) -> str:
    if row is None:
        return "–"
    return (
        f"{row['successes']} in {row['rounds']} rounds against {row['healthy_successes']} in "
        f"{row['healthy_rounds']}: {amount(row['percent'], ' %')}"
    )


def _quantities(study: Json) -> Iterator[str]:
    yield from _section(
        "Predicted quantities",
        ("quantity", "speaks of", "predicted", "matched", "interval", "compared", "sources"),
        (
            (
                code(row["id"]),
                f"{row['measure'].replace('_', ' ')}, {row['state']}"
                + (f", {code(row['mutant'])}" if row["mutant"] else ""),
                f"{amount(row['expected'])} ± {amount(row['tolerance'])}",
                f"{row['matched']} of {row['matched'] + row['missed']}"
                + (f", {row['no_number']} without a number" if row["no_number"] else ""),
                _interval(row["matched_interval_percent"]),
                "; ".join(
                    f"{code(_attempt_name(item))} {amount(item['value'])} "
                    f"{_interval(item['interval_percent'])} "
                    + ("matched" if item["matched"] else "**missed**")
                    for item in row["compared"]
                )
                or "–",
                cited(row),
            )
            for row in study["quantities"]
        ),
    )


def _interval(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"[{amount(ends[0])}, {amount(ends[1])}]"


# -- instruments --------------------------------------------------------------------------------


def _agreement(study: Json) -> Iterator[str]:
    yield from _section(
        "Agreement between instruments",
        ("oracle", "states in which they agree", "where not", "sources"),
        (
            (
                code(row["oracle"]),
                f"{row['agreed']} of {row['compared']}",
                "; ".join(
                    f"{code(_attempt_name(item))} {item['state']}: "
                    + ", ".join(f"{name} {verdict}" for name, verdict in item["verdicts"].items())
                    for item in row["differ"]
                )
                or "–",
                cited(row),
            )
            for row in study["agreement"]
        ),
    )


def _instruments(study: Json) -> Iterator[str]:
    yield from _section(
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


def _compositions(study: Json) -> Iterator[str]:
    yield from _section(
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


def _diagnostics(study: Json) -> Iterator[str]:
    yield from _section(
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


# -- the evidence itself ------------------------------------------------------------------------


def _registration(study: Json) -> Iterator[str]:
    given = study["registration"]
    rows = [("regime", escaped(given["headline"]), cited(given))]
    for role, file in study["plan"]["files"].items():
        rows.append(
            (f"file of the study: {role}", f"{code(file['path'])} {code(file['sha256'])}", "")
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
    yield from _section("Registration", ("what", "as recorded", "sources"), rows)


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


def _attempts(study: Json) -> Iterator[str]:
    yield from _section(
        "Attempts",
        ("attempt", "mutant", "evidence", "ended", "counted", "reason", "opened", "sources"),
        (
            (
                code(_attempt_name(row)),
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


def _readings(study: Json) -> Iterator[str]:
    yield from _section(
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
                code(_attempt_name(attempt)),
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


def _timings(study: Json) -> Iterator[str]:
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
    yield from _section(
        "Timings over counted attempts, seconds",
        ("phase", "what", "attempts", "minimum / median / maximum", "sum", "sources"),
        rows,
    )


def _missing(study: Json) -> Iterator[str]:
    yield from _section(
        "Runs without a valid attempt: their cells are not judged",
        ("run", "why"),
        ((code(row["run"]), escaped(row["why"])) for row in study["runs_without_valid_attempt"]),
    )


def _limits(study: Json) -> Iterator[str]:
    yield from _section(
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


def _problems(ledger: Json) -> Iterator[str]:
    if ledger["problems"]:
        yield "## Evidence that does not hold together"
        yield ""
        yield from table(
            ("evidence", "problem"),
            ((f"e{row['evidence']}", escaped(row["problem"])) for row in ledger["problems"]),
        )


def _sources(ledger: Json) -> Iterator[str]:
    yield "## Sources"
    yield ""
    yield "Paths are relative to the evidence directory; `project` names a file of the study."
    yield ""
    yield from table(
        ("source", "evidence", "path", "SHA-256"),
        (
            (
                f"s{number}",
                f"e{row['evidence']}" if row["evidence"] else "project",
                code(row["path"]),
                code(row["sha256"]),
            )
            for number, row in enumerate(ledger["sources"], start=1)
        ),
    )
