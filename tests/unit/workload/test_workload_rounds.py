"""wrk2 in rounds: what it is told, and what the log then holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_sremut.study.model import Workload
from pytest_sremut.workload.draws import script_seed
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.rounds import command, environment
from pytest_sremut.workload.settings import SettingsError, parse_settings

ROOT = Path(__file__).resolve().parents[3]
MIX = (
    '[{"name":"a","path":"/home","weight":60},{"name":"b","path":"/user","weight":30},'
    '{"name":"c","path":"/compose","weight":10,"method":"POST","body":"x=1 \\"2\\n"}]'
)
WHO = "  Generator: wrk of a build that nobody named, variant dsb, distribution exp, seed 1\n"
ARGUMENTS = ["-t3", "-c3", "-d10s", "-R100", "--timeout=10s", f"--mix={MIX}", "http://f:8080"]


def test_what_wrk2_is_told() -> None:
    settings = parse_settings(ARGUMENTS)
    assert command(settings) == [
        "wrk", "-D", "exp", "-t", "3", "-c", "3", "-d", "10s", "-T", "10s", "-R", "100",
        "-s", "mix.lua", "-L", "http://f:8080",
    ]  # fmt: skip
    around = environment(settings, 1)
    assert around["SREMUT_MIX"] == "6 GET /home -\n3 GET /user -\n1 POST /compose 783d312022320a"
    assert around["SREMUT_SEEDS"].split() == [str(script_seed(1, 1, n)) for n in (1, 2, 3)]
    later = environment(settings, 2)
    assert later["SREMUT_MIX"] == around["SREMUT_MIX"]
    seeds = {*later["SREMUT_SEEDS"].split(), *around["SREMUT_SEEDS"].split()}
    assert len(seeds) == 6, "each thread of each round draws something of its own"
    assert all(int(seed) < 2**53 for seed in seeds)


@pytest.mark.parametrize("wrong", ["-d0.5s", "-d500ms", "--timeout=1500ms", "-R0.5"])
def test_what_wrk2_cannot_be_told(wrong: str) -> None:
    with pytest.raises(SettingsError, match="allowed with wrk2: a whole number from 1"):
        command(parse_settings([*ARGUMENTS[:-1], wrong, ARGUMENTS[-1]]))


def test_only_the_build_of_the_image_can_be_asked_for() -> None:
    with pytest.raises(
        SettingsError, match="--variant: found giltene; allowed with this wrk2: dsb"
    ):
        command(parse_settings([*ARGUMENTS[:-1], "--variant=giltene", ARGUMENTS[-1]]))
    for other in ("none", "always"):
        with pytest.raises(
            SettingsError, match=f"--calibration: found {other}; allowed with this wrk2: wrk2"
        ):
            command(parse_settings([*ARGUMENTS[:-1], f"--calibration={other}", ARGUMENTS[-1]]))
    fixed = command(parse_settings([*ARGUMENTS[:-1], "--distribution=fixed", ARGUMENTS[-1]]))
    assert fixed[:3] == ["wrk", "-D", "fixed"]


def test_the_published_load_can_be_told() -> None:
    """The arguments that the engine's Job has in a study's profile for a real cluster."""
    from pytest_sremut.workload.job import load_arguments

    workload = Workload(
        url="http://nginx-thrift:8080",
        threads=3,
        connections=3,
        rate=100,
        duration=10.0,
        pause=1.0,
        timeout=10.0,
        rounds=10,
        mix=(Kind("a", "/x", 6),),
    )
    settings = parse_settings(load_arguments(workload, rounds=10, seed=5))
    assert (settings.rounds, settings.pause) == (10, 1.0)
    assert command(settings)[-1] == workload.url


def _run(tmp_path: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    wrk = tmp_path / "wrk"
    wrk.write_text(f"#!/bin/sh\n{script}\n")
    wrk.chmod(0o755)
    around = {"PATH": f"{tmp_path}:/bin:/usr/bin", "PYTHONPATH": str(ROOT), "HERE": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-S", "-m", "pytest_sremut.workload.rounds", *ARGUMENTS[:-1], *arguments,
         ARGUMENTS[-1]],
        env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip


def test_rounds_with_a_pause_between(tmp_path: Path) -> None:
    process = _run(tmp_path, "echo report", "--rounds=3", "--pause=10ms")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    rounds = [f"Running wrk2 on round #{number}\n{WHO}report\n" for number in (1, 2, 3)]
    assert out == "".join(rounds)


def test_no_endpoint_in_the_first_round_ends_it(tmp_path: Path) -> None:
    process = _run(tmp_path, "echo unable to connect >&2; exit 1", "--rounds=3")
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "unable to connect\n")
    assert out == "Running wrk2 on round #1\n" + WHO


def test_no_endpoint_later_leaves_a_round_without_report(tmp_path: Path) -> None:
    script = 'if [ -e "$HERE/first" ]; then exit 1; fi; touch "$HERE/first"; echo report'
    process = _run(tmp_path, script, "--rounds=3", "--pause=10ms")
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out == (
        f"Running wrk2 on round #1\n{WHO}report\n"
        f"Running wrk2 on round #2\n{WHO}Running wrk2 on round #3\n{WHO}"
    )


def test_a_crash_is_no_success(tmp_path: Path) -> None:
    process = _run(tmp_path, "kill -SEGV $$", "--rounds=1")
    process.communicate()
    assert process.returncode == 128 + signal.SIGSEGV


def test_sigterm_ends_it_and_wrk2(tmp_path: Path) -> None:
    process = _run(tmp_path, "echo $$; exec sleep 600", "--rounds=0")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_misuse_is_told(tmp_path: Path) -> None:
    process = _run(tmp_path, "echo report", "--duration=0.5s")
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err == ("sremut-load: --duration: found 0.5; allowed with wrk2: a whole number from 1\n")
