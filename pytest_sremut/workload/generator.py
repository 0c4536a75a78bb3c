"""The load image's program: wrk2's constant-rate load in rounds, and wrk2's report of each.

    python -m pytest_sremut.workload.generator -c 3 -d 0.5s -R 200 --rounds 10 --pause 0.1s \\
        --mix '[{"name": ..., "path": ..., "weight": ...}]' http://nginx-thrift:8080

It loops as the benchmark's load pod does: a line `Running wrk2 on round #N`, one report, a pause.
Each line is flushed, so that the pod's log dates it. An endpoint that cannot be used leaves
nothing on stdout and wrk2's one line on stderr; in the first round that ends the program with 1,
as it ends wrk2, in a later one the loop goes on, as the pod's shell does.

`--seed` alone decides the order of the mix; it is printed with each report's head. Standard
library only. Responses are read by Content-Length; chunked ones count as read errors.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pytest_sremut.workload.load import EndpointError, Plan, Totals, check, run_round
from pytest_sremut.workload.mix import Kind, MixError, parse_mix, sequence
from pytest_sremut.workload.units import parse_time
from pytest_sremut.workload.writer import head_lines, report_lines

__all__ = ["Settings", "generate", "main", "parse_settings"]

TERMINATED = 128 + signal.SIGTERM


class Settings(NamedTuple):
    """What the command line says. Times in seconds; `rounds` 0 is until SIGTERM."""

    url: str
    host: str
    port: int
    plan: Plan
    rounds: int
    pause: float
    seed: int


class SettingsError(Exception):
    """The command line asks for something that is not allowed."""


def parse_settings(argv: Sequence[str]) -> Settings:
    """Settings from arguments. SystemExit: argparse refused them.

    Raises:
        SettingsError: A value is not allowed.
    """
    parser = argparse.ArgumentParser(prog="sremut-load", description="Constant-rate load.")
    parser.add_argument("url", metavar="URL")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("-c", "--connections", type=int, default=1)
    parser.add_argument("-d", "--duration", default="10s", help="of one round (0.5s, 1m)")
    parser.add_argument("-R", "--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--rounds", type=int, default=1, help="0: until SIGTERM")
    parser.add_argument("--pause", default="1s", help="between two rounds")
    parser.add_argument("--timeout", default="2s", help="of one request")
    parser.add_argument("--mix", default="", metavar="JSON")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    host, port, path = _endpoint(options.url)
    try:
        kinds = parse_mix(options.mix) if options.mix else (Kind("all", path, 1),)
    except MixError as error:
        raise SettingsError(f"--mix: {error}") from None
    plan = Plan(
        connections=_between("--connections", options.connections, 1, 1000),
        threads=_between("--threads", options.threads, 1, options.connections),
        rate=_rate(options.rate),
        duration=_seconds("--duration", options.duration, least=0.01),
        timeout=_seconds("--timeout", options.timeout, least=0.01),
        kinds=kinds,
    )
    return Settings(
        url=options.url,
        host=host,
        port=port,
        plan=plan,
        rounds=_between("--rounds", options.rounds, 0, 1_000_000),
        pause=_seconds("--pause", options.pause, least=0.0),
        seed=options.seed,
    )


def _endpoint(url: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    if parts.scheme != "http" or not host or not re.fullmatch(r"[!-~]+", url):
        raise SettingsError(f"URL: found {url!r:.80}; allowed: http://HOST[:PORT][/PATH]")
    path = parts.path or "/"
    return host, port, f"{path}?{parts.query}" if parts.query else path


def _between(option: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise SettingsError(f"{option}: found {value}; allowed: {least} to {most}")
    return value


def _rate(value: float) -> float:
    if not 0.01 <= value <= 100_000:
        raise SettingsError(f"--rate: found {value}; allowed: 0.01 to 100000 a second")
    return value


def _seconds(option: str, text: str, *, least: float) -> float:
    value = parse_time(text)
    if value is None or not least <= value <= 86_400:
        allowed = f"a number with a unit (us, ms, s, m, h), {least:g}s to 24h"
        raise SettingsError(f"{option}: found {text!r:.40}; allowed: {allowed}")
    return value


async def generate(settings: Settings, stop: asyncio.Event) -> int:
    """Runs the rounds and prints their reports. `stop` ends it at once. Returns the exit status."""
    plan = settings.plan
    order = sequence(plan.kinds, settings.seed)
    number = 0
    while settings.rounds == 0 or number < settings.rounds:
        number += 1
        _say([f"Running wrk2 on round #{number}"])
        try:
            endpoint = await check(settings.host, settings.port, timeout=plan.timeout)
        except EndpointError as error:
            print(error, file=sys.stderr, flush=True)
            if number == 1:
                return 1
        else:
            mix = " ".join(f"{kind.name}={kind.weight}" for kind in plan.kinds)
            _say([*head_lines(plan, settings.url), f"  Mix: {mix}, seed {settings.seed}"])
            totals: Totals = await run_round(plan, endpoint, order, stop)
            if stop.is_set():
                return TERMINATED
            _say(report_lines(plan, totals))
        if number != settings.rounds and await _stopped(stop, settings.pause):
            return TERMINATED
    return 0


async def _stopped(stop: asyncio.Event, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            await stop.wait()
    except TimeoutError:
        return stop.is_set()
    return True


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        print(line, flush=True)


async def _until_signal(settings: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await generate(settings, stop)


def main(argv: list[str]) -> int:
    """Runs the generator. `argv` is without the program's name. Returns the exit status.

    0: all rounds were driven; 1: the endpoint could not be used at the start; 2: misuse;
    143: ended by a signal.
    """
    try:
        settings = parse_settings(argv)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    except SettingsError as error:
        print(f"sremut-load: {error}", file=sys.stderr)
        return 2
    return asyncio.run(_until_signal(settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
