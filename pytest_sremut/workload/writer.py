"""wrk2's report (with its latency option) of one round, as lines.

Lines that wrk2 leaves out are left out: `Socket errors` and `Non-2xx or 3xx responses` are only
there when there were some, and the dashed line directly precedes the count of requests. The line
`sremut: due ...` is ours; no wrk2 prints it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_sremut.workload.plan import Plan, Variant
from pytest_sremut.workload.totals import Totals
from pytest_sremut.workload.units import format_rate, format_size, format_time

__all__ = ["generator_line", "head_lines", "report_lines"]

_PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0)
_DASHES = {Variant.DSB: "-" * 71, Variant.GILTENE: "-" * 58, Variant.DRAIN: "-" * 58}
_SPECTRUM = (0.0, 0.5, 0.75, 0.875, 0.9375, 0.96875, 0.984375, 1.0)


def head_lines(plan: Plan, url: str) -> list[str]:
    """What wrk2 prints when it begins."""
    return [
        f"Running {plan.duration:g}s test @ {url}",
        f"  {plan.threads} threads and {plan.connections} connections",
    ]


def generator_line(plan: Plan, seed: int) -> str:
    """Which generator this is. It behaves and reports like a build of wrk2, and is none."""
    return (
        f"  Generator: sremut-load (embedded generator), variant {plan.variant.value}, "
        f"distribution {plan.distribution.value}, seed {seed}"
    )


def report_lines(plan: Plan, url: str, totals: Totals) -> list[str]:
    """What wrk2 prints when it ends, and our own line about what was delivered."""
    latencies = sorted(totals.latencies)
    dsb = plan.variant is Variant.DSB
    lines = [""] if dsb else []
    lines += _calibration(totals)
    if dsb:
        lines += ["", _DASHES[plan.variant], f"Test Results @ {url} "]
    lines.append(f"  Thread Stats   Avg      Stdev     {'99%' if dsb else 'Max'}   +/- Stdev")
    top = 0.99 if dsb else 1.0
    lines.append(_row("Latency", latencies, top, times=True))
    lines.append(_row("Req/Sec", _per_thread(plan, totals), top, times=False))
    lines.append("  Latency Distribution (HdrHistogram - Recorded Latency)")
    for percent in _PERCENTILES:
        lines.append(f"{percent:7.3f}%{_cell(format_time(_at(latencies, percent / 100)), 10)}")
    lines += ["", *_spectrum(latencies), _DASHES[plan.variant]]
    size, took = format_size(totals.received), format_time(totals.elapsed)
    lines.append(f"  {totals.completed} requests in {took}, {size} read")
    if totals.socket_errors:
        lines.append(
            f"  Socket errors: connect {totals.connect}, read {totals.read}, "
            f"write 0, timeout {totals.timeout}"
        )
    if totals.failed:
        lines.append(f"  Non-2xx or 3xx responses: {totals.failed}")
    lines.append(
        f"  sremut: due {totals.due}, sent {totals.sent}, answered {totals.completed}, "
        f"late {totals.late}, latest {format_time(totals.latest)}, "
        f"stalled {format_time(totals.stalled)}"
    )
    lines.append(f"Requests/sec: {totals.completed / totals.elapsed:9.2f}{'  ' if dsb else ''}")
    lines.append(f"Transfer/sec: {format_size(totals.received / totals.elapsed):>10}")
    return lines


def _calibration(totals: Totals) -> list[str]:
    """One line for each thread that calibrated."""
    lines = []
    for latencies in totals.calibrating:
        if latencies:
            mean = 1000 * statistics.fmean(latencies)
            interval = max(2000 * _at(sorted(latencies), 0.9), 10)
            lines.append(
                f"  Thread calibration: mean lat.: {mean:.3f}ms, "
                f"rate sampling interval: {int(interval)}ms"
            )
    return lines


def _at(ordered: Sequence[float], quantile: float) -> float:
    """The smallest value that is not exceeded by that part of them; 0 without any, as wrk2."""
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(quantile * len(ordered)), 1) - 1]


def _row(name: str, values: Sequence[float], top: float, *, times: bool) -> str:
    """Mean, standard deviation, a top quantile and the part within one deviation of the mean."""
    if not values:
        unit, none = ("-nanus", "0.00us") if times else ("-nan", "0.00")
        return _columns(name, (unit, unit, none), 0.0)
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
    within = sum(abs(value - mean) <= spread for value in values) / len(values)
    show = format_time if times else format_rate
    cells = (show(mean), show(spread), show(_at(sorted(values), top)))
    return _columns(name, cells, 100 * within)


def _columns(name: str, cells: Sequence[str], percent: float) -> str:
    widths = (8, 10, 9)
    row = "".join(_cell(cell, width) for cell, width in zip(cells, widths, strict=True))
    return f"    {name:<10}{row}{percent:8.2f}%"


def _cell(text: str, width: int) -> str:
    """Numbers end two places before the column does, which are their unit's."""
    pad = 2 - text[-1].isalpha() - text[-2].isalpha()
    return f"{text:>{width - pad}}{' ' * pad}"


def _per_thread(plan: Plan, totals: Totals) -> list[float]:
    """Requests a second of each thread: connection n belongs to thread n modulo threads.

    Empty where it was not sampled.
    """
    if not totals.completed or not plan.is_sampled:
        return []
    counts = [0] * plan.threads
    for number, completed in enumerate(totals.per_connection):
        counts[number % plan.threads] += completed
    return [count / totals.elapsed for count in counts]


def _spectrum(ordered: Sequence[float]) -> list[str]:
    lines = [
        "  Detailed Percentile spectrum:",
        "       Value   Percentile   TotalCount 1/(1-Percentile)",
        "",
    ]
    total = len(ordered)
    for quantile in _SPECTRUM if total else (1.0,):
        value = _at(ordered, quantile) * 1000
        count = max(math.ceil(quantile * total), min(total, 1))
        inverse = "inf" if quantile == 1 else f"{1 / (1 - quantile):.2f}"
        lines.append(f"{value:12.3f} {quantile:12.6f} {count:12d} {inverse:>12}")
    mean = statistics.fmean(ordered) * 1000 if ordered else math.nan
    spread = statistics.pstdev(ordered) * 1000 if ordered else math.nan
    top = ordered[-1] * 1000 if ordered else 0.0
    lines.append(f"#[Mean    = {_plain(mean)}, StdDeviation   = {_plain(spread)}]")
    lines.append(f"#[Max     = {_plain(top)}, Total count    = {total:12d}]")
    lines.append(f"#[Buckets = {27:12d}, SubBuckets     = {2048:12d}]")
    return lines


def _plain(milliseconds: float) -> str:
    return f"{'-nan':>12}" if math.isnan(milliseconds) else f"{milliseconds:12.3f}"
