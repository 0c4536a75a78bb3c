"""A clock that ticks when asked, identities, and system calls that fail on demand."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pytest_sremut.evidence.identity import AttemptIdentity
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.study.verdict import Registration

T0 = "2026-08-29T10:22:00.000000Z"


@dataclass(slots=True)
class TickingClock:
    """Every look is one millisecond later than the one before."""

    seconds: float = 0.0

    def now(self) -> datetime:
        self.seconds += 0.001
        return datetime(2026, 8, 29, 10, 22, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        self.seconds += 0.001
        return 1000.0 + self.seconds


def identity(**changes: Any) -> AttemptIdentity:
    """An exploratory attempt at ms-m02-r03."""
    made = AttemptIdentity(
        study="missing_service",
        run="ms-m02-r03",
        mutant="MS-M02",
        repetition=3,
        registration=Registration.EXPLORATORY,
        session="20260829T102200Z-abcdef",
        files={"study": "0" * 64, "contract": "1" * 64},
        profile="embedded",
        protocol={"settle": 2.0, "mix": ({"name": "x"},)},
        cluster={"kind": "embedded"},
        product={"version": "0.1.0"},
    )
    return replace(made, **changes)


def state_body(raw: RawRef, **changes: Any) -> dict[str, Any]:
    """A valid state record that leaves out what the attempt fills in."""
    return {
        "started": T0,
        "finished": T0,
        "activation": [
            {"when": "after-apply", "criterion": "selector-exact", "holds": True, "observed": "x"}
        ],
        "readings": [
            {
                "oracle": "O1",
                "use": "reference:pods-and-deployments",
                "instrument": "in-process",
                "verdict": "ACCEPT",
                "returned": raw.as_json(),
                "exception": None,
                "started": T0,
                "elapsed": 0.25,
                "instrument_facts": {"pid": 7},
            },
            {
                "oracle": "O3",
                "use": "reference:service-endpoints",
                "instrument": "isolated",
                "verdict": "ERROR",
                "returned": None,
                "exception": {"type": "TypeError", "message": "no"},
                "started": T0,
                "elapsed": 1,
                "instrument_facts": {},
            },
        ],
        "workload": {
            "rounds": [
                {
                    "number": 1,
                    "begin": T0,
                    "end": None,
                    "parse": "OK",
                    "requests": 100,
                    "failures": 10,
                    "duration": 0.5,
                    "socket_errors": {"connect": 0, "read": 0, "write": 0, "timeout": 1},
                }
            ],
            "requests": 100,
            "failures": 10,
            "successes": 90,
            "raw": raw.as_json(),
        },
        "contract": {
            "verdict": "REJECT",
            "violated": ["MS-I2"],
            "not_evaluated": [],
            "invariants": [
                {
                    "id": "MS-I2",
                    "evaluation": "VIOLATED",
                    "observed": "no eligible endpoint",
                    "elapsed": 1.5,
                }
            ],
        },
        "objects": [raw.as_json()],
        "timings": {"settle": 2.0},
        **changes,
    }


@dataclass(slots=True)
class FailingCalls:
    """Makes the n-th call (from 1) of chosen functions of `os` fail with an errno.

    Only calls of the thread that made this count: a test runner's own threads write too.
    """

    monkeypatch: pytest.MonkeyPatch
    code: int = errno.ENOSPC
    thread: int = field(default_factory=threading.get_ident)
    calls: dict[str, int] = field(default_factory=dict)

    def fail(self, name: str, at: int, *, code: int | None = None, partial: int = 0) -> None:
        """`partial`: of a write, how many bytes still get through before it fails."""
        real: Callable[..., Any] = getattr(os, name)
        number = self.code if code is None else code

        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self.thread:
                return real(*args, **kwargs)
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.calls[name] != at:
                return real(*args, **kwargs)
            if partial:
                real(args[0], bytes(args[1])[:partial])
            raise OSError(number, os.strerror(number))

        self.monkeypatch.setattr(os, name, call)


def counting(monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, int]:
    """Count this thread's calls of functions of `os` without changing them."""
    owner = threading.get_ident()
    counts: dict[str, int] = dict.fromkeys(names, 0)

    def wrap(name: str) -> None:
        real: Callable[..., Any] = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += threading.get_ident() == owner
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in names:
        wrap(name)
    return counts
