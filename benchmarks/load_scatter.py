"""What error rate and retained volume a run's load window scatters by, from the load alone.

    python benchmarks/load_scatter.py [--runs 2000] [--seed 1] [--profile embedded|kind|all]
    python benchmarks/load_scatter.py --rounds-of embedded|kind    # other lengths of a round
    python benchmarks/load_scatter.py --evidence DIR           # with the seeds of recorded runs
    python benchmarks/load_scatter.py --published              # why 9 %, not 27 %

A simulation: pure, seeded, no network, no clock. It takes the generator's own due times and kinds
(`workload.draws`, `workload.pace`), so a simulated window asks what a driven one with the same seed
asks. The system under load is reduced to two numbers:

* an answer takes `--answer` seconds, whatever its kind,
* a request of the kind that the mutant breaks takes the stall instead, and fails.

MS-M01 (the name does not resolve) and MS-M03 (refused) fail at once. MS-M02 holds its connection: a
Service without endpoints answers a blocking connect with an ICMP reject, of which the first is only
noted. One that hears a later one is refused then; one that hears none times out after 3 s. All
connects come from one pod, and its node tells one peer six at once and one a second: `proxy.limit`,
measured by `benchmarks/unreachable.py`. `--unlimited` is a node that always tells. SYNs are sent
again each second (`--syn linear`, Linux 6.5 and later) or after 1 and 3 s (`--syn doubling`). A
connection is served one request at a time. What is not simulated: a busy machine, pods that
restart, keep-alive connections that break.

Printed for each quantity, over runs: mean, standard deviation, 0.5 % and 99.5 % quantile.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pytest_sremut.embedded.proxy.limit import Limit
from pytest_sremut.workload.draws import Draws, stream, window_seed
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.pace import Drawn
from pytest_sremut.workload.plan import Plan, Variant

MIX = (Kind("home", "/h", 60), Kind("user", "/u", 30), Kind("compose", "/c", 10))
BROKEN = 2  # place of the kind that the mutants break
STALLS = {"healthy": None, "MS-M01": 0.0, "MS-M02": 1.0, "MS-M03": 0.0}
ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Completed requests and failed ones of a window."""

    requests: int = 0
    failures: int = 0
    due: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            requests=self.requests + other.requests,
            failures=self.failures + other.failures,
            due=self.due + other.due,
        )

    @property
    def successes(self) -> int:
        return self.requests - self.failures


def plan(rate: float, duration: float) -> Plan:
    return Plan(connections=3, threads=3, rate=rate, duration=duration, timeout=10.0, kinds=MIX)


PROFILES = {
    "embedded": replace(plan(100.0, 1.0), variant=Variant.DRAIN),
    "kind": plan(100.0, 10.0),
}


def connection(
    planned: Plan, gaps: Iterator[float], kinds: Iterator[int], stall: float | None, answer: float
) -> Counts:
    """One connection of one round: requests go when due, are answered one after the other."""
    begin = 0.0
    pace = Drawn(begin, gaps)
    free = requests = failures = due = 0.0
    while pace.due < planned.duration:
        due += 1
        kind = next(kinds)
        broken = stall is not None and kind == BROKEN
        sent = max(free, pace.due)
        free = sent + (max(stall or 0.0, answer) if broken else answer)
        # A round that drains sends nothing after its end, and waits for the rest.
        if (sent if planned.drains else free) < planned.duration:
            requests += 1
            failures += broken
        pace.sent()
    return Counts(requests=int(requests), failures=int(failures), due=int(due))


def window(planned: Plan, seed: int, stall: float | None, answer: float) -> Counts:
    """A window of ten rounds."""
    total = Counts()
    for number in range(1, ROUNDS + 1):
        draws = Draws(planned, seed, number)
        for lane in range(planned.connections):
            total += connection(planned, draws.gaps(lane), draws.kinds(lane), stall, answer)
    return total


@lru_cache(maxsize=8)
def c_gaps(planned: Plan) -> list[list[float]]:
    """The gaps of real wrk2's `-D exp`: C's `rand()` that nobody seeds, so always the same."""
    state = [1]
    for _ in range(30):
        state.append(16807 * state[-1] % 2147483647)
    state += state[:3]
    for place in range(34, 344):
        state.append((state[place - 31] + state[place - 3]) & 0xFFFFFFFF)
    gaps: list[list[float]] = [[] for _ in range(planned.connections)]
    due = [(0.0, lane) for lane in range(planned.connections)]
    while due[0][0] < 2 * planned.duration:
        at, lane = heapq.heappop(due)
        state.append((state[-31] + state[-3]) & 0xFFFFFFFF)
        gaps[lane].append(-math.log((state[-1] >> 1) / 2147483647) * planned.interval)
        heapq.heappush(due, (at + gaps[lane][-1], lane))
    return gaps


def real_window(planned: Plan, seed: int, stall: float | None, answer: float) -> Counts:
    """A window of real wrk2: kinds are drawn anew, gaps are the same in every round."""
    gaps, total = c_gaps(planned), Counts()
    for number in range(1, ROUNDS + 1):
        draws = Draws(planned, seed, number)
        for lane in range(planned.connections):
            total += connection(planned, iter(gaps[lane]), draws.kinds(lane), stall, answer)
    return total


# -- MS-M02 where a node limits what it tells -------------------------------------------------

CONNECT_TIMEOUT = 3.0  # the demo's, of one connect
PAUSES = {"embedded": 0.05, "kind": 1.0}  # between two rounds, as the profiles have it
SYNS = {"linear": (0.0, 1.0, 2.0), "doubling": (0.0, 1.0)}  # within the connect's time


class Limited:
    """A window under MS-M02: events in time, one bucket for the one pod that connects."""

    def __init__(
        self, planned: Plan, seed: int, *, answer: float, syns: Sequence[float], pause: float
    ) -> None:
        self._planned, self._seed, self._answer, self._syns = planned, seed, answer, syns
        self._pause = pause
        self._limit = Limit()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self.total = Counts()

    def run(self, source: Callable[[int, int], Iterator[float]]) -> Counts:
        """Ten rounds; `source` gives the gaps of a round's connection."""
        begin = 0.0
        for number in range(1, ROUNDS + 1):
            end = begin + self._planned.duration
            draws = Draws(self._planned, self._seed, number)
            self._open = self._planned.connections
            self._last = begin
            for lane in range(self._planned.connections):
                pace = Drawn(begin, source(number, lane))
                self._next(pace, draws.kinds(lane), begin, end)
            # wrk2 closes its connections at the end. What the application connects to by then it
            # goes on to connect to, beside the next round, and takes its part of the limit.
            draining = self._planned.drains
            while self._events and ((draining and self._open) or self._events[0][0] < end):
                now, _, event = heapq.heappop(self._events)
                event(now)
            begin = max(end, self._last) + self._pause
        return self.total

    def _at(self, when: float, event: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, event))

    def _next(self, pace: Drawn, kinds: Iterator[int], free: float, end: float) -> None:
        if max(free, pace.due) >= end:
            self._open -= 1
            self._last = max(self._last, free if self._planned.drains else end)
            return
        sent = max(free, pace.due)
        pace.sent()
        broken = next(kinds) == BROKEN

        def done(now: float) -> None:
            if self._planned.drains or now < end:
                self.total += Counts(requests=1, failures=int(broken), due=1)
            self._next(pace, kinds, now, end)

        if not broken:
            self._at(sent + self._answer, done)
            return
        self._at(sent, lambda now: self._syn(now, sent, 0, done))

    def _syn(self, now: float, sent: float, place: int, done: Callable[[float], None]) -> None:
        told = self._limit.take(("pod", "service"), now)
        if told and place:
            done(now)
        elif place + 1 < len(self._syns):
            later = sent + self._syns[place + 1]
            self._at(later, lambda then: self._syn(then, sent, place + 1, done))
        else:
            self._at(sent + CONNECT_TIMEOUT, done)


def limited_window(
    planned: Plan, seed: int, *, answer: float, real: bool, syns: Sequence[float], pause: float
) -> Counts:
    """A window of ten rounds under MS-M02. `real`: with the gaps of real wrk2."""
    simulated = Limited(planned, seed, answer=answer, syns=syns, pause=pause)
    if real:
        gaps = c_gaps(planned)
        return simulated.run(lambda _number, lane: iter(gaps[lane]))
    return simulated.run(lambda number, lane: Draws(planned, seed, number).gaps(lane))


Window = Callable[[Plan, int, float | None, float], Counts]


def seeds(run: int, base: int) -> dict[str, int]:
    """The seeds of one simulated run's windows."""
    names = (("healthy", "healthy"), ("faulted", "faulted"))
    return {
        name: window_seed(run=f"{base}-{run}", state=state, window=name, attempt=1)
        for name, state in names
    }


def quantities(
    planned: Plan,
    mutant: str,
    *,
    runs: int,
    base: int,
    answer: float,
    take: Window,
    syns: Sequence[float] = (),
    pause: float = 0.0,
) -> dict[str, list[float]]:
    """Error rate, retained percent and failures of each simulated run."""
    found: dict[str, list[float]] = {"error_rate_percent": [], "retained_percent": []}
    found["failures"] = []
    found["requests"] = []
    for run in range(runs):
        seed = seeds(run, base)
        healthy = take(planned, seed["healthy"], None, answer)
        if mutant == "MS-M02" and syns:
            real = take is real_window
            seen = limited_window(
                planned, seed["faulted"], answer=answer, real=real, syns=syns, pause=pause
            )
        else:
            seen = take(planned, seed["faulted"], STALLS[mutant], answer)
        rate = 100 * seen.failures / seen.requests if seen.requests else math.nan
        found["error_rate_percent"].append(rate)
        found["retained_percent"].append(100 * seen.successes / healthy.successes)
        found["failures"].append(seen.failures)
        found["requests"].append(seen.requests)
    return found


def described(values: Sequence[float]) -> str:
    ordered = sorted(values)
    low = ordered[int(0.005 * (len(ordered) - 1))]
    high = ordered[math.ceil(0.995 * (len(ordered) - 1))]
    return (
        f"mean {statistics.fmean(ordered):8.2f}  sd {statistics.pstdev(ordered):6.2f}  "
        f"0.5 % {low:8.2f}  99.5 % {high:8.2f}"
    )


def print_profile(
    name: str, planned: Plan, *, runs: int, base: int, answer: float, syns: Sequence[float]
) -> None:
    take = real_window if name == "kind" else window
    print(
        f"\n{name}: {planned.rate:g}/s for {planned.duration:g} s, {ROUNDS} rounds, answers in "
        f"{1000 * answer:g} ms, {runs} runs"
        + (", gaps of real wrk2 (the same in every round)" if take is real_window else "")
    )
    for mutant in STALLS:
        found = quantities(
            planned,
            mutant,
            runs=runs,
            base=base,
            answer=answer,
            take=take,
            syns=syns,
            pause=PAUSES[name],
        )
        for quantity, values in found.items():
            print(f"  {mutant:8} {quantity:20} {described(values)}")


LENGTHS = {
    "embedded": (0.5, 0.75, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0),
    "kind": (2.0, 3.0, 10.0),
}


def print_rounds(
    profile: str, *, runs: int, base: int, answer: float, syns: Sequence[float]
) -> None:
    """What MS-M02 shows in rounds of other lengths that end as wrk2's do, at their duration."""
    rate, pause = PROFILES[profile].rate, PAUSES[profile]
    take = real_window if profile == "kind" else window
    print(f"\nMS-M02, {rate:g}/s, ten rounds: a window without one failure passes MS-I4")
    for duration in LENGTHS[profile]:
        planned = replace(PROFILES[profile], duration=duration, variant=Variant.DSB)
        shared = {"runs": runs, "base": base, "answer": answer}
        found = quantities(planned, "MS-M02", **shared, take=take, syns=syns, pause=pause)
        none = sum(failures == 0 for failures in found["failures"])
        one = quantities(planned, "MS-M01", **shared, take=take)
        print(
            f"  {duration:5.2f} s: window {ROUNDS * (duration + pause):5.1f} s; "
            f"{none} of {runs} without a failure, least {min(found['failures']):.0f}"
        )
        for quantity in ("error_rate_percent", "retained_percent", "failures", "requests"):
            print(f"           M02 {quantity:20} {described(found[quantity])}")
        print(f"           M01 error_rate_percent   {described(one['error_rate_percent'])}")


# -- recorded runs, with their own seeds ------------------------------------------------------


def print_evidence(directory: Path, *, answer: float, syns: Sequence[float]) -> int:
    """MS-M02 of an evidence directory: what was counted, and what its own draws simulate."""
    shown = 0
    for file in sorted(directory.rglob("record.json")):
        record = json.loads(file.read_bytes())
        profile = record["profile"]
        if (record["mutant"], record["outcome"]) != ("MS-M02", "COMPLETE"):
            continue
        if profile not in PROFILES:
            continue
        shown += 1
        loads = {
            state: json.loads((file.parent / "states" / f"{state}.json").read_bytes())["workload"]
            for state in ("healthy", "faulted")
        }
        seeds = {state: load["facts"]["seed"] for state, load in loads.items()}
        healthy = window(PROFILES[profile], seeds["healthy"], None, answer)
        seen = limited_window(
            PROFILES[profile],
            seeds["faulted"],
            answer=answer,
            real=False,
            syns=syns,
            pause=PAUSES[profile],
        )
        counted = [
            Counts(requests=load["requests"], failures=load["failures"])
            for load in (loads["faulted"], loads["healthy"])
        ]
        for what, (faulted, well) in {"counted": counted, "simulated": (seen, healthy)}.items():
            print(
                f"  {record['run']} {profile:8} {what:9} {faulted.requests:5} requests, "
                f"{faulted.failures:4} failures, error rate "
                f"{100 * faulted.failures / faulted.requests:5.2f} %, retained "
                f"{100 * faulted.successes / well.successes:5.2f} %"
            )
    return shown


# -- why the published application retained 9 % ----------------------------------------------

PUBLISHED = {  # rounds begun after the mutant: requests, non-2xx; MS-M02
    "r01": (
        (61, 8), (84, 8), (107, 9), (72, 8), (80, 6), (78, 7), (152, 8), (76, 6), (55, 6),
    ),
    "r02": (
        (61, 7), (132, 10), (108, 7), (70, 8), (121, 9), (83, 6), (84, 7), (105, 6), (113, 7),
    ),
    "r03": (
        (140, 9), (142, 8), (172, 7), (112, 8), (117, 9), (146, 8), (120, 8), (68, 8), (91, 10),
    ),
}  # fmt: skip
"""Retained after the mutation: 7.6 %, 8.8 % and 11.2 %."""


def together(
    planned: Plan, seed: int, *, stall: tuple[float, float], answer: float, shared: bool
) -> Counts:
    """One round of three connections. A stall lasts from `stall[0]` to `stall[1]` seconds, drawn
    evenly. `shared`: only one stall at a time, others queue for it."""
    gaps, draws = c_gaps(planned), Draws(planned, seed, 1)
    lengths = stream(seed, "stalls")
    paces = [Drawn(0.0, iter(gaps[lane])) for lane in range(planned.connections)]
    kinds = [draws.kinds(lane) for lane in range(planned.connections)]
    free = [0.0] * planned.connections
    gate = 0.0  # until when somebody else connects
    requests = failures = 0
    while True:
        # The connection that can begin its next request first goes next.
        lane = min(range(len(paces)), key=lambda place: max(free[place], paces[place].due))
        begin = max(free[lane], paces[lane].due)
        if begin >= planned.duration:
            return Counts(requests=requests, failures=failures)
        broken = next(kinds[lane]) == BROKEN
        paces[lane].sent()
        if broken:
            wait = max(begin, gate) if shared else begin
            free[lane] = wait + stall[0] + lengths.random() * (stall[1] - stall[0])
            gate = free[lane] if shared else gate
        else:
            free[lane] = begin + answer
        if free[lane] < planned.duration:
            requests += 1
            failures += broken


def print_published(*, runs: int, base: int, answer: float) -> None:
    """Hypotheses for the published 9 %, each held against the counts of each round."""
    planned = PROFILES["kind"]
    rounds = [one for run in PUBLISHED.values() for one in run]
    kept = [100 * (requests - bad) / 1024 for requests, bad in rounds]
    print(f"\npublished, {len(rounds)} rounds of three runs, against 1024 a round when healthy")
    print(f"  retained per round    {described(kept)}")
    print(f"  failures per round    {described([bad for _, bad in rounds])}")
    total = sum(requests for requests, _ in rounds)
    print(f"  error rate            {100 * sum(bad for _, bad in rounds) / total:.2f} %")
    hypotheses: list[tuple[str, tuple[float, float], bool]] = [
        ("one connect of 1.0 s for each compose, as the demo", (1.0, 1.0), False),
        ("2.0 s for each compose", (2.0, 2.0), False),
        ("3.0 s for each compose (three connects in a row, or one of 1 + 2 s)", (3.0, 3.0), False),
        ("4.0 s for each compose", (4.0, 4.0), False),
        ("2.5 s to 4.5 s for each compose", (2.5, 4.5), False),
        ("1.0 s, and all connections' composes connect one after another", (1.0, 1.0), True),
        ("the same with 0.9 s to 1.5 s", (0.9, 1.5), True),
    ]
    for name, stall, shared in hypotheses:
        found = [
            together(
                planned,
                stream(base, "published", run).getrandbits(53),
                stall=stall,
                answer=answer,
                shared=shared,
            )
            for run in range(runs)
        ]
        requests = sum(one.requests for one in found)
        print(f"\n  {name}")
        print(f"    retained per round  {described([100 * one.successes / 1024 for one in found])}")
        print(f"    failures per round  {described([one.failures for one in found])}")
        print(f"    error rate          {100 * sum(o.failures for o in found) / requests:.2f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answer", type=float, default=0.003, help="seconds (default: 0.003)")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all")
    parser.add_argument("--duration", type=float, help="seconds of one embedded round")
    parser.add_argument("--rate", type=float, help="requests a second, embedded")
    parser.add_argument("--rounds-of", choices=[*LENGTHS])
    parser.add_argument("--evidence", type=Path, help="of sessions on the embedded cluster")
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--unlimited", action="store_true", help="a node that always tells")
    parser.add_argument("--syn", choices=SYNS, default="linear")
    options = parser.parse_args()
    shared = {"runs": options.runs, "base": options.seed, "answer": options.answer}
    if options.rate:
        PROFILES["embedded"] = replace(PROFILES["embedded"], rate=options.rate)
    syns = () if options.unlimited else SYNS[options.syn]
    if options.rounds_of:
        print_rounds(options.rounds_of, **shared, syns=syns)
        return
    if options.evidence:
        if not print_evidence(options.evidence, answer=options.answer, syns=SYNS[options.syn]):
            parser.error(f"--evidence: found no complete run of MS-M02 in {options.evidence}")
        return
    if options.published:
        print_published(**shared)
        return
    profiles = dict(PROFILES)
    if options.duration:
        profiles["embedded"] = replace(profiles["embedded"], duration=options.duration)
    for name, planned in profiles.items():
        if options.profile in (name, "all"):
            print_profile(name, planned, **shared, syns=syns)


if __name__ == "__main__":
    main()
