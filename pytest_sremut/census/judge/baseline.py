"""The baseline: what a benchmark's maintainers know already, so that only new blindness fails.

A finding is known by its key (finder, file, subject), which does not change when lines shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_sremut.census.model import Census, Verdict
from pytest_sremut.census.rules import check
from pytest_sremut.ground.formats.yamlfile import read_yaml

__all__ = ["Baseline", "baseline_text", "read_baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Known blind problems and known findings."""

    blind: frozenset[str] = frozenset()
    findings: frozenset[str] = frozenset()

    def stale(self, census: Census) -> list[str]:
        """One line per entry that the census no longer shows."""
        blind = {row.problem for row in census.rows if row.verdict is Verdict.BLIND}
        keys = {finding.key for finding in census.findings}
        return [
            *(f"{problem} is no longer BLIND" for problem in sorted(self.blind - blind)),
            *(f"{key} is no longer found" for key in sorted(self.findings - keys)),
        ]


def read_baseline(file: Path | None) -> Baseline:
    """Read the file. Raises InputError."""
    if file is None:
        return Baseline()
    source = read_yaml(file.parent, PurePosixPath(file.name))
    check(source, "baseline")
    return Baseline(
        blind=frozenset(source.value["blind"]), findings=frozenset(source.value["findings"])
    )


def baseline_text(census: Census) -> str:
    """A baseline under which everything in this census is known."""
    blind = sorted(row.problem for row in census.rows if row.verdict is Verdict.BLIND)
    keys = sorted({finding.key for finding in census.findings})
    lines = ["schema: sremut/census-baseline/v1"]
    for name, entries in (("blind", blind), ("findings", keys)):
        lines.append(f"{name}:" if entries else f"{name}: []")
        lines += [f'  - "{entry}"' for entry in entries]
    return "\n".join(lines) + "\n"
