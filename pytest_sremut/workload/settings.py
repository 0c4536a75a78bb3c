"""The command line that both load images take: of the embedded generator and of real wrk2.

Standard library only: it goes into the images.
"""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pytest_sremut.workload.mix import Kind, MixError, parse_mix
from pytest_sremut.workload.plan import Calibration, Distribution, Plan, Variant
from pytest_sremut.workload.units import parse_time

__all__ = ["TERMINATED", "Settings", "SettingsError", "parse_settings"]

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a load that a signal ended."""

_SEED_LIMIT = 2**53


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


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--seed", type=int, default=1, help="of all draws, 0 to 2**53 - 1")
    parser.add_argument(
        "--variant",
        choices=[item.value for item in Variant],
        default=Variant.DSB.value,
        help="the build of wrk2 to behave like, or drain (default: dsb)",
    )
    parser.add_argument(
        "--distribution",
        choices=[item.value for item in Distribution],
        help="of the gaps of a connection (default: exp; giltene has fixed only)",
    )
    parser.add_argument(
        "--calibration",
        choices=[item.value for item in Calibration],
        help="wrk2: forget the latencies of the first ten seconds of a round, as it does; always: "
        "also in shorter rounds (default: wrk2; none with drain)",
    )
    return parser


def parse_settings(argv: Sequence[str]) -> Settings:
    """Settings from arguments. SystemExit: argparse refused them.

    Raises:
        SettingsError: A value is not allowed.
    """
    options = _parser().parse_args(argv)
    host, port, path = _endpoint(options.url)
    try:
        kinds = parse_mix(options.mix) if options.mix else (Kind("all", path, 1),)
    except MixError as error:
        raise SettingsError(f"--mix: {error}") from None
    variant = Variant(options.variant)
    plan = Plan(
        connections=_between("--connections", options.connections, 1, 1000),
        threads=_between("--threads", options.threads, 1, options.connections),
        rate=_rate(options.rate),
        duration=_seconds("--duration", options.duration, least=0.01),
        timeout=_seconds("--timeout", options.timeout, least=0.01),
        kinds=kinds,
        variant=variant,
        distribution=_distribution(options.distribution, variant),
        calibration=_calibration(options.calibration, variant),
    )
    return Settings(
        url=options.url,
        host=host,
        port=port,
        plan=plan,
        rounds=_between("--rounds", options.rounds, 0, 1_000_000),
        pause=_seconds("--pause", options.pause, least=0.0),
        seed=_between("--seed", options.seed, 0, _SEED_LIMIT - 1),
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


def _distribution(text: str | None, variant: Variant) -> Distribution:
    if variant is not Variant.GILTENE:
        return Distribution(text or Distribution.EXP.value)
    if text == Distribution.EXP.value:
        raise SettingsError("--distribution: found exp; allowed with --variant giltene: fixed")
    return Distribution.FIXED


def _calibration(text: str | None, variant: Variant) -> Calibration:
    if text is not None:
        return Calibration(text)
    return Calibration.NONE if variant is Variant.DRAIN else Calibration.WRK2


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
