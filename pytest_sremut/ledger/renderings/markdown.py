"""The ledger for people: `ledger.md`, rendered from `ledger.json` and from nothing else.

Every row with a figure ends in its sources, `s3–s5 s9`. The last section lists their paths and
SHA-256. Text from records is escaped, so that it can neither break a table nor become markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sremut.ledger.renderings import markdown_evidence as evidence
from pytest_sremut.ledger.renderings import markdown_findings as findings
from pytest_sremut.ledger.renderings import markdown_workload as workload
from pytest_sremut.ledger.renderings.markdown_tables import Json, code, escaped, table
from pytest_sremut.ledger.renderings.store import MARK

__all__ = ["render"]


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
    for part in (
        findings.scores, findings.disagreements, findings.totals, findings.matrix,
        findings.compact_table, findings.violated, findings.unexpected_readings,
        findings.falsification,
        workload.retained, workload.windows, workload.quantities,
        evidence.agreement, evidence.instruments, evidence.compositions, evidence.diagnostics,
        evidence.registration, evidence.attempts, evidence.readings, evidence.timings,
        evidence.missing, evidence.limits,
    ):  # fmt: skip
        yield from part(study)


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
