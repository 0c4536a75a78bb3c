"""From what a worker collected to a reading: judged here, once, from what was kept.

Nothing of a grader's process is believed but what it returned, raised and printed. Who it is, which
modules it was made of, when and how long: that is known here. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles.oracle_port import Raised, Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.serving import now
from pytest_sremut.oracles.told import BEGUN, Told, parsed
from pytest_sremut.study.returned import judge, why_no_verdict
from pytest_sremut.study.verdict import Verdict

__all__ = ["Answer", "done", "reading_lost", "reading_of"]

_SAID: Final = 2_000  # characters of what a process said last
_OURS: Final[Mapping[str, type[Exception]]] = {
    "usage": UsageError,
    "refused": GuardRefusedError,
    "harness": HarnessError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a worker collected of one task (`serving`)."""

    frames: tuple[str, ...]  # of the task's process, unopened
    rest: int  # bytes that it sent besides
    status: int | None  # that of `waitpid`; None where the process is kept
    is_fresh: bool  # False: an oracle has run in the process before
    in_time: bool
    stdout: str
    stderr: str
    pid: int
    started: str  # RFC 3339, UTC: when the oracle's part began
    elapsed: float  # seconds of it

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Answer:
        """From a worker's `result`. Raises HarnessError."""
        try:
            return cls(
                frames=tuple(map(str, message["frames"])),
                rest=int(message["rest"]),
                status=None if message["goes_on"] else int(message["status"]),
                is_fresh=bool(message["fresh"]),
                in_time=bool(message["in_time"]),
                stdout=_text(*message["stdout"]),
                stderr=_text(*message["stderr"]),
                pid=int(message["pid"]),
                started=str(message["started"]),
                elapsed=float(message["elapsed"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise HarnessError(f"not a worker's result: {error}") from error

    @property
    def begun(self) -> bool:
        """Whether the oracle's part began."""
        return bool(self.frames) and _opened(self.frames[0]) == BEGUN

    def end(self) -> str:
        """How the process ended too early, as the rest of a sentence; empty where it did not."""
        if self.status is None:
            return ""
        if os.WIFSIGNALED(self.status):
            return f"was ended by signal {os.WTERMSIG(self.status)}"
        code = os.waitstatus_to_exitcode(self.status)
        return f"exited with {code}" if code or len(self.frames) < 2 else ""

    def said(self) -> str:
        """What it said last, as the rest of a sentence."""
        return f"; it said: {tail}" if (tail := self.stderr[-_SAID:].strip()) else ""


def reading_of(
    request: ReadingRequest,
    answer: Answer,
    *,
    instrument: str,
    facts: Mapping[str, Any],
    key: str = "success",
    foreign: bool = True,
    notes: bool = False,
) -> Reading:
    """The reading that an answer is.

    Args:
        request: What was asked.
        answer: What came.
        instrument: Through which instrument.
        facts: What is known here of the process and its modules.
        key: Under which the verdict stands.
        foreign: False: all of the oracle's code is ours, and its refusals are believed.
        notes: Whether the frame has notes; they are added to the facts.

    Raises:
        HarnessError: The time limit passed, or our own preparations failed.
        UsageError: The study names something that does not exist.
        GuardRefusedError: A grader of ours was about to write to another cluster.
    """
    name = f"oracle {request.oracle.id}"
    if not answer.in_time:
        raise HarnessError(f"{name} did not end within {request.timeout:g} s{answer.said()}")
    if not answer.begun and answer.is_fresh:
        _ours(name, answer, answer.frames)
        raise HarnessError(f"the process of {name} {_early(answer)} began{answer.said()}")
    if not foreign:
        _ours(name, answer, answer.frames[1:])
    try:
        told = _told(answer, notes=notes)
    except HarnessError as error:
        return reading_lost(request, str(error), instrument=instrument, facts=facts, answer=answer)
    raised = told.exception
    reason = f"{raised.type}: {raised.message}" if raised else why_no_verdict(told.returned, key)
    return Reading(
        oracle=request.oracle.id,
        use=request.oracle.use,
        instrument=instrument,
        verdict=Verdict.ERROR if raised else judge(told.returned, key),
        reason=reason,
        returned=None if raised else told.returned,
        exception=raised,
        started=answer.started,
        elapsed=answer.elapsed,
        stdout=answer.stdout,
        stderr=answer.stderr,
        facts={**(told.notes or {}), **facts, "pid": answer.pid},
    )


def reading_lost(
    request: ReadingRequest,
    why: str,
    *,
    instrument: str,
    facts: Mapping[str, Any],
    answer: Answer | None = None,
) -> Reading:
    """The oracle's process gave no answer, or one that is none: an error of the oracle's.

    Args:
        request: What was asked.
        why: What came instead.
        instrument: Through which instrument.
        facts: As for `reading_of`.
        answer: What was collected; None where nobody is left who collected anything.
    """
    exited = answer is None or bool(answer.end())
    return Reading(
        oracle=request.oracle.id,
        use=request.oracle.use,
        instrument=instrument,
        verdict=Verdict.ERROR,
        reason=why,
        returned=None,
        exception=Raised(
            type="ProcessExit" if exited else "ForeignFrame", message=why, traceback=""
        ),
        started=now() if answer is None else answer.started,
        elapsed=0.0 if answer is None else answer.elapsed,
        stdout="" if answer is None else answer.stdout,
        stderr="" if answer is None else answer.stderr,
        facts=dict(facts) if answer is None else {**facts, "pid": answer.pid},
    )


def done(name: str, timeout: float, answer: Answer) -> dict[str, Any]:
    """What a task other than a reading yielded. Raises what `reading_of` raises."""
    if not answer.in_time:
        raise HarnessError(f"{name} did not end within {timeout:g} s{answer.said()}")
    _ours(name, answer, answer.frames)
    fields = _opened(answer.frames[0]) if len(answer.frames) == 1 and not answer.rest else None
    if fields is None or answer.status != 0:
        end = answer.end() or "sent something that is no answer"
        raise HarnessError(f"the process of {name} {end}{answer.said()}")
    return {**fields, "stdout": answer.stdout, "stderr": answer.stderr}


def _ours(name: str, answer: Answer, frames: tuple[str, ...]) -> None:
    """Raise what the only frame says that our own code failed with."""
    if len(frames) != 1 or answer.rest:
        return
    fields = _opened(frames[0]) or {}
    for kind, error in _OURS.items():
        if fields.keys() == {kind} and isinstance(fields[kind], str):
            prefix = f"{name}: " if kind == "harness" else ""
            raise error(f"{prefix}{fields[kind]}")


def _told(answer: Answer, *, notes: bool) -> Told:
    """The one answer after `begun`. Raises HarnessError."""
    if answer.rest or (answer.frames and not answer.begun):
        raise HarnessError("the oracle's process sent more than its answer")
    if end := answer.end():
        raise HarnessError(f"the oracle's process {end} before it returned")
    try:
        return Told.parse(answer.frames[1], notes=notes)
    except HarnessError as error:
        raise HarnessError(f"the oracle's process sent something else: {error}") from error


def _early(answer: Answer) -> str:
    return f"{answer.end() or 'sent something that is no answer'} before it"


def _opened(frame: str) -> dict[str, Any] | None:
    try:
        return parsed(frame)
    except HarnessError:
        return None


def _text(kept: str, lost_bytes: int) -> str:
    return str(kept) + (f"\n[{lost_bytes} more bytes were not kept]" if lost_bytes else "")
