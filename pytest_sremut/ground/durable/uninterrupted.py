"""Steps that an interrupt must not cut in two.

A Python signal handler runs between any two bytecodes: between a durable write and the note in
memory that it was made, or between a cluster's acknowledgement and the note of what was created.
A run interrupted there would no longer know what it did. Inside `uninterrupted` the interrupt
waits for the end of the block; blocks are short, at most one call to a cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupt", "uninterrupted"]


class _State:
    depth = 0
    pending = ""


def interrupt(reason: str) -> None:
    """Raise KeyboardInterrupt, now or when the block in progress has ended.

    For signal handlers: these run in the main thread. A second call while the first still waits
    does not wait.
    """
    if _State.depth and not _State.pending:
        _State.pending = reason
        return
    _State.pending = ""
    raise KeyboardInterrupt(reason)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interrupts back until the block ends; blocks may be nested. Threads other than the
    main one are never interrupted and pass through."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        if _State.pending and not _State.depth:
            reason, _State.pending = _State.pending, ""
            raise KeyboardInterrupt(reason)
