"""The generator as a program: its log reads back, and its ends are those of wrk2 in a loop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import pytest

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.generator import main
from pytest_sremut.workload.pace import due_within
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.settings import SettingsError, parse_settings

REPOSITORY = Path(__file__).resolve().parents[3]
MIX = json.dumps(
    [{"name": "ok", "path": "/ok", "weight": 3}, {"name": "bad", "path": "/bad", "weight": 1}]
)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(500 if self.path == "/bad" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def program(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_sremut.workload.generator", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("calibration", "measured"),
    # A build calibrates at ten seconds: a round that ends before that has its latencies.
    [((), True), (("--calibration=none",), True), (("--calibration=always",), False)],
)
def test_rounds_are_driven_and_read_back(
    url: str, calibration: tuple[str, ...], measured: bool
) -> None:
    outcome = RoundOutcome.OK if measured else RoundOutcome.LATENCY_NOT_A_NUMBER
    arguments = (
        *calibration,
        "-t2",
        "-c2",
        "-d",
        "0.2s",
        "-R",
        "100",
        "--rounds=3",
        "--pause=10ms",
        "--seed=9",
    )
    out, err = program(*arguments, f"--mix={MIX}", url).communicate(timeout=60)
    plan = parse_settings([*arguments, f"--mix={MIX}", url]).plan
    assert err == ""
    rounds = parse_log(out.encode()).rounds
    assert [found.number for found in rounds] == [1, 2, 3]
    for found in rounds:
        assert found.outcome is outcome
        draws = Draws(plan, 9, found.number)
        assert found.delivery is not None
        assert found.delivery.due == sum(due_within(plan, n, draws.gaps(n)) for n in (0, 1))
        assert 0 < found.requests <= found.delivery.sent <= found.delivery.due
        assert (found.latency is not None) == measured
        assert found.duration is not None
        assert (found.generator, found.seed) == ("sremut-load (embedded generator)", 9)
    assert len({found.delivery for found in rounds}) == 3, "each round draws anew"
    assert sum(found.failures for found in rounds) > 0
    assert ("Thread calibration" in out) != measured
    rates = {line.split()[1] for line in out.splitlines() if line.startswith("    Req/Sec")}
    assert ("-nan" in rates) == (calibration != ("--calibration=none",)), "wrk2 samples it later"
    lines = out.splitlines()
    assert "wrk2" not in out, "it is no wrk2 and says so"
    assert lines[:5] == [
        "Running sremut-load on round #1",
        f"Running 0.2s test @ {url}",
        "  2 threads and 2 connections",
        "  Generator: sremut-load (embedded generator), variant dsb, distribution exp, seed 9",
        "  Mix: ok=3 bad=1",
    ]
    summary = next(n for n, line in enumerate(lines) if " requests in " in line)
    assert lines[summary - 1] == "-" * 71, "some readers want a dashed line just before"
    assert lines[-1].startswith("Transfer/sec: ")


@pytest.mark.parametrize(
    ("arguments", "forgotten", "sampled"),
    [
        (["-d10s"], 10.001, False),  # the published rounds
        (["-d9.9s"], 0.0, False),  # what wrk2 prints of a round that ends before it calibrates
        (["-d2s"], 0.0, False),
        (["-d30s"], 10.001, True),
        (["-d10s", "--variant=giltene"], 10.005, False),
        (["-d10s", "--variant=drain"], 0.0, True),
        (["-d10s", "--variant=drain", "--calibration=wrk2"], 10.001, False),
        (["-d10s", "--calibration=none"], 0.0, True),
        (["-d2s", "--calibration=wrk2"], 0.0, False),
        (["-d2s", "--calibration=always"], 10.001, False),
    ],
)
def test_which_latencies_are_forgotten(
    arguments: list[str], forgotten: float, sampled: bool
) -> None:
    plan = parse_settings(["-t3", "-c3", "-R100", *arguments, "http://f:8080"]).plan
    assert plan.forgotten == pytest.approx(forgotten)
    assert plan.is_sampled is sampled


def test_the_same_seed_draws_the_same_and_another_does_not(url: str) -> None:
    """Same due times and same kinds, whatever the answers' timing."""

    def drawn(seed: int) -> list[list[float]]:
        plan = parse_settings(["-c2", "-R", "100", f"--mix={MIX}", url]).plan
        draws = Draws(plan, seed, 1)
        return [[*islice(draws.gaps(n), 50), *islice(draws.kinds(n), 50)] for n in (0, 1)]

    assert drawn(1) == drawn(1) != drawn(2)
    first, second = drawn(1)
    assert first != second, "connections draw independently"


def test_without_failures_there_is_no_line_about_them(url: str) -> None:
    out, _ = program("-d", "50ms", "-R", "100", f"{url}/ok?a=b").communicate(timeout=60)
    assert "Non-2xx" not in out
    assert "Socket errors" not in out


def test_sigterm_ends_it_promptly(url: str) -> None:
    process = program("-d", "1h", "-R", "1", "--rounds=0", url)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("  Mix:"):
        pass
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, "", "")


def test_d12_a_closed_port_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert main(["-R", "10", "--rounds=2", f"http://127.0.0.1:{port}"]) == 1
    seen = capsys.readouterr()
    assert seen.out == "Running sremut-load on round #1\n"
    assert seen.err == f"unable to connect to 127.0.0.1:{port} Connection refused\n"
    (found,) = parse_log((seen.out + seen.err).encode()).rounds
    assert found.outcome is RoundOutcome.ENDPOINT_REFUSED


def test_d12_a_name_that_does_not_resolve_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-R", "10", "http://no-such.invalid:8080"]) == 1
    seen = capsys.readouterr()
    (found,) = parse_log((seen.out + seen.err).encode()).rounds
    assert found.outcome is RoundOutcome.DNS_FAILED


def test_an_endpoint_that_is_lost_later_is_said_and_the_loop_goes_on() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    process = program("-d", "50ms", "-R", "100", "--rounds=3", "--pause=500ms", url)
    assert process.stdout is not None
    read = []
    while not (read and read[-1].startswith("Transfer/sec")):
        read.append(process.stdout.readline())
    server.shutdown()
    thread.join()
    server.server_close()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.count("Connection refused") == 2
    assert "".join(read).count("Running sremut-load") == 1
    assert out.splitlines() == [f"Running sremut-load on round #{number}" for number in (2, 3)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-R1", "ftp://a"], "URL: found 'ftp://a'; allowed: http://HOST[:PORT][/PATH]"),
        (["-R1", "http://a:b"], "URL: found 'http://a:b'"),
        (["-R1", "http://[a"], "URL: found"),
        (["-R1", "http://a/ b"], "URL: found"),
        (["-R0", "http://a"], "--rate: found 0.0; allowed: 0.01 to 100000"),
        (["-Rnan", "http://a"], "--rate: found nan"),
        (["-R1", "-d", "10", "http://a"], "--duration: found '10'; allowed: a number with a unit"),
        (["-R1", "-d", "0s", "http://a"], "--duration: found '0s'"),
        (["-R1", "-c0", "http://a"], "--connections: found 0; allowed: 1 to 1000"),
        (["-R1", "-t2", "-c1", "http://a"], "--threads: found 2; allowed: 1 to 1"),
        (["-R1", "--rounds=-1", "http://a"], "--rounds: found -1"),
        (["-R1", "--mix={", "http://a"], "--mix: found no JSON"),
        (["-R1", "--seed=-1", "http://a"], "--seed: found -1; allowed: 0 to 9007199254740991"),
        (["-R1", f"--seed={2**53}", "http://a"], "--seed: found 9007199254740992"),
        (
            ["-R1", "--variant=giltene", "--distribution=exp", "http://a"],
            "--distribution: found exp; allowed with --variant giltene: fixed",
        ),
    ],
)
def test_misuse(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_settings(arguments)
    assert says in str(refused.value)
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_argparse_misuse_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["-R1", "--unknown", "http://a"]) == 2
    assert "--unknown" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["generator", "rounds"])
def test_both_loads_need_nothing_but_the_standard_library(module: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        f"import pytest_sremut.workload.{module}\n"
        "ours = {name for name in sys.modules if name.startswith('pytest_sremut')}\n"
        "print(*sorted(name.removeprefix('pytest_sremut.workload.') for name in ours))\n"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    modules = set(found.stdout.split()) - {"pytest_sremut", "pytest_sremut.workload"}
    assert not {name for name in modules if "." in name}, "nothing outside the room"
    if module == "rounds":
        dockerfile = REPOSITORY / "pytest_sremut/cluster/kind/images/wrk2/Dockerfile"
        copied = {word for word in dockerfile.read_text().split() if word.endswith(".py")}
        assert {f"{name}.py" for name in modules} == copied - {"fetch.py"}
