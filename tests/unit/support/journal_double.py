"""A journal in memory that can be told to fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sremut.errors import EvidenceError

__all__ = ["Journal"]


class Journal:
    """Keeps entries; may be told to fail at one."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Mapping[str, Any]]] = []
        self.fail_at = ""

    def append(self, transition: str, facts: Mapping[str, Any]) -> None:
        if transition == self.fail_at:
            raise EvidenceError("disk full")
        self.entries.append((transition, facts))

    @property
    def transitions(self) -> list[str]:
        return [transition for transition, _ in self.entries]
