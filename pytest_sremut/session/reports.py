"""From a ledger to the reports that were asked for, and to the comparison with a baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import EvidenceError

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.comparison import Comparison
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.options.settings import Settings

__all__ = ["baseline_of", "compared", "export"]


def baseline_of(settings: Settings) -> Baseline | None:
    """The baseline that was named. Raises InputError."""
    from pytest_sremut.ledger.baseline.document import read_baseline

    return None if settings.baseline is None else read_baseline(settings.baseline)


def compared(settings: Settings, comparison: Comparison) -> list[tuple[str, bool]]:
    """A comparison as lines for the summary, each with whether it is bad."""
    file = "" if settings.baseline is None else settings.baseline.name
    head = (f"sremut: baseline {file}: {comparison.head()}", comparison.failed)
    return [head, *((f"  {line}", is_bad) for line, is_bad in comparison.lines())]


def export(
    settings: Settings,
    kind: str,
    path: Path,
    document: Mapping[str, Any],
    data: bytes,
    *,
    comparison: Comparison | None = None,
) -> str:
    """Write one report; says where. Raises EvidenceError.

    Args:
        settings: Of the session; a viewer shows the project's mutant registries.
        kind: `json`, `md` or `stryker`.
        path: Where to; the file named by GITHUB_STEP_SUMMARY is appended to, others are replaced.
        document: The ledger.
        data: Its bytes.
        comparison: With the baseline; the page of a CI step shows it.
    """
    from pytest_sremut.ground.durable.atomic import make_directory
    from pytest_sremut.ground.formats.canonical import canonical_json, sha256
    from pytest_sremut.ledger.renderings.step_summary import step_summary
    from pytest_sremut.ledger.renderings.store import append_text, replace_file
    from pytest_sremut.ledger.renderings.stryker import stryker_report

    make_directory(path.parent)
    if kind == "json":
        replace_file(path, data)
    elif kind == "stryker":
        texts = _registries(settings.root, document)
        replace_file(path, canonical_json(stryker_report(document, texts)) + b"\n")
    else:
        known = () if comparison is None else compared(settings, comparison)
        text = step_summary(document, sha256(data), known)
        shared = os.environ.get("GITHUB_STEP_SUMMARY", "")
        if shared and Path(shared).resolve() == path:
            append_text(path, text)
        else:
            replace_file(path, text.encode())
    return f"sremut: {kind} report: {path}"


def _registries(root: Path, document: Mapping[str, Any]) -> dict[str, str]:
    names = sorted({study["plan"]["files"]["mutants"]["path"] for study in document["studies"]})
    try:
        return {name: (root / name).read_text(encoding="utf-8") for name in names}
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"mutant registries cannot be read: {error}") from error
