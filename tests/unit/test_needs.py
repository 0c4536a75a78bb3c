"""What a machine lacks is skipped with its reason, in a child process too, or fails if required."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from embedded_netns import in_child

TESTS = Path(__file__).resolve().parents[1]
SUITE = """\
import needs
import pytest
from embedded_netns import in_child

@needs.program("nonesuch")
def test_marked():
    raise AssertionError("it ran")

@pytest.fixture
def made():
    needs.located("nonesuch")

def test_fixture(made):
    raise AssertionError("it ran")

def test_child():
    in_child(lambda: needs.located("nonesuch"))

def test_for_another_reason():
    pytest.skip("the moon is not full")

def test_elsewhere():
    pytest.skip("the golden corpus is not here")

@pytest.mark.xfail
def test_known():
    assert False

@needs.program("sh")
def test_there():
    assert needs.located("sh")
"""


def outcomes(directory: Path, **variables: str) -> tuple[dict[str, str], str]:
    """How each test of the suite ended, by name, and the output."""
    for file in (TESTS / "conftest.py", TESTS / "needs.py"):
        shutil.copy(file, directory)
    shutil.copy(TESTS / "unit" / "support" / "embedded_netns.py", directory)
    (directory / "test_suite.py").write_text(SUITE)
    (directory / "pytest.ini").write_text("[pytest]\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "SREMUT_REQUIRE"))
    }
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist", "-rA")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *options],
        cwd=directory,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^test_suite\.py::test_(\w+) (\w+)", ran.stdout, re.M)
    return dict(found), ran.stdout


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """A child in namespaces of its own is what this is about."""
    in_child(lambda: None)


def test_what_is_not_there_is_skipped_with_the_reason(tmp_path: Path) -> None:
    found, out = outcomes(tmp_path)
    assert found == {
        **dict.fromkeys(("marked", "fixture", "child"), "SKIPPED"),
        **dict.fromkeys(("for_another_reason", "elsewhere"), "SKIPPED"),
        "known": "XFAIL",
        "there": "PASSED",
    }
    assert out.count("nonesuch is not on this machine") >= 3


def test_what_is_required_fails_instead(tmp_path: Path) -> None:
    found, out = outcomes(tmp_path, SREMUT_REQUIRE_NONESUCH="1")
    assert {name for name, outcome in found.items() if outcome in ("FAILED", "ERROR")} == {
        "marked",
        "fixture",
        "child",
    }
    assert out.count("nonesuch is required: nonesuch is not on this machine") >= 3
    assert (found["for_another_reason"], found["elsewhere"]) == ("SKIPPED", "SKIPPED")


def test_where_everything_is_required_no_reason_is_good_but_the_known_ones(tmp_path: Path) -> None:
    found, out = outcomes(tmp_path, SREMUT_REQUIRE_ALL="1")
    assert {name for name, outcome in found.items() if outcome in ("FAILED", "ERROR")} == {
        "marked",
        "fixture",
        "child",
        "for_another_reason",
    }
    assert "SREMUT_REQUIRE_ALL=1 and skipped: the moon is not full" in out
    assert (found["elsewhere"], found["known"]) == ("SKIPPED", "XFAIL")


def test_a_child_s_skip_is_the_test_s_skip_and_its_failure_a_failure() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"^for a reason$"):
        in_child(lambda: pytest.skip("for a reason"))
    with pytest.raises(pytest.fail.Exception, match=r"ZeroDivisionError"):
        in_child(lambda: 1 / 0)
    with pytest.raises(pytest.fail.Exception, match=r"for another"):
        in_child(lambda: pytest.fail("for another"))
    assert in_child(lambda: 7) == 7


WITHOUT = os.environ.get("SREMUT_WITHOUT", "").split()


@pytest.mark.skipif(not WITHOUT, reason="SREMUT_WITHOUT names no program")
def test_this_machine_is_bare() -> None:
    """`.ci/run` runs the suite without these programs, also on a machine that has them."""
    assert set(WITHOUT) >= {"nft", "busybox", "nc", "nslookup", "wget", "openssl", "ip"}
    for name in WITHOUT:
        with pytest.raises(pytest.skip.Exception, match=rf"^{name} is not on this machine$"):
            needs.located(name)
        shell = subprocess.run(["sh", "-c", f"command -v {name}"], check=False, capture_output=True)
        assert (shell.returncode != 0, shell.stdout) == (True, b"")
    for name in ("sh", "cat", "git", "unshare"):
        assert needs.located(name)
