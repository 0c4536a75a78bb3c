"""Programs that are run: found, limited in time, ended with all that they started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kind_fakes import PIN, Fakes

from pytest_sremut.cluster.kind import tools
from pytest_sremut.cluster.kind.tools import KindError, executable_facts, last_lines, run


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KindError, match="kind is not on PATH") as caught:
        run(["kind"], environ={"PATH": str(tmp_path)}, timeout=1)
    assert caught.value.diagnostics() == "install kind, or put it on PATH"


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "kind").write_bytes(b"\x7fELF no program")
    (tmp_path / "kind").chmod(0o755)
    with pytest.raises(KindError, match=r"kind cannot be started: Exec format error"):
        run(["kind"], environ={"PATH": str(tmp_path)}, timeout=1)


def test_arguments_go_through_no_shell(fakes: Fakes) -> None:
    fakes.rule("kind")
    nasty = ["$(touch x)", "; rm -rf /", "a b", "", "*"]
    run(["kind", *nasty], environ=fakes.environ, timeout=60)
    assert fakes.calls() == [["kind", *nasty]]


@pytest.mark.usefixtures("impatient")
def test_one_that_neither_ends_nor_listens(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores SIGTERM and has a child that holds its output open."""
    monkeypatch.setattr(tools, "_GRACE", 0.2)
    fakes.rule("kind", hang=True, stubborn=True, leave_child=True, stderr="still trying\n")
    with pytest.raises(KindError) as caught:
        run(["kind", "get", "nodes", "x"], environ=fakes.environ, timeout=9)
    assert str(caught.value) == (
        "kind get nodes did not end within 9 s; its last words: still trying"
    )
    _eventually(lambda: not _group(int((fakes.directory / "hung").read_text())))


def _group(leader: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z" and int(fields[2]) == leader:
                found.append(int(entry.name))
    return found


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # other processes: nothing to wait on portably


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("\n\n", ""),
        ("a\n\nb\nc\nd\n", "b | c | d"),
        ("\x1b[31mred\x00\n", "?[31mred?"),
        ("Authorization: Bearer abcdefgh\n", "Authorization: [redacted]"),
        ("x" * 9999, "x" * 600),
    ],
)
def test_last_lines(text: str, told: str) -> None:
    assert last_lines(text) == told


def test_what_a_program_is(fakes: Fakes) -> None:
    facts = executable_facts("kind", ["version"], fakes.environ)
    assert facts["version"] == PIN
    assert len(facts["sha256"]) == 64
    assert str(fakes.directory) not in repr(facts)
    assert executable_facts("podman", ["version"], fakes.environ) is None
    fakes.rule("kind", code=1)
    assert executable_facts("kind", ["version"], fakes.environ)["version"] is None


def test_output_is_read_whatever_it_is(fakes: Fakes) -> None:
    path = fakes.bin / "kind"
    path.write_text("#!/bin/sh\nprintf '\\377\\376\\000'\n")
    assert run(["kind"], environ=fakes.environ, timeout=60).stdout == "\ufffd\ufffd\x00"
    assert os.access(path, os.X_OK)
