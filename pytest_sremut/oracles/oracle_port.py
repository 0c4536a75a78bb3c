"""What a grader is to us, and what one instrument got from it.

What an oracle returned is made into exact built-ins within a bound, and only what was kept is
judged, by `study.returned`. Everything else, truthy or not, is an ERROR with the reason why.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, runtime_checkable

from pytest_sremut.study.returned import UNSAID, judge, why_no_verdict
from pytest_sremut.study.verdict import Verdict

__all__ = [
    "CapturesBaseline",
    "Oracle",
    "Raised",
    "Reading",
    "json_ready",
    "judge",
    "raised_as_text",
    "why_no_verdict",
]

_REPR_LIMIT: Final = 2_000
_TEXT_LIMIT: Final = 64 << 10
_DEPTH_LIMIT: Final = 40
_NODE_LIMIT: Final = 100_000
_SIZE_LIMIT: Final = 4 << 20  # characters of all texts together


class Oracle(Protocol):
    """A grader: looks at the cluster and says whether the repair is one."""

    def evaluate(self) -> Any:
        """A mapping whose `success` is True or False; may raise."""
        ...


@runtime_checkable
class CapturesBaseline(Protocol):
    """A grader that wants to see the healthy state first."""

    def capture_baseline(self) -> Any:
        """Called once, while the application is healthy."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An exception, as text."""

    type: str  # qualified name; builtins without their module
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one instrument got from one oracle in one state."""

    oracle: str  # id in the study
    use: str
    instrument: str  # "in-process", "isolated"
    verdict: Verdict
    reason: str  # why the verdict is ERROR; empty otherwise
    returned: Any  # JSON-ready; what JSON cannot say is {"$repr": text} in its place
    exception: Raised | None
    started: str  # RFC 3339, UTC
    elapsed: float  # seconds inside the oracle
    stdout: str
    stderr: str
    facts: Mapping[str, Any]  # versions, digests of modules, the process; JSON-ready

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins only."""
        return {**asdict(self), "verdict": self.verdict.value, "facts": dict(self.facts)}


def raised_as_text(error: BaseException) -> Raised:
    """An exception's type, message and traceback, each bounded and encodable."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    try:
        message = str(error)
        trace = "".join(traceback.format_exception(error))
    except BaseException as broken:  # a foreign __str__ may raise anything, an exit included
        message = f"<its text raised {type(broken).__name__}>"
        trace = "".join(traceback.format_tb(error.__traceback__))
    if type(message) is not str:  # a subclass of str that `str()` let through
        message = f"<its text is a {type(message).__name__}>"
    return Raised(type=_bounded(name), message=_bounded(message), traceback=_bounded(trace))


def _bounded(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _TEXT_LIMIT else clean[:_TEXT_LIMIT] + "..."


def json_ready(value: Any) -> Any:
    """The value where JSON can say it exactly, `{"$repr": text}` in the place of what it cannot.

    Only exact built-ins pass: a subclass of `dict` or `int` has a meaning of its own. What is too
    large to keep (100,000 values, or 4 MiB of text) is left out as a whole, so no part of it can
    be taken for an answer. Iterates exact built-ins only; calls nothing of the value's but its
    `__repr__`.
    """
    try:
        return _ready(value, _DEPTH_LIMIT, _Room())
    except _TooLargeError:
        return {UNSAID: f"<{type(value).__name__}: too large to keep>"}


class _TooLargeError(Exception):
    pass


class _Room:
    """How much may still be kept."""

    def __init__(self) -> None:
        self._nodes = _NODE_LIMIT
        self._size = _SIZE_LIMIT

    def take(self, size: int = 0) -> None:
        """Make room for one more value with that much text. Raises _TooLargeError."""
        self._nodes -= 1
        self._size -= size
        if self._nodes < 0 or self._size < 0:
            raise _TooLargeError


def _ready(value: Any, depth: int, room: _Room) -> Any:
    room.take(len(value) if type(value) is str else 0)
    if depth <= 0:
        return {UNSAID: f"<{type(value).__name__}: too deep to keep>"}
    kind = type(value)
    if value is None or kind in (bool, int):
        # Larger integers lose digits in other readers of JSON.
        return value if kind is not int or abs(value) < 2**53 else _repr(value)
    if kind is float:
        return value if math.isfinite(value) else _repr(value)
    if kind is str:
        return value if _encodable(value) else _repr(value)
    if kind is list:
        return [_ready(item, depth - 1, room) for item in value]
    if kind is dict and all(type(key) is str and _encodable(key) for key in value):
        for key in value:
            room.take(len(key))
        return {key: _ready(item, depth - 1, room) for key, item in value.items()}
    return _repr(value)


def _repr(value: Any) -> dict[str, str]:
    try:
        text = repr(value)
    except BaseException as error:  # a foreign __repr__ may raise anything, an exit included
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return {UNSAID: text if len(text) <= _REPR_LIMIT else text[:_REPR_LIMIT] + "..."}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
