"""Walls by each way that a machine has, tried from behind them."""

from __future__ import annotations

import ctypes
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import pytest

from pytest_sremut.embedded.linux import syscalls
from pytest_sremut.oracles.walls import Walls
from pytest_sremut.oracles.warm import walls_for

NOBODY = 65534
PR_SET_DUMPABLE = 4


def in_child(body: Callable[[], Any]) -> Any:
    """What it returns, or the traceback, from a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(write, json.dumps(body()).encode())
            code = 0
        except BaseException:
            os.write(write, json.dumps(traceback.format_exc()).encode())
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        told = json.loads(stream.read())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, told
    return told


@pytest.fixture
def place() -> Path:
    """Somewhere that every user may write to."""
    import tempfile

    directory = Path(tempfile.mkdtemp())
    for path in (directory, directory / "closed", directory / "closed" / "open"):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    return directory


def tried(place: Path) -> dict[str, str]:
    """What writing gives in each directory."""
    told = {}
    for name in (".", "closed", "closed/open"):
        try:
            (place / name / "file").write_text("x")
            told[name] = "written"
        except OSError as error:
            told[name] = str(error.strerror)
    return told


def attacks(directory: str) -> list[str]:
    """By which system calls the walls could be taken down."""
    ways: list[tuple[str, Callable[[], None]]] = [
        ("writable again", lambda: syscalls.set_read_only(directory, False)),
        ("unmount", lambda: syscalls.umount(directory, syscalls.MNT_DETACH)),
        ("remount", lambda: syscalls.mount("", directory, flags=0x20 | syscalls.MS_BIND)),
        (
            "namespaces",
            lambda: syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS),
        ),
    ]
    done = []
    for _ in range(2):
        for name, way in ways:
            try:
                way()
                done.append(name)
            except OSError:
                continue
    return done


@pytest.mark.parametrize("user", ["root", "nobody"] if os.geteuid() == 0 else ["nobody"])
@pytest.mark.parametrize("where", ["worker", "task"])
def test_what_is_closed_stays_closed(place: Path, user: str, where: str) -> None:
    def body() -> Any:
        if os.geteuid() == 0 and user == "nobody":
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            # As after an exec: otherwise /proc/self belongs to root.
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        os.chdir(place / "closed")
        walls = Walls.put_up([str(place / "closed")], [str(place / "closed" / "open")])
        if where == "task":
            walls.shut()
        first = tried(place)
        done = attacks(str(place / "closed"))
        again = tried(place)
        here = tried(Path("..").resolve())
        return {"facts": walls.facts(), "tried": [first, again, here], "done": done}

    told = in_child(body)
    if not told["facts"]["closed"]:
        needs.lacking("walls", f"needs walls: {told['facts']['why']}")
    expected = {".": "written", "closed": "Read-only file system", "closed/open": "written"}
    assert told["tried"] == [expected] * 3
    assert set(told["done"]) <= {"namespaces"}
    assert told["facts"]["by"] == ("capabilities" if user == "root" else "user namespace")


def test_a_task_cannot_look_into_the_worker(place: Path) -> None:
    def body() -> Any:
        walls = Walls.put_up([str(place / "closed")])
        worker = os.getpid()

        def task() -> Any:
            walls.shut()
            told = []
            for what in ("mem", "environ", "fd/0"):
                try:
                    os.close(os.open(f"/proc/{worker}/{what}", os.O_RDONLY))
                    told.append("open")
                except PermissionError:
                    told.append("refused")
            return told

        return {"facts": walls.facts(), "told": in_child(task)}

    told = in_child(body)
    if not told["facts"]["closed"]:
        needs.lacking("walls", f"needs walls: {told['facts']['why']}")
    assert told["told"] == ["refused"] * 3


def test_nothing_to_close() -> None:
    assert Walls.put_up([]).facts() == {
        "closed": False, "by": "", "why": "nothing was to be closed",
    }  # fmt: skip


def test_what_cannot_be_closed_says_why(place: Path) -> None:
    walls = Walls.put_up([str(place / "nothing")])
    assert not walls.facts()["closed"]
    assert "No such file or directory" in walls.facts()["why"]
    assert tried(place)["closed"] == "written"
    walls.shut()  # nothing to give up
    assert tried(place)["closed"] == "written"


def test_temporary_files_stay_possible_below_what_is_closed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(place / "closed" / "open"))
    closed, inside = str((place / "closed").resolve()), str((place / "closed" / "open").resolve())
    assert walls_for([place / "closed"]) == {"closed": [closed], "opened": [inside]}
    assert walls_for([place / "elsewhere"])["opened"] == []
    assert walls_for([place / "closed" / "open"])["opened"] == []  # it is closed itself
