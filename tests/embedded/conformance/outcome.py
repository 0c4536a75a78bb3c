"""What became of a step: same, differs, or not offered, and why.

Rules kept here: a difference counts as explained only by an entry of `reviewed`; a step without any
is the same; one unexplained line makes the step unexplained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["same", "differs", "not offered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A difference that somebody has looked at.

    Attributes:
        steps: a regular expression for ``FOLDER/STEP``.
        line: a regular expression for the whole difference.
        reason: one sentence for the documentation.
        verdict: whether the thing differs or is not there at all.
    """

    steps: str
    line: str
    reason: str
    verdict: Literal["differs", "not offered"] = "differs"

    def explains(self, step: str, line: str) -> bool:
        return bool(re.search(self.steps, step) and re.search(self.line, line, re.DOTALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One step's result.

    Attributes:
        step: ``FOLDER/STEP``.
        lines: where the answers differ.
        unexplained: those of them for which there is no reviewed reason.
        reasons: the reviewed reasons, each once.
    """

    step: str
    verdict: Verdict
    lines: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def explain(step: str, lines: list[str], reviewed: tuple[Reviewed, ...]) -> Outcome:
    """Judge a step's differences."""
    verdict: Verdict = "same"
    unexplained, reasons = [], []
    for line in lines:
        entry = next((entry for entry in reviewed if entry.explains(step, line)), None)
        if entry is None:
            unexplained.append(line)
            verdict = "differs"
            continue
        if entry.reason not in reasons:
            reasons.append(entry.reason)
        if verdict != "differs":
            verdict = entry.verdict
        if entry.verdict == "differs":
            verdict = "differs"
    return Outcome(
        step=step,
        verdict=verdict,
        lines=tuple(lines),
        unexplained=tuple(unexplained),
        reasons=tuple(reasons),
    )
