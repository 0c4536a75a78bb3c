"""What a machine can refuse a session: a clear sentence for every cell, and nothing left over."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from quick import HOW, PINNED, make_project, no_namespaces, require_clusters, run

HEALTHY = ("-m", "mutant", "-k", f"{PINNED} and healthy")


def small_files() -> None:
    """In the child: no file may grow beyond what the first objects of a run need."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (48 * 1024, 48 * 1024))


def test_namespaces_are_forbidden(tmp_path: Path) -> None:
    require_clusters()
    result = run(make_project(tmp_path), *HEALTHY, *HOW["-n2"], preexec_fn=no_namespaces)
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "4 errors" in result.out
    # The step, the errno, and what to do about it.
    assert "embedded cluster: " in result.out
    assert "No space left on device (ENOSPC)" in result.out
    assert "The limit of user namespaces is reached: look at sysctl" in result.out
    assert "Traceback" not in result.out


def test_evidence_cannot_be_kept_any_more(tmp_path: Path) -> None:
    require_clusters()
    result = run(make_project(tmp_path), *HEALTHY, *HOW["no xdist"], preexec_fn=small_files)
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "4 errors" in result.out
    assert result.out.count("cannot be written: File too large (EFBIG)") >= 4
    assert "Traceback" not in result.out
    (attempt,) = result.attempts()
    assert attempt.get("outcome") in {None, "DRIVER_ABORTED"}
    assert result.states(attempt) == {}


def test_evidence_cannot_be_begun(tmp_path: Path) -> None:
    """Nothing is started when it could not be recorded."""
    project = make_project(tmp_path)
    (project / ".sremut").write_text("no directory can be made here, not even by root\n")
    result = run(project, *HEALTHY, *HOW["no xdist"])
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "4 errors" in result.out
    assert f"{project}/.sremut/evidence/" in result.out
    assert "cannot be created: " in result.out
    assert "Traceback" not in result.out
