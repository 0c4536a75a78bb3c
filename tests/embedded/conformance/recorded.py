"""The corpus: scenarios of recorded steps, in order.

Rules kept here: data only; nothing of the recording is changed, and a step is known by its number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = Any

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "k8s-golden" / "v1.36.2"
FOLDERS = (
    "01-discovery",
    "02-deployment",
    "03-service",
    "04-pods",
    "05-errors",
    "06-kubectl",
    "07-connect-timing",
    "08-faults",
    "09-expired",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded file.

    Attributes:
        name: the file's name without its ending, ``004-delete``; of a watch stream
            ``events-endpoints``.
        kind: ``exchange``, ``state``, ``probe``, ``watch``, ``kubectl``, ``stream`` or ``note``.
        gap: seconds since the step before.
        data: the file.
    """

    name: str
    kind: str
    note: str
    gap: float
    data: dict[str, Json]
    lines: Sequence[dict[str, Json]] = field(default=())

    @property
    def number(self) -> int:
        """The step's number; 0 for a watch stream, which spans all steps."""
        return int(self.name[:3]) if self.name[:3].isdigit() else 0


def here() -> bool:
    """Whether the corpus is on this machine."""
    return CORPUS.is_dir()


def steps(folder: str) -> list[Step]:
    """The steps of a scenario, in order."""
    found = []
    last = 0.0
    for path in sorted((CORPUS / folder).glob("[0-9]*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        now = float(data.get("t", last))
        found.append(
            Step(
                name=path.stem.removesuffix(".state").removesuffix(".probe"),
                kind=data["type"],
                note=data.get("note", ""),
                gap=max(0.0, now - last),
                data=data,
            )
        )
        last = now
    return found


def streams(folder: str) -> list[Step]:
    """The watch streams that were open during a scenario."""
    found = []
    for path in sorted((CORPUS / folder).glob("events-*.jsonl")):
        head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        found.append(
            Step(name=path.stem, kind="stream", note="", gap=0.0, data=head, lines=tuple(lines))
        )
    return found
