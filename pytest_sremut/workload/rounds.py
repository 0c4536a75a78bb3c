"""The load image's program on real clusters: wrk2 itself, in rounds.

It takes the arguments that `generator` takes and prints what the benchmark's load pod prints: a
line `Running wrk2 on round #N`, wrk2's own report, a pause. As there, a round in which wrk2 found
no endpoint leaves no report; in the first round that ends the program with wrk2's exit status.

wrk2 counts whole seconds only. The kinds of requests are drawn by its script, which gets a seed of
its own for each round and thread; the gaps (`-D exp`) are drawn by wrk2 itself from a generator
that it never seeds, so they are the same in every round. Standard library only.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
from types import FrameType

from pytest_sremut.workload.draws import script_seed
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Calibration, Variant
from pytest_sremut.workload.settings import TERMINATED, Settings, SettingsError, parse_settings

__all__ = ["command", "environment", "generator_line", "main"]

_UNNAMED = "wrk of a build that nobody named"


def command(settings: Settings) -> list[str]:
    """wrk2's arguments for one round.

    Raises:
        SettingsError: wrk2 cannot be told that.
    """
    plan = settings.plan
    if plan.variant is not Variant.DSB:
        raise SettingsError(
            f"--variant: found {plan.variant.value}; allowed with this wrk2: {Variant.DSB.value}"
        )
    if plan.calibration is not Calibration.WRK2:
        raise SettingsError(
            f"--calibration: found {plan.calibration.value}; allowed with this wrk2: wrk2"
        )
    return [
        "wrk",
        "-D",
        plan.distribution.value,
        "-t",
        str(plan.threads),
        "-c",
        str(plan.connections),
        "-d",
        f"{_whole('--duration', plan.duration)}s",
        "-T",
        f"{_whole('--timeout', plan.timeout)}s",
        "-R",
        str(_whole("--rate", plan.rate)),
        "-s",
        os.environ.get("SREMUT_MIX_SCRIPT", "mix.lua"),
        "-L",
        settings.url,
    ]


def environment(settings: Settings, number: int) -> dict[str, str]:
    """What wrk2's script reads in round `number`: the mix, one line a kind in lowest terms, and a
    seed for each thread."""
    kinds = settings.plan.kinds
    divisor = math.gcd(*(kind.weight for kind in kinds))
    return {
        "SREMUT_MIX": "\n".join(_line(kind, divisor) for kind in kinds),
        "SREMUT_SEEDS": " ".join(
            str(script_seed(settings.seed, number, thread))
            for thread in range(1, settings.plan.threads + 1)
        ),
    }


def generator_line(settings: Settings) -> str:
    """Which wrk2 this is, as the image names it."""
    name = os.environ.get("SREMUT_WRK2", _UNNAMED)
    plan = settings.plan
    return (
        f"  Generator: {name}, variant {plan.variant.value}, "
        f"distribution {plan.distribution.value}, seed {settings.seed}"
    )


def _line(kind: Kind, divisor: int) -> str:
    body = kind.body.encode().hex() or "-"
    return f"{kind.weight // divisor} {kind.method} {kind.path} {body}"


def _whole(option: str, value: float) -> int:
    if value != int(value) or value < 1:
        raise SettingsError(f"{option}: found {value:g}; allowed with wrk2: a whole number from 1")
    return int(value)


class _Ending:
    """That we were asked to end, which wrk2 and whoever waits hear at once.

    The handler raises nothing: in the middle of starting wrk2 that would leave one behind.
    """

    def __init__(self) -> None:
        self.asked = False
        self._wrk: subprocess.Popen[bytes] | None = None
        self._reader, self._writer = os.pipe()

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        os.write(self._writer, b"x")
        if self._wrk is not None:
            self._wrk.kill()

    def pause(self, seconds: float) -> None:
        select.select([self._reader], [], [], seconds)

    def wrk2(self, arguments: list[str], around: dict[str, str]) -> int:
        """One round; wrk2's exit status as a shell tells it."""
        with subprocess.Popen(arguments, env=around) as self._wrk:
            if self.asked:
                self._wrk.kill()
            code = self._wrk.wait()
        return code if code >= 0 else 128 - code


def main(argv: list[str]) -> int:
    """Drive the rounds. `argv` is without the program's name. Returns the exit status.

    0: all rounds were driven; 2: misuse; 143: ended by a signal; else what wrk2's first round
    ended with.
    """
    try:
        settings = parse_settings(argv)
        arguments = command(settings)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    except SettingsError as error:
        print(f"sremut-load: {error}", file=sys.stderr)
        return 2
    ending = _Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending.ask)
    return _rounds(settings, arguments, ending)


def _rounds(settings: Settings, arguments: list[str], ending: _Ending) -> int:
    number = 0
    while settings.rounds == 0 or number < settings.rounds:
        number += 1
        print(f"Running wrk2 on round #{number}", flush=True)
        print(generator_line(settings), flush=True)
        around = {**os.environ, **environment(settings, number)}
        code = ending.wrk2(arguments, around)
        if code and number == 1 and not ending.asked:
            return code
        if number != settings.rounds and not ending.asked:
            ending.pause(settings.pause)
        if ending.asked:
            return TERMINATED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
