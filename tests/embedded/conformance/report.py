"""The table in the documentation, made from outcomes and read back from the text.

Rules kept here: the text between the markers is generated whole; a step that is not named there is
the same, and the counts are those of the run that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from .outcome import Outcome, Verdict
from .rules import RULES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "embedded.md"
BEGIN = "<!-- conformance: begin, written by benchmarks/conformance.py -->"
END = "<!-- conformance: end -->"
_ROW = re.compile(r"^\| `([^`]+/[^`]+)` \| (differs|not offered) \|")
_LABELS = ("same", "differs", "not offered")


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """The generated text, without the markers."""
    lines = [
        "| recorded scenario | steps | same | differs | not offered |",
        "|---|---|---|---|---|",
    ]
    totals = [0, 0, 0, 0]
    for folder, found in outcomes.items():
        counts = [len(found), *(sum(o.verdict == label for o in found) for label in _LABELS)]
        totals = [left + right for left, right in zip(totals, counts, strict=True)]
        lines.append(f"| `{folder}` | " + " | ".join(map(str, counts)) + " |")
    lines.append("| **all** | " + " | ".join(f"**{count}**" for count in totals) + " |")
    lines += ["", "| step | result | why |", "|---|---|---|"]
    for found in outcomes.values():
        for outcome in found:
            if outcome.verdict != "same":
                why = " ".join((*outcome.reasons, *map(_unexplained, outcome.unexplained)))
                lines.append(f"| `{outcome.step}` | {outcome.verdict} | {why} |")
    lines += ["", "Not compared, or compared by what it stands for:", ""]
    lines += [f"- *{name}*: {text}." for name, text in RULES.items()]
    return "\n".join(lines) + "\n"


def _unexplained(line: str) -> str:
    return f"UNEXPLAINED: {line[:120]}".replace("|", "\\|")


def write(outcomes: Mapping[str, Sequence[Outcome]], path: Path = DOCUMENT) -> None:
    """Replace the generated part of the document."""
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    path.write_text(f"{head}{BEGIN}\n\n{table(outcomes)}\n{END}{tail}", encoding="utf-8")


def committed(path: Path = DOCUMENT) -> dict[str, Verdict]:
    """The steps that the document says are not the same."""
    found: dict[str, Verdict] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _ROW.match(line)
        if match:
            found[match[1]] = "differs" if match[2] == "differs" else "not offered"
    return found
