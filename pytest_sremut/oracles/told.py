"""What a grader's process may say of a reading, and nothing else: what came of the call.

    {"begun": true}                                       our code is done, the oracle's begins
    {"returned": VALUE, "exception": {...}|null}          once; a benchmark's has "notes" beside

No verdict, no name, no version: whoever reads the frames knows those, or finds them out itself.
Anything else, one frame too many or one too few is no answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles import framing
from pytest_sremut.oracles.oracle_port import Raised, json_ready
from pytest_sremut.study.returned import UNSAID

__all__ = ["BEGUN", "LARGEST", "Told", "parsed"]

LARGEST: Final = 8 << 20
"""Bytes of the frames of one reading that are looked at."""

BEGUN: Final[Mapping[str, Any]] = {"begun": True}
"""Sent after our own preparations: what comes before it is ours, what comes after the oracle's."""

_RAISED: Final = frozenset({"type", "message", "traceback"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of calling an oracle once."""

    returned: Any  # made by `json_ready`
    exception: Raised | None
    notes: Mapping[str, Any] | None = None  # of a benchmark's class: shown, and never decided upon

    def frame(self) -> dict[str, Any]:
        """As it is sent; a returned object that makes the frame too large is left out."""
        fields: dict[str, Any] = {
            "returned": self.returned,
            "exception": None if self.exception is None else asdict(self.exception),
        }
        if self.notes is not None:
            fields["notes"] = dict(self.notes)
        if len(framing.encode({"returned": self.returned})) > LARGEST // 2:
            fields["returned"] = {UNSAID: "<too large to keep>"}
        return fields

    @classmethod
    def parse(cls, text: str, *, notes: bool = False) -> Told:
        """The answer in a frame. Raises HarnessError for anything that is none.

        Args:
            text: Of the frame; from a process that nobody believes.
            notes: Whether the frame has notes.
        """
        fields = parsed(text)
        wanted = {"returned", "exception", "notes"} if notes else {"returned", "exception"}
        if fields.keys() != wanted:
            raise HarnessError(f"a frame with {', '.join(sorted(fields)) or 'nothing'}")
        told = fields["exception"]
        if told is not None and not (
            isinstance(told, dict)
            and told.keys() == _RAISED
            and all(isinstance(part, str) and _plain(part) for part in told.values())
        ):
            raise HarnessError("an exception that is none")
        if notes and not isinstance(fields["notes"], dict):
            raise HarnessError("notes that are none")
        return cls(
            returned=json_ready(fields["returned"]),
            exception=None if told is None else Raised(**told),
            notes=json_ready(fields["notes"]) if notes else None,
        )


def parsed(text: str) -> dict[str, Any]:
    """The mapping in a frame's text. Raises HarnessError."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"no JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise HarnessError(f"{type(value).__name__}, no mapping")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
