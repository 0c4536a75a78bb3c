"""Ctrl-C, SIGTERM and SIGHUP end a session alike: as a KeyboardInterrupt that restores first.

Rules kept here: a signal that was ignored when we came (`nohup`, background jobs) stays ignored;
a worker of xdist is interrupted once, however many signals it gets: the signal that its controller
sends must not cut its restoration short.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from pytest_sremut.ground.durable.uninterrupted import interrupt

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Handlers of one session.

    Args:
        once: Only the first signal interrupts.
    """

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._interrupted = False
        self._previous: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Take the signals over, in a main thread; elsewhere Python allows no handlers."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                self._previous[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        """Put back what was there; idempotent. A worker is not interrupted any more."""
        if self._once:
            self._interrupted = True
            return
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._once and self._interrupted:
            return
        self._interrupted = True
        interrupt(f"{signal.Signals(number).name} received")
