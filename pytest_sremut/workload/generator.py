"""The embedded load generator: rounds of constant-rate load, and a report of each as wrk2's.

    python -m pytest_sremut.workload.generator -c 3 -d 1.25s -R 200 --rounds 10 --pause 50ms \\
        --seed 4242 --mix '[{"name": ..., "path": ..., "weight": ...}]' http://nginx-thrift:8080

It is not wrk2 and says so in each report's head. It loops as the benchmark's load pod does: a line
`Running sremut-load on round #N`, one report, a pause. Each line is flushed, so that the pod's log
dates it. An endpoint that cannot be used leaves one line on stderr; in the first round that ends
the program with 1, as it ends wrk2, in a later one the loop goes on, as the pod's shell does.

`--seed` alone decides all draws (kinds and gaps). Standard library only.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.load import EndpointError, check, run_round
from pytest_sremut.workload.settings import TERMINATED, Settings, SettingsError, parse_settings
from pytest_sremut.workload.writer import generator_line, head_lines, report_lines

__all__ = ["generate", "main"]


async def generate(settings: Settings, stop: asyncio.Event) -> int:
    """Runs the rounds and prints their reports. `stop` ends it at once. Returns the exit status."""
    plan = settings.plan
    number = 0
    while settings.rounds == 0 or number < settings.rounds:
        number += 1
        _say([f"Running sremut-load on round #{number}"])
        try:
            endpoint = await check(settings.host, settings.port, timeout=plan.timeout)
        except EndpointError as error:
            print(error, file=sys.stderr, flush=True)
            if number == 1:
                return 1
        else:
            mix = " ".join(f"{kind.name}={kind.weight}" for kind in plan.kinds)
            who = generator_line(plan, settings.seed)
            _say([*head_lines(plan, settings.url), who, f"  Mix: {mix}"])
            draws = Draws(plan, settings.seed, number)
            totals = await run_round(plan, endpoint, draws, stop)
            if stop.is_set():
                return TERMINATED
            _say(report_lines(plan, settings.url, totals))
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
