"""The doctor: every finding in order, truthful where things are forbidden."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from embedded_netns import in_child

from pytest_sremut.embedded.selftest import doctor
from pytest_sremut.embedded.selftest.checks import OPTIONAL, TRIED, Check, failed

EXPECTED = [
    "Python",
    "Linux",
    *TRIED,
    "free memory",
    "open files",
    "inotify instances",
    "temporary folder",
    "kubectl",
    "network policies",
]
REQUIRED = os.environ.get("SREMUT_REQUIRE_EMBEDDED") == "1"


def found(checks: list[Check]) -> dict[str, Check]:
    assert [check.name for check in checks] == EXPECTED
    return {check.name: check for check in checks}


def test_this_machine() -> None:
    checks = found(doctor.diagnose())
    assert checks["Python"].ok
    assert checks["Linux"].ok
    if not checks["user namespace"].ok and not REQUIRED:
        pytest.skip(f"user namespaces are forbidden: {checks['user namespace'].detail}")
    for name, check in checks.items():
        assert check.detail, name
        if check.needed:
            assert check.ok, check
        if not check.ok:
            assert check.advice, check


def test_only_what_the_cluster_does_without_is_optional() -> None:
    assert set(TRIED) >= OPTIONAL
    assert "Service routing" not in OPTIONAL


def deny(number: int, code: int) -> None:
    """Let the kernel refuse one system call (x86-64 or arm64) to this process and its children."""
    program = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, number),
        (6, 0, 0, 0x50000 | code),
        (6, 0, 0, 0x7FFF0000),
    ]
    text = b"".join(struct.pack("=HBBI", *item) for item in program)
    buffer = ctypes.create_string_buffer(text)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(program), ctypes.addressof(buffer)))) == 0


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSPC])
def test_forbidden_namespaces_are_named_with_errno_and_advice(code: int) -> None:
    unshare = {"x86_64": 272, "aarch64": 97}.get(os.uname().machine)
    if unshare is None:
        pytest.skip("system call numbers of this machine are not known here")

    def body() -> list[Check]:
        deny(unshare, code)
        # The child of the doctor must not be root, or it would go on without a user namespace.
        return doctor.diagnose()

    checks = found(in_child(body))
    check = checks["user namespace"]
    if check.ok:  # root goes on without; the next step says it
        check = checks["network namespace"]
    assert not check.ok
    assert check.errno == code
    assert "unshare" in check.step
    assert check.advice
    assert checks["mount namespace"].detail.startswith("not tried: ")
    assert not checks["Service routing"].ok
    assert checks["temporary folder"].ok


def test_a_child_that_dies_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'cannot import name' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    checks = found(doctor.diagnose())
    assert checks["user namespace"].detail == "not tried: cannot import name"
    assert not checks["user namespace"].ok


def test_a_child_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    checks = found(doctor.diagnose())
    assert "no child process" in checks["user namespace"].detail


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    line = json.dumps({"name": "user namespace", "ok": True, "detail": "entered"})
    program.write_text(f"#!/bin/sh\necho '{line}'\nsleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(doctor, "_PATIENCE", 0.3)
    checks = found(doctor.diagnose())
    assert checks["user namespace"].ok
    assert "took longer" in checks["network namespace"].detail


def test_a_temporary_folder_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> object:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)
    check = doctor._temporary()
    assert (check.ok, check.errno) == (False, errno.EROFS)
    assert "TMPDIR" in check.advice


def test_failures_keep_their_cause() -> None:
    check = failed("x", "try it", OSError(errno.EACCES, "Permission denied"))
    assert (check.step, check.errno, check.detail) == ("try it", errno.EACCES, "Permission denied")
    assert failed("x", "read it", ValueError("no number")).detail == "no number"


def test_it_can_be_asked_from_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_sremut.embedded.selftest.doctor"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(Path(doctor.__file__).parents[3])},
    )
    assert all(name in done.stdout for name in EXPECTED)
    assert done.stderr == ""
