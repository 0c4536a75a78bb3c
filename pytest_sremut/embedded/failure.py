"""The one exception of the embedded cluster's outside: it could not start, or is not there.

Rule: an error names the step that failed, the errno where the kernel gave one, and what a person
can do about it. It crosses process borders as JSON (`to_json`, `from_json`) without losing any.
"""

from __future__ import annotations

import errno as errnos
import json
import os
from typing import Any


class EmbeddedError(Exception):
    """The embedded cluster cannot do what was asked.

    Attributes:
        step: what was being done, e.g. ``"create a user namespace"``.
        errno: the kernel's error number, or None where no system call failed.
        advice: what to look at or change; empty where the step says it all.
    """

    def __init__(self, step: str, *, errno: int | None = None, advice: str = "") -> None:
        super().__init__(step, errno, advice)
        self.step = step
        self.errno = errno
        self.advice = advice

    def __str__(self) -> str:
        text = self.step
        if self.errno is not None:
            name = errnos.errorcode.get(self.errno, str(self.errno))
            text += f": {os.strerror(self.errno)} ({name})"
        if self.advice:
            text += f"\n  {self.advice}"
        return text

    def to_json(self) -> str:
        return json.dumps({"step": self.step, "errno": self.errno, "advice": self.advice})

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> EmbeddedError:
        return cls(
            str(document["step"]),
            errno=document.get("errno"),
            advice=str(document.get("advice", "")),
        )
