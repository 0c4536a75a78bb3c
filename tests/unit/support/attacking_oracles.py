"""Graders that attack whoever reads them: the judge, the frames, the worker, the evidence."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class _Attack:
    def __init__(self, context: Any, **arguments: Any) -> None:
        self.context = context
        self.arguments = arguments


def _frame(value: Any) -> bytes:
    data = json.dumps(value).encode()
    return struct.pack(">I", len(data)) + data


def _pipes() -> Iterator[int]:
    """Every pipe that this process can write to, standard output and error left out."""
    for link in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if int(link.name) > 2 and str(link.readlink()).startswith("pipe:"):
                yield int(link.name)


def _write_to_all(data: bytes) -> None:
    for number in list(_pipes()):
        with contextlib.suppress(OSError):
            os.write(number, data)


class PatchesTheJudge(_Attack):
    """Makes whatever could judge in its process accept, and rejects."""

    def evaluate(self) -> Any:
        for module in list(sys.modules.values()):
            for name in ("judge", "why_no_verdict", "reading_of"):
                if getattr(module, "__name__", "").startswith("pytest_sremut."):
                    setattr(module, name, lambda *_, **__: "ACCEPT")
        return {"success": False}


class SendsAReading(_Attack):
    """Writes a frame of its own: a whole reading, of the oracle that its argument names."""

    def evaluate(self) -> Any:
        reading = {"oracle": self.arguments["oracle"], "verdict": "ACCEPT", "facts": {}}
        _write_to_all(_frame({"reading": reading}))
        return {"success": False}


class SendsTwice(_Attack):
    """Writes an answer before its answer."""

    def evaluate(self) -> Any:
        _write_to_all(_frame({"returned": {"success": True}, "exception": None}))
        return {"success": False}


class SendsOurs(_Attack):
    """Says that the study, the guard or the harness is to blame, and leaves."""

    def evaluate(self) -> Any:
        _write_to_all(_frame({self.arguments["kind"]: "it was you"}))
        os._exit(0)


class SendsToTheWorkersParent(_Attack):
    """Writes results into every pipe of the worker that it can open."""

    def evaluate(self) -> Any:
        opened = 0
        for number in range(1, 9):
            frame = _frame({"type": "result", "id": number, "nonce": "", "frames": []})
            for name in range(32):
                with contextlib.suppress(OSError):
                    handle = os.open(f"/proc/{os.getppid()}/fd/{name}", os.O_WRONLY)
                    os.write(handle, _frame({"type": "ended", "id": number}) + frame)
                    opened += 1
        return {"success": False, "opened": opened}


class LooksForANonce(_Attack):
    """Whatever looks like one, in its own memory."""

    def evaluate(self) -> Any:
        texts = [one for one in gc.get_objects() if type(one) is dict]
        found = [
            value
            for one in texts
            for value in list(one.values())
            if type(value) is str and re.fullmatch("[0-9a-f]{32}", value)
        ]
        return {"success": True, "found": found}


class OpensTheWorker(_Attack):
    """Looks into the processes above it."""

    def evaluate(self) -> Any:
        told = {}
        for name, pid in (("worker", os.getppid()), ("session", self.arguments["session"])):
            for what in ("fd/0", "fd/1", "mem", "environ", "root/etc/hostname"):
                try:
                    os.close(os.open(f"/proc/{pid}/{what}", os.O_RDONLY))
                    told[f"{name} {what}"] = "open"
                except OSError as error:
                    told[f"{name} {what}"] = type(error).__name__
        return {"success": True, "told": told}


class Writes(_Attack):
    """Writes where its arguments say, by force if need be."""

    def evaluate(self) -> Any:
        from pytest_sremut.embedded.linux import syscalls

        directory = self.arguments["directory"]
        journal = Path(directory, "journal.jsonl")

        def enter() -> None:
            syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)

        ways = (
            lambda: None,
            lambda: syscalls.set_read_only(directory, False),
            lambda: syscalls.mount("", directory, flags=0x20 | syscalls.MS_BIND),
            lambda: syscalls.umount(directory, syscalls.MNT_DETACH),
            enter,
            lambda: syscalls.umount(directory, syscalls.MNT_DETACH),
            lambda: syscalls.set_read_only(directory, False),
        )
        told = []
        for way in ways:
            with contextlib.suppress(OSError):
                way()
            for attack in (
                lambda: journal.open("a").write("{}\n"),
                lambda: Path(directory, "evil.json").write_text("{}"),
                journal.unlink,
                lambda: Path(directory).rename(f"{directory}-gone"),
            ):
                try:
                    attack()
                    told.append("done")
                except OSError as error:
                    told.append(type(error).__name__)
        return {"success": True, "told": told}


class SpeaksLater(_Attack):
    """Answers, and answers once more when nobody asks."""

    def evaluate(self) -> Any:
        def later() -> None:
            time.sleep(0.2)
            _write_to_all(_frame({"harness": "late"}))
            Path(self.arguments["note"]).write_text("spoke")
            time.sleep(60)

        if self.arguments.get("note"):
            threading.Thread(target=later, daemon=True).start()
        return {"success": True, "pid": os.getpid()}


class LeavesSilently(_Attack):
    def evaluate(self) -> Any:
        os._exit(0)


class LeavesByTheLibrary(_Attack):
    def evaluate(self) -> Any:
        import ctypes

        ctypes.CDLL(None)._exit(0)


class _Changes(dict[str, Any]):
    asked = 0

    def __getitem__(self, key: str) -> Any:
        _Changes.asked += 1
        return _Changes.asked == 1


class _Contains(dict[str, Any]):
    def __contains__(self, key: object) -> bool:
        raise KeyboardInterrupt


class _Equal:
    def __eq__(self, other: object) -> bool:
        os._exit(0)

    __hash__ = None  # type: ignore[assignment]


class _TextError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class _BaseError(BaseException):
    pass


class Returns(_Attack):
    """One of the objects that break whoever looks at them."""

    def evaluate(self) -> Any:
        what = self.arguments["what"]
        objects = {
            "changes": _Changes(success=True),
            "contains": _Contains(success=True),
            "equal": {"success": _Equal()},
            "million": [0] * 1_000_000,
            "million in it": {"success": True, "more": [0] * 1_000_000},
            "deep": None,
        }
        if what == "deep":
            deep: Any = True
            for _ in range(100_000):
                deep = [deep]
            return deep
        return objects[what]


class Raises(_Attack):
    def evaluate(self) -> Any:
        kinds = {
            "interrupt": KeyboardInterrupt, "base": _BaseError, "text": _TextError,
            "exit": SystemExit, "generator": GeneratorExit,
        }  # fmt: skip
        raise kinds[self.arguments["what"]]


class RaisesOurs(_Attack):
    """As if the study, the guard or the harness were to blame."""

    def evaluate(self) -> Any:
        from pytest_sremut import errors

        raise getattr(errors, self.arguments["what"])("it was you")
