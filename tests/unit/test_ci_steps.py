"""`.ci/steps`: the exit status of `.ci/run` is that of its steps, whatever else happens."""

import subprocess
import time
from pathlib import Path

import pytest

STEPS = Path(__file__).parents[2] / ".ci" / "steps"


def _script(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    if not STEPS.is_file():
        pytest.skip(f"no checkout of the project: {STEPS} is not here")
    script = f"set -euo pipefail\nsource {STEPS}\n{body}"
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )


def test_steps_that_all_pass_end_with_0(tmp_path: Path) -> None:
    done = _script(tmp_path, "start one true; start two true; finish one two; report; echo end")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "end")
    assert not list(tmp_path.iterdir())  # and leave nothing


@pytest.mark.parametrize("failing", ["false", "exit 7", "kill -9 $BASHPID"])
def test_a_step_that_fails_ends_the_script_with_1_and_is_named(
    tmp_path: Path, failing: str
) -> None:
    body = (
        f"bad() {{ {failing}; }}\nstart one true; start two bad; finish one two; report; echo end"
    )
    done = _script(tmp_path, body)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "FAILED: two"
    assert not list(tmp_path.iterdir())


def test_all_steps_run_to_their_end_and_are_shown(tmp_path: Path) -> None:
    done = _script(
        tmp_path, "start one false; start two echo here; finish one two; report; echo end"
    )
    assert "here" in done.stdout
    assert done.returncode == 1


def test_a_failure_between_the_steps_keeps_its_status_and_ends_them(tmp_path: Path) -> None:
    body = f"group() {{ sleep 61 & echo $! > {tmp_path}/child; wait; }}\n"
    body += f"start one group; until [ -s {tmp_path}/child ]; do sleep 0.05; done; exit 9"
    done = _script(tmp_path, body)
    assert done.returncode == 9
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [file.name for file in tmp_path.iterdir()] == ["child"]


def _runs(pid: int) -> bool:
    """Whether the process is there, and more than a zombie that nobody has waited for."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False
