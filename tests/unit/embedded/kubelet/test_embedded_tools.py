"""The tools folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_sremut.embedded.kubelet import tools


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with a shell, cat and nslookup only."""
    folder = tmp_path / "machine"
    folder.mkdir()
    for name in ("sh", "cat"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    (folder / "nslookup").write_text("#!/bin/sh\necho theirs\n")
    (folder / "nslookup").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    tools.find_shell.cache_clear()
    yield folder
    tools.find_shell.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "bin"
    path.mkdir()
    return path


def test_applets_are_our_own_and_the_rest_is_linked(machine: Path, folder: Path) -> None:
    found = tools.build(folder, mode="own")
    assert {name: tool.origin for name, tool in found.items() if name in tools.APPLETS} == (
        dict.fromkeys(tools.APPLETS, "own")
    )
    assert found["sh"].origin == "machine"
    assert {p.name for p in folder.iterdir()} >= {"sh", "cat", "nslookup", "nc", "wget"}
    assert not (folder / "sed").exists()  # which this machine does not have
    assert (folder / "cat").readlink() == machine / "cat"
    source = Path(tools.__file__).parents[1] / "applets" / "nc.py"
    assert found["nc"].path == str(source)
    assert found["nc"].sha256 == hashlib.sha256(source.read_bytes()).hexdigest()


def test_applets_run_from_the_folder(folder: Path) -> None:
    tools.build(folder, mode="own")
    done = subprocess.run(
        ["sh", "-c", "nc"], env={"PATH": str(folder)}, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"Usage: nc")


@pytest.mark.usefixtures("machine")
def test_the_machines_are_used_when_asked_for(folder: Path) -> None:
    found = tools.build(folder, mode="machine")
    assert found["nslookup"].origin == "machine"
    assert found["nc"].origin == "own"  # this machine has none
    done = subprocess.run([folder / "nslookup"], capture_output=True, check=True)
    assert done.stdout == b"theirs\n"


@pytest.mark.usefixtures("machine")
def test_a_tool_can_be_replaced_later(folder: Path) -> None:
    tools.build(folder, mode="auto")
    assert not (folder / "nslookup").is_symlink()
    assert tools.install(folder, "nslookup", machine=True).origin == "machine"
    assert tools.install(folder, "nslookup", machine=False).origin == "own"
    assert not list(folder.glob(".*"))


def test_what_can_listen_is_never_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nslookup", "nc", "httpd"):
        _shell(tmp_path / name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.candidates() == {"nslookup": str(tmp_path / "nslookup")}


def test_an_interpreter_that_no_shebang_can_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "it's a place" / "python"
    odd.parent.mkdir()
    odd.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n')
    odd.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(odd))
    tools.install(folder, "nc", machine=False)
    assert (folder / "nc").read_text().startswith("#!/bin/sh\n")
    done = subprocess.run([folder / "nc"], capture_output=True, check=False)
    assert done.stderr.startswith(b"Usage: nc")


def _shell(path: Path, body: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_shell_that_prefers_its_own_applets_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_USUAL_PLACES", "/no/such/place")
    for name in ("sh", "ash", "ksh"):
        _shell(tmp_path / name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.find_shell.cache_clear()
    assert tools.find_shell() is None
    _shell(tmp_path / "ksh", 'export PATH=/none; exec /bin/sh "$@"')
    tools.find_shell.cache_clear()
    assert tools.find_shell() is None
    _shell(tmp_path / "ash", 'exec /bin/sh "$@"')
    tools.find_shell.cache_clear()
    assert tools.find_shell() == str(tmp_path / "ash")
    tools.find_shell.cache_clear()
