"""Programs of ours in a warm fork."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

import pytest

from pytest_sremut.embedded.kubelet import warm
from pytest_sremut.embedded.kubelet.rootfs import TOOLS
from pytest_sremut.embedded.kubelet.tools import APPLETS, OWN


def run(source: str, arguments: Sequence[str] = (), **env: str) -> tuple[int, str, str]:
    """A program in a fork of this process: status as `waitpid` has it, standard output, error."""
    out_reader, out_writer = os.pipe()
    error_reader, error_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out_writer, 1)
        os.dup2(error_writer, 2)
        code = compile(source, "applet", "exec")
        warm.run_applet(code, f"{TOOLS}/applet", arguments, env, lambda: None)
    os.close(out_writer)
    os.close(error_writer)
    with os.fdopen(out_reader) as out, os.fdopen(error_reader) as error:
        told = out.read(), error.read()
    return (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *told)


def test_every_program_of_ours_is_there() -> None:
    assert set(warm.compile_applets()) == {*APPLETS, *OWN}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(warm, "TOOLS", str(tmp_path))
    return tmp_path


def test_only_our_own_file_in_the_folder_is_an_applet(folder: Path) -> None:
    applets: dict[str, CodeType] = {name: compile("", name, "exec") for name in ("nc", "wget")}
    (folder / "nc").write_text("ours")
    (folder / "wget").symlink_to("/usr/bin/wget")
    assert warm.applet_at(f"{folder}/nc", applets) is applets["nc"]
    assert warm.applet_at(f"{folder}/wget", applets) is None  # the machine's
    assert warm.applet_at(f"{folder}/other", applets) is None
    assert warm.applet_at("/usr/bin/nc", applets) is None
    assert warm.applet_at("nc", applets) is None


def test_a_program_finds_its_arguments_environment_and_streams() -> None:
    source = (
        "import os, sys\n"
        "assert __name__ == '__main__'\n"
        "print(sys.argv, dict(os.environ))\n"
        "print(repr(sys.stdin.read()), file=sys.stderr)\n"
        "print(open('/proc/self/comm').read().strip())\n"
    )
    assert run(source, ["-z", "x"], A="b") == (
        0,
        f"['{TOOLS}/applet', '-z', 'x'] {{'A': 'b'}}\napplet\n",
        "''\n",
    )


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("", 0, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit(259)", 3, ""),
        ("raise SystemExit('why')", 1, "why\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_its_end_is_the_programs(end: str, status: int, error: str) -> None:
    assert run(f"print('first')\n{end}") == (status, "first\n", error)


def test_an_exception_is_told_and_ends_with_one() -> None:
    status, out, error = run("raise ValueError('no')")
    assert (status, out) == (1, "")
    assert error.startswith("Traceback")
    assert error.endswith("ValueError: no\n")


def test_signals_are_those_of_an_interpreter() -> None:
    source = (
        "import signal\n"
        "print(signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN,\n"
        "      signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    assert run(source) == (0, "True True\n", "")
