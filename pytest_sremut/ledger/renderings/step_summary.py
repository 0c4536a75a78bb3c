"""A page for the summary of a CI step: scores, survivors, disagreements, what is missing.

It is rendered from the ledger and names the ledger's SHA-256, so that a reader can find the sources
of every figure there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_sremut.ledger.renderings.markdown_findings import share, survives
from pytest_sremut.ledger.renderings.markdown_tables import (
    amount,
    code,
    escaped,
    ids,
    table,
    yes_no,
)

__all__ = ["step_summary"]

Json = Mapping[str, Any]


def step_summary(ledger: Json, digest: str, known: Sequence[tuple[str, bool]] = ()) -> str:
    """Markdown for a CI step.

    Args:
        ledger: The ledger.
        digest: SHA-256 of its bytes.
        known: The comparison with a baseline: lines, the first of them the totals, each with
            whether it is bad.
    """
    lines: list[str] = []
    for line, is_bad in known:
        text = escaped(line.removeprefix("sremut: ").strip())
        lines.append(f"- **{text}**" if is_bad else f"- {text}")
    lines += [""] if known else []
    for study in ledger["studies"]:
        lines += _study(study)
    if ledger["problems"]:
        lines += [f"**{len(ledger['problems'])} problems of the evidence**", ""]
        lines += [f"- {escaped(item['problem'])}" for item in ledger["problems"]]
        lines.append("")
    lines.append(f"Figures and their sources: `ledger.json`, SHA-256 {code(digest)}")
    return "\n".join(lines) + "\n"


def _study(study: Json) -> Iterator[str]:
    yield f"## {escaped(study['title'])}"
    yield ""
    yield f"**{escaped(study['registration']['headline'])}**"
    yield ""
    missing, planned = len(study["runs_without_valid_attempt"]), study["plan"]["runs"]
    cells = study["totals"]["oracle_cells"]
    contract = study["totals"]["contract_cells"]
    yield (
        f"{planned - missing} of {planned} runs have a valid attempt; as predicted: "
        f"{cells['matched']} of {cells['of']} oracle cells, {contract['matched']} of "
        f"{contract['of']} contract cells."
    )
    yield ""
    wrong = {row["oracle"]: row for row in study["disagreements"]}
    yield from table(
        (
            "grader",
            "killed",
            "score",
            "wrong repairs rejected",
            "right systems accepted",
            "informedness",
            "false accepts",
            "false rejects",
        ),
        (
            (
                code(row["grader"]),
                f"{row['killed']} of {row['scored']}",
                ("no score" if row["percent"] is None else amount(row["percent"], " %"))
                + (f", brittle in {row['brittle_runs']} runs" if row["brittle_runs"] else ""),
                share(row["wrong_rejected"]),
                share(row["right_accepted"]),
                amount(row["informedness"]),
                _of(wrong.get(row["grader"]), "false_accepts", "of_contract_rejects"),
                _of(wrong.get(row["grader"]), "false_rejects", "of_contract_passes"),
            )
            for row in study["scores"]
        ),
    )
    yield from _lists(study)


def _of(row: Json | None, part: str, whole: str) -> str:
    return "–" if row is None else f"{row[part]} of {row[whole]}"


def _lists(study: Json) -> Iterator[str]:
    models = {mutant["id"]: mutant["models"] for mutant in study["plan"]["mutants"]}
    told = [
        f"- {code(row['grader'])} rejected the control {code(item['mutant'])} "
        f"({escaped(models[item['mutant']])})"
        for row in study["scores"]
        for item in row["mutants"]
        if item["fate"] == "control rejected"
    ]
    told += [
        f"- {code(row['grader'])} let {code(item['mutant'])} survive "
        f"({escaped(models[item['mutant']])})"
        for row in study["scores"]
        for item in row["mutants"]
        if survives(item)
    ]
    told += [
        f"- {code(row['mutant'])}: repetitions disagree: "
        + " / ".join(ids(one["violated"]) for one in row["sets"])
        for row in study["violated"]
        if row["agree"] is False
    ]
    told += [
        f"- {row['meaning']}: {code(row['run'])} {row['state']} {code(row['grader'])}: predicted "
        f"{escaped(row['predicted'])}, observed {escaped(row['observed'])}"
        for row in study["surprises"]
    ]
    told += [
        f"- rule {code(row['rule'])} fired {row['fired']} times: {escaped(row['says'])}"
        for row in study["falsification"]
        if row["fired"]
    ]
    told += [f"- {escaped(row['why'])}" for row in study["runs_without_valid_attempt"]]
    told += [
        f"- instruments of {code(row['oracle'])} agree: {yes_no(False)}, "
        f"{row['agreed']} of {row['compared']}"
        for row in study["agreement"]
        if row["agreed"] != row["compared"]
    ]
    yield from told
    if told:
        yield ""
