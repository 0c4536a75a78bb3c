"""The regime of the records, and what their registration says.

What was checked at the time of the runs is repeated as recorded. Only the order of times can be
checked again, and is: prediction token, tree token, first mutation. The registration of published
figures is given as published; it was not verified here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pytest_sremut.evidence.seal.standing import label
from pytest_sremut.ledger.judge import Judged, JudgedStudy
from pytest_sremut.ledger.model import PUBLISHED, AttemptFact
from pytest_sremut.ledger.seals import study_label
from pytest_sremut.ledger.sources import Sources

__all__ = ["HEADLINES", "headline", "registration"]

HEADLINES: Final[Mapping[str, str]] = {
    "": "no record: nothing was registered and nothing run",
    "EXPLORATORY": "EXPLORATORY: no registration, nothing here confirms a prediction",
    "PREREGISTERED": "pre-registered: predictions were fixed before the first run, not sealed",
    "SEALED": "SEALED: registered, every attempt sealed; each study tells what its seals lack",
    PUBLISHED: "PUBLISHED: transcribed from published figures, neither run nor verified here",
}


def registration(judged: Judged, study: JudgedStudy, sources: Sources) -> dict[str, Any]:
    """The registration of one study's records."""
    blocks = _distinct(attempt.registration_facts for attempt in study.attempts)
    mutations = [_instant(attempt.first_mutation) for attempt in study.attempts]
    first = min((at for at in mutations if at is not None), default=None)
    return {
        "kind": judged.kind or None,
        "headline": headline(judged.kind, study.attempts),
        **_seals(study),
        "records": blocks,
        "first_mutation": None if first is None else _text(first),
        "order": [order for block in blocks for order in _order(block, first)],
        "from": sources.ranges(attempt.source for attempt in study.attempts),
    }


def headline(kind: str, attempts: tuple[AttemptFact, ...]) -> str:
    """The regime in one line; for sealed attempts also what their seals lack."""
    return study_label(attempts) or HEADLINES.get(kind, kind)


def _seals(study: JudgedStudy) -> dict[str, Any]:
    """Each attempt's seal; empty in any other regime."""
    sealed = [attempt for attempt in study.attempts if attempt.seal is not None]
    if not sealed:
        return {}
    return {
        "seals": [
            {
                "run": attempt.run,
                "attempt": attempt.attempt,
                "label": label(attempt.seal.standing),
                "holds": attempt.seal.standing.sealed,
                "extent": attempt.seal.extent or None,
                "guards_held": attempt.seal.standing.guards_held,
                "seal": attempt.seal.digest or None,
                "key": attempt.seal.key or None,
                "stamped": attempt.seal.time or None,
            }
            for attempt in sealed
            if attempt.seal is not None
        ]
    }


def _distinct(blocks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for block in blocks:
        if block and block not in found:
            found.append(block)
    return sorted(found, key=lambda block: str(block.get("digest", "")))


def _order(block: Mapping[str, Any], first: datetime | None) -> list[dict[str, Any]]:
    """Each stamped time beside the first mutation; `before` is None if no mutation is known."""
    return [
        {
            "stamp": name,
            "time": _text(at),
            "before_first_mutation": None if first is None else at < first,
        }
        for name, at in sorted(_stamps(block), key=lambda item: (item[1], item[0]))
    ]


def _stamps(block: Mapping[str, Any]) -> list[tuple[str, datetime]]:
    found: list[tuple[str, Any]] = []
    for name in ("predictions", "tree"):
        token = block.get(name)
        if isinstance(token, Mapping):
            found.append((name, token.get("gen_time")))
    published = block.get("as_published")
    if isinstance(published, Mapping):
        tokens = published.get("tokens")
        for token in tokens if isinstance(tokens, list) else []:
            if isinstance(token, Mapping):
                found.append((str(token.get("covers", "")), token.get("gen_time")))
        for name in ("prediction_document_utc", "pre_execution_tree_utc"):
            found.append((name.removesuffix("_utc").replace("_", " "), published.get(name)))
    return [(name, at) for name, text in found if (at := _instant(text)) is not None]


def _instant(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo is not None else None


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
