"""What a grader is to us, and what one instrument got from it.

The raw returned object is kept and judged, never coerced: `success` must be exactly `True` or
exactly `False` in a mapping. Everything else, truthy or not, is an ERROR with the reason why.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, runtime_checkable

from pytest_sremut.errors import HarnessError
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
_NODE_LIMIT: Final = 200_000
_TEXTS: Final = ("oracle", "use", "instrument", "reason", "started", "stdout", "stderr")


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

    @classmethod
    def from_json(cls, value: Any) -> Reading:
        """The inverse of `to_json`. Raises HarnessError for anything else."""
        try:
            fields = dict(value)
            raised = fields.pop("exception")
            fields["verdict"] = Verdict(fields["verdict"])
            reading = cls(exception=None if raised is None else Raised(**raised), **fields)
        except (TypeError, ValueError, KeyError) as error:
            raise HarnessError(f"not a reading: {error}") from error
        texts = [getattr(reading, name) for name in _TEXTS]
        if raised is not None:
            texts += [raised["type"], raised["message"], raised["traceback"]]
        if not all(isinstance(text, str) for text in texts):
            raise HarnessError("not a reading: a text is no string")
        if not isinstance(reading.elapsed, float) or not isinstance(reading.facts, dict):
            raise HarnessError("not a reading: elapsed or facts")
        return reading


def raised_as_text(error: BaseException) -> Raised:
    """An exception's type, message and traceback, each bounded and encodable."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    try:
        message = str(error)
        trace = "".join(traceback.format_exception(error))
    except Exception as broken:  # a foreign __str__ may raise anything
        message = f"<its text raised {type(broken).__name__}>"
        trace = "".join(traceback.format_tb(error.__traceback__))
    return Raised(type=_bounded(name), message=_bounded(message), traceback=_bounded(trace))


def _bounded(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _TEXT_LIMIT else clean[:_TEXT_LIMIT] + "..."


def judge(returned: Any, key: str = "success") -> Verdict:
    """The verdict that a returned object states under `key`, ERROR when it states none."""
    if why_no_verdict(returned, key):
        return Verdict.ERROR
    return Verdict.ACCEPT if returned[key] is True else Verdict.REJECT


def why_no_verdict(returned: Any, key: str = "success") -> str:
    """Why a returned object is no verdict; empty when it is one."""
    if not isinstance(returned, dict):
        return f"the oracle returned {_article(type(returned).__name__)}, not a mapping"
    if key not in returned:
        return f"the oracle returned a mapping without {key!r}"
    success = returned[key]
    if success is True or success is False:
        return ""
    return f"the oracle's {key!r} is {_article(type(success).__name__)}, not True or False"


def json_ready(value: Any) -> Any:
    """The value where JSON can say it exactly, `{"$repr": text}` in the place of what it cannot.

    Only exact built-ins pass: a subclass of `dict` or `int` has a meaning of its own.
    """
    budget = [_NODE_LIMIT]
    return _ready(value, _DEPTH_LIMIT, budget)


def _ready(value: Any, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if depth <= 0 or budget[0] <= 0:
        return {"$repr": f"<{type(value).__name__}: too deep or too large to keep>"}
    kind = type(value)
    if value is None or kind in (bool, int):
        # Larger integers lose digits in other readers of JSON.
        return value if kind is not int or abs(value) < 2**53 else _repr(value)
    if kind is float:
        return value if math.isfinite(value) else _repr(value)
    if kind is str:
        return value if _encodable(value) else _repr(value)
    if kind is list:
        return [_ready(item, depth - 1, budget) for item in value]
    if kind is dict and all(type(key) is str and _encodable(key) for key in value):
        return {key: _ready(item, depth - 1, budget) for key, item in value.items()}
    return _repr(value)


def _repr(value: Any) -> dict[str, str]:
    try:
        text = repr(value)
    except Exception as error:  # a foreign __repr__ may raise anything
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return {"$repr": text if len(text) <= _REPR_LIMIT else text[:_REPR_LIMIT] + "..."}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
