"""`benchmarks/busy.py` says how the command ended, and ends what it started."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "busy.py"


def of(marker: str) -> list[str]:
    """Processes with a text in their command line: a loop has that of the script."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


def busy(marker: str, command: str, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(SCRIPT), "--loops", "1", *options, "--", "sh", "-c"]
    return subprocess.Popen([*argv, f": {marker}; {command}"], stdout=subprocess.PIPE, text=True)


def test_a_command_beside_a_loop() -> None:
    marker = uuid.uuid4().hex
    # The script, its loop and the command itself are there while it runs.
    count = f"grep -lzs {marker} /proc/[0-9]*/cmdline | wc -l"
    out, _ = busy(marker, f"{count}; exit 3").communicate(timeout=60)
    document = json.loads(out)
    assert (document["code"], document["loops"]) == (3, 1)
    assert int(document["last line"]) >= 3
    assert of(marker) == []


def test_a_command_that_does_not_end_is_ended_and_the_loops_with_it() -> None:
    marker = uuid.uuid4().hex
    with busy(marker, "exec sleep 600", "--limit", "0.5") as process:
        out, _ = process.communicate(timeout=60)
    assert json.loads(out)["code"] == -15
    assert process.returncode == 1
    assert of(marker) == []
