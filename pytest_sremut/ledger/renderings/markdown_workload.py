"""Sections of `ledger.md` on workload: windows, retained volume, predicted quantities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sremut.ledger.renderings.markdown_tables import (
    Json,
    amount,
    attempt_name,
    cited,
    code,
    numbers,
    section,
)

__all__ = [
    "quantities",
    "retained",
    "windows",
]


def retained(study: Json) -> Iterator[str]:
    """Per mutant, post-mutation and full window."""

    def cells(part: Json) -> tuple[str, str]:
        volume, rates = (
            f"{numbers(part[name])} (mean {amount(part[f'{name}_mean'])})"
            for name in ("retained_percent", "error_rate_percent")
        )
        return volume, rates

    yield from section(
        "Retained volume and error rate of the faulted state, percent",
        (
            "mutant",
            "retained, post-mutation",
            "error rate, post-mutation",
            "retained, full window",
            "error rate, full window",
            "sources",
        ),
        (
            (
                code(row["mutant"]),
                *cells(row["post_mutation"]),
                *cells(row["full_window"]),
                cited(row),
            )
            for row in study["retained"]
        ),
    )


def windows(study: Json) -> Iterator[str]:
    """Every window with its rounds."""
    yield from section(
        "Workload windows",
        (
            "attempt",
            "state",
            "requests in rounds",
            "failed",
            "error rate",
            "requests and failures of each round",
            "successes retained (post-mutation)",
            "successes retained (full window)",
            "sources",
        ),
        (
            (
                code(attempt_name(row)),
                row["state"],
                f"{row['requests']} in {row['rounds']}",
                f"{row['failures']} of {row['requests']}",
                amount(row["error_rate_percent"], " %"),
                " ".join(f"{asked}/{failed}" for asked, failed in row["per_round"]),
                _retained_cell(row.get("retained_post_mutation")),
                _retained_cell(row.get("retained_full_window")),
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


def quantities(study: Json) -> Iterator[str]:
    """Predicted numbers, matched or missed."""
    yield from section(
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
                    f"{code(attempt_name(item))} {amount(item['value'])} "
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
