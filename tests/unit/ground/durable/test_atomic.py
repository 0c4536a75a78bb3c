from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from evidence_doubles import FailingCalls, counting

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable import atomic
from pytest_sremut.ground.durable.atomic import TEMPORARY, make_directory, write_new

DATA = b"raw evidence\n" * 100


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_new(tmp_path / "a", DATA)
    assert (tmp_path / "a").read_bytes() == DATA
    assert names(tmp_path) == ["a"]


def test_the_order_is_fsync_link_fsync_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    for name in ("fsync", "link", "unlink", "open"):
        real = getattr(os, name)

        def call(*args, name=name, real=real, **kwargs):  # type: ignore[no-untyped-def]
            seen.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)
    write_new(tmp_path / "a", DATA)
    assert seen == ["open", "fsync", "link", "open", "fsync", "unlink"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_new(tmp_path / "a", b"first")
    with pytest.raises(EvidenceError, match="a: exists already; evidence is never overwritten"):
        write_new(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_a_dangling_link_is_something_that_stands_there(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EvidenceError, match="exists already"):
        write_new(tmp_path / "a", DATA)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(
    ("name", "at"),
    [("open", 1), ("write", 1), ("fsync", 1), ("link", 1), ("open", 2), ("fsync", 2)],
)
def test_a_failure_at_any_step_leaves_nothing(
    tmp_path: Path, failing: FailingCalls, name: str, at: int, code: int
) -> None:
    failing.fail(name, at, code=code, partial=5 if name == "write" else 0)
    with pytest.raises(EvidenceError) as caught:
        write_new(tmp_path / "a", DATA)
    assert str(tmp_path / "a") in str(caught.value)
    assert errno.errorcode[code] in str(caught.value)
    assert failing.calls[name] >= at
    assert names(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    write_new(tmp_path / "a", DATA)
    assert (tmp_path / "a").read_bytes() == DATA


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_it_is_renamed_and_still_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_links(*_args: object, **_kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)
    write_new(tmp_path / "a", b"first")
    with pytest.raises(EvidenceError, match="exists already"):
        write_new(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_without_any_way_to_claim_a_name_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingCalls
) -> None:
    failing.fail("link", 1, code=errno.EPERM)
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_args, **_kwargs: object())
    with pytest.raises(EvidenceError, match="ENOSYS"):
        write_new(tmp_path / "a", DATA)
    assert names(tmp_path) == []


CRASH = """
import os, sys
from pathlib import Path
from pytest_sremut.ground.durable.atomic import write_new
name, at = sys.argv[2], int(sys.argv[3])
real, calls = getattr(os, name), 0
def call(*args, **kwargs):
    global calls
    calls += 1
    if calls == at:
        os._exit(9)  # as if killed: no handler, no finally
    return real(*args, **kwargs)
setattr(os, name, call)
write_new(Path(sys.argv[1], "a"), b"x" * 1000)
"""


@pytest.mark.parametrize(
    ("name", "at", "written"),
    [("write", 1, False), ("fsync", 1, False), ("link", 1, False), ("fsync", 2, True)],
)
def test_a_crash_at_any_step_leaves_no_half_file(
    tmp_path: Path, name: str, at: int, written: bool
) -> None:
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path), name, str(at)], check=False)
    assert done.returncode == 9
    assert (tmp_path / "a").exists() is written
    if written:
        assert (tmp_path / "a").read_bytes() == b"x" * 1000
    left = [file for file in names(tmp_path) if file != "a"]
    assert all(file.startswith(TEMPORARY) for file in left)
    (tmp_path / "a").unlink(missing_ok=True)
    write_new(tmp_path / "a", DATA)


def test_an_interrupt_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "a", DATA)
    assert names(tmp_path) == []


def test_directories_are_made_durable_from_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counting(monkeypatch, "fsync")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert counts["fsync"] == 3
    make_directory(tmp_path / "a" / "b" / "c")
    assert counts["fsync"] == 3


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(EvidenceError, match=str(path)):
            make_directory(path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, failing: FailingCalls) -> None:
    failing.fail("mkdir", 1, code=errno.EROFS)
    with pytest.raises(EvidenceError, match=r"cannot be created: .* \(EROFS\)"):
        make_directory(tmp_path / "a")
