"""Taking a workload window: a load Job in the namespace, its log, and what it adds up to.

One Job per window, so every round begins after the window was asked for; where the log's times say
otherwise, two clocks disagree. The log's bytes are kept before they are read, and the Job's pod is
verified gone before the window is handed out: a grader that sweeps pods must never meet it.

A log that ends early says nothing about the application: it is followed over as many connections
as that takes. Rounds that are missing then, or history that was cut in it, make the window a
failure of the infrastructure, never one with fewer rounds. Only a load that ended in its first
round because there was no endpoint is a window with one.

A load that was not delivered says nothing either: a window in which the generator was late, or in
which a control achieved too little of what was asked, is taken again, and then ends the attempt.
Its percentages are never handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.logstream import LogRead, read_log
from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.cluster.waiting import (
    Objects,
    WaitTimeoutError,
    object_gone,
    pods_gone,
    wait_for,
)
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.observe.podclock import PodClock
from pytest_sremut.engine.observe.stability import listed
from pytest_sremut.engine.own_pods import ROLE_LABEL, image_of
from pytest_sremut.engine.state import Role
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.evidence.redaction import redact_bytes
from pytest_sremut.study.verdict import Outcome, State
from pytest_sremut.workload.delivery import Asked, Judgement, judge
from pytest_sremut.workload.draws import window_seed
from pytest_sremut.workload.job import load_job
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.window import Window, delivery_facts, window

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext
    from pytest_sremut.evidence.rawref import RawRef

__all__ = ["TakenWindow", "take_window"]

_STARTUP: Final = 30.0  # seconds from the Job to its running pod, image already on the node
_SLACK: Final = 10.0
_TAKES: Final = 3  # of a window whose load was not delivered
_NO_ENDPOINT: Final = frozenset(
    {
        RoundOutcome.ENDPOINT_REFUSED,
        RoundOutcome.ENDPOINT_UNREACHABLE,
        RoundOutcome.DNS_FAILED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenWindow:
    """A window, the raw log it was read from, and how that was read (JSON-ready)."""

    window: Window
    raw: RawRef
    facts: Mapping[str, Any] = field(default_factory=dict)


def take_window(
    ctx: RunContext, name: str, owned: Owned, *, rounds: int, least: int | None = None
) -> TakenWindow:
    """Drive `rounds` rounds of the protocol's workload and read them, until the load was delivered.

    Args:
        ctx: The run.
        name: Of the window, for the Job and its log: the state and what is peculiar to it; unique
            within the attempt. In every state but the faulted one it is a control window.
        owned: Gets the Job as soon as it exists, and again when it is gone.
        rounds: How many complete rounds make the window complete.
        least: Requests that are enough in a control window; 90 % of the asked ones where left out.

    Raises:
        RunStoppedError: The load pod did not start or end, or its log is not whole
            (`INFRASTRUCTURE_FAILURE`); a round seems to have begun before it was asked for, or the
            load was not delivered in three takes or three times its time
            (`HARNESS_TIMING_FAILURE`).
    """
    control = not name.startswith(State.FAULTED.value)
    workload = ctx.protocol.workload
    once = _STARTUP + rounds * (workload.duration + workload.pause)
    deadline = ctx.clock.monotonic() + _TAKES * once
    earlier: list[dict[str, Any]] = []
    for take in range(_TAKES):
        called = f"{name}-again{take}" if take else name
        taken, judged = _take_once(ctx, called, owned, rounds=rounds, control=control, least=least)
        if judged.delivered:
            facts = {**taken.facts, "earlier": earlier}
            return TakenWindow(window=taken.window, raw=taken.raw, facts=facts)
        ctx.tell(f"workload window {called}: not delivered: {judged.reason}")
        earlier.append({**taken.facts, "raw": taken.raw.as_json()})
        if ctx.clock.monotonic() >= deadline:
            break
    raise RunStoppedError(
        Outcome.HARNESS_TIMING_FAILURE,
        f"workload window {name}: the load was not delivered, taken {len(earlier)} times; "
        f"the last: {judged.reason}",
    )


def _take_once(
    ctx: RunContext, name: str, owned: Owned, *, rounds: int, control: bool, least: int | None
) -> tuple[TakenWindow, Judgement]:
    ctx.tell(f"workload window {name}: {rounds} rounds")
    workload = ctx.protocol.workload
    asked = Asked(
        rate=workload.rate,
        duration=workload.duration,
        connections=workload.connections,
        drain=workload.drain,
    )
    seed = window_seed(
        run=ctx.run.id, state=name.partition("-")[0], window=name, attempt=ctx.attempt.number
    )
    boundary, begun = ctx.clock.now(), ctx.clock.monotonic()
    body = load_job(
        name=f"sremut-load-{name}",
        namespace=ctx.namespace,
        workload=workload,
        rounds=rounds,
        seed=seed,
        image=image_of(ctx.protocol, "load"),
        labels={ROLE_LABEL: "load", "sremut.io/window": name},
    )
    created = ctx.guard.create(
        OperationKind.CREATE_OWN_POD,
        [body],
        note=lambda seen: owned.made(Role.TEMPORARY, captured(seen.body)),
    )
    job = captured(created[0].body)
    try:
        longest = rounds * (workload.duration + workload.pause + workload.timeout)
        pod = _running_pod(ctx, name)
        clock = PodClock(boundary)
        read = _whole_log(ctx, pod, clock, rounds=rounds, timeout=longest + _SLACK)
    except WaitTimeoutError as error:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE, f"workload window {name}: {error}"
        ) from error
    raw = ctx.attempt.raw(f"workload-{name}.log", redact_bytes(read.data))
    _discard(ctx, job, pod)
    owned.gone(Role.TEMPORARY, job)
    seen = window(parse_log(read.data, asked=asked).rounds, after=boundary, at_least=rounds)
    _require_whole(name, seen, rounds, read, clock)
    judged = judge(delivery_facts(seen, asked), control=control, least=least)
    spent = ctx.clock.monotonic() - begun
    ctx.timings.waited(f"window-{name}", min(spent, _protocol_seconds(seen, ctx)))
    facts = {
        "connections": read.connections,
        "repeated": read.repeated,
        "noise": list(read.noise),
        "clock": clock.record(),
        "seed": seed,
        "generator": seen.generator,
        "timeouts_known": seen.timeouts_known,
        "asked": asked.record(rounds=rounds),
        "delivery": None if seen.delivery is None else seen.delivery.record(),
        "judged": judged.record(),
    }
    return TakenWindow(window=seen, raw=raw, facts=facts), judged


def _require_whole(name: str, seen: Window, rounds: int, read: LogRead, clock: PodClock) -> None:
    """Every round that was asked for is in the log, whole, and began after it was."""
    told = f"workload window {name}"
    if read.gaps:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"{told}: the log of the load pod was cut (rotated while it was read?): lines are "
            f"missing {'; '.join(read.gaps)}",
        )
    found = len(seen.rounds) + seen.before
    numbers = [item.number for item in seen.rounds]
    if seen.before:
        # Before the missing ones: a round at another time is a round that was lost.
        raise RunStoppedError(
            Outcome.HARNESS_TIMING_FAILURE,
            f"{told}: {seen.before} rounds are dated before they were asked for: the clocks of "
            f"this machine and of the node disagree, or one was set back ({clock})",
        )
    if _never_began(seen):
        return
    if numbers != list(range(1, rounds + 1)) or seen.unfinished:
        missing = sorted({*range(1, rounds + 1)} - {*numbers})
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"{told}: the log of the load pod holds {found} of {rounds} rounds, "
            f"{seen.unfinished} of them unfinished; missing: {', '.join(map(str, missing))}",
        )


def _never_began(seen: Window) -> bool:
    """Whether the load ended in its first round, as it does when there is no endpoint at all."""
    outcomes = [(item.number, item.outcome) for item in seen.rounds]
    return len(outcomes) == 1 and outcomes[0][0] == 1 and outcomes[0][1] in _NO_ENDPOINT


def _running_pod(ctx: RunContext, name: str) -> Captured:
    """The load pod, once its container has begun."""
    labels = f"sremut.io/window={name}"

    def begun(pods: Objects) -> str:
        phases = [_phase(p) for p in pods]
        if any(phase in {"Running", "Succeeded", "Failed"} for phase in phases):
            return ""
        return f"the load pod is {phases[0] if phases else 'not there'}"

    with ctx.timings.phase("cluster"):
        wait_for(ctx.api, "Pod", ctx.namespace, begun, timeout=_STARTUP, labels=labels)
    pods = listed(ctx.api.list("Pod", ctx.namespace, labels=labels))
    metadata = pods[0]["metadata"]
    ref = ObjectRef(kind="Pod", namespace=ctx.namespace, name=metadata["name"])
    return Captured(ref=ref, uid=metadata["uid"])


def _whole_log(
    ctx: RunContext, pod: Captured, clock: PodClock, *, rounds: int, timeout: float
) -> LogRead:
    """The log until it holds every round or the load pod has ended."""

    def enough(data: bytes) -> bool:
        whole = [r for r in parse_log(data).rounds if r.outcome is not RoundOutcome.TORN]
        return len(whole) >= rounds

    def on_line(stamp: str) -> None:
        clock.see(stamp, ctx.clock.now())

    return read_log(ctx.api, pod.ref, enough=enough, timeout=timeout, on_line=on_line)


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _discard(ctx: RunContext, job: Captured, pod: Captured) -> None:
    """Delete the Job with its pod, and wait until both are gone."""
    ctx.guard.delete(OperationKind.DELETE_OWN_POD, [job], propagation="Background")
    timeout = ctx.protocol.barrier_timeout
    try:
        with ctx.timings.phase("cluster"):
            object_gone(ctx.api, job.ref, job.uid, timeout=timeout)
            wait_for(ctx.api, "Pod", ctx.namespace, pods_gone([pod.uid]), timeout=timeout)
    except WaitTimeoutError as error:
        raise RunStoppedError(Outcome.HARNESS_TIMING_FAILURE, f"load pod: {error}") from error


def _protocol_seconds(seen: Window, ctx: RunContext) -> float:
    """How long the rounds themselves took: the protocol's own waiting."""
    spans = [
        (item.end - item.begin).total_seconds()
        for item in seen.rounds
        if item.begin is not None and item.end is not None
    ]
    return sum(spans) + ctx.protocol.workload.pause * max(0, len(spans) - 1)
