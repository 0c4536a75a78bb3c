"""Which of a dead run's objects are there now: the run's state, made anew from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import Absent, Failed, Present
from pytest_sremut.engine.faults.benchmark import as_applied
from pytest_sremut.engine.faults.writes import target_ref
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.reconciliation import made_by
from pytest_sremut.engine.recovery.rebuild import Creation, Journaled
from pytest_sremut.engine.recovery.stops import BlockedError
from pytest_sremut.engine.state import RunState
from pytest_sremut.engine.steps.capture import CapturedTarget, restorable
from pytest_sremut.engine.steps.deployer import there as deployed_there
from pytest_sremut.engine.steps.restore import abandoned_probes
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.ground.formats.canonical import sha256

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_sremut.engine.state import RunContext

__all__ = ["captured_body", "gather", "settle_target"]

_APPLICATION = frozenset({OperationKind.DEPLOY_APPLICATION, OperationKind.RESTORE_TARGET})
_SHOWN = 5
_OURS = _APPLICATION | {OperationKind.CREATE_MUTANT, OperationKind.CREATE_OWN_POD}


def captured_body(target: CapturedTarget, directory: Path, aside: bytes) -> Mapping[str, Any]:
    """The whole captured target: from the evidence, or, where that is redacted, as kept aside.

    Raises:
        BlockedError: Neither is what was captured.
    """
    path = directory / target.file.path
    problem = target.file.problem(directory)
    kept: Mapping[str, Any] = {}
    if problem is None:
        kept = json.loads(path.read_bytes())
        if sha256(restorable(kept)) == target.body:
            return kept
        problem = f"{path} is redacted"
    if aside and sha256(aside) == target.body:
        body: Mapping[str, Any] = json.loads(aside)
        return body
    raise BlockedError(
        f"the captured body of {target.object.ref} is not whole: {problem}, and no whole copy was "
        "kept aside",
        look=(f"captured body: {path}", f"SHA-256 of the whole body: {target.body}"),
    )


def gather(ctx: RunContext, journaled: Journaled) -> RunState:
    """What this run created and what of it is there, by UID.

    Raises:
        BlockedError: A benchmark was interrupted while it deployed.
    """
    there: dict[str, Mapping[str, Any]] = {}
    creations = [item for item in journaled.creations if item.operation.kind in _OURS]
    for kind in dict.fromkeys(item.call.ref.kind for item in creations):
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            raise ClusterUnavailableError(
                str(listing), status=listing.status, reason=listing.reason
            )
        there |= {item["metadata"]["uid"]: {"kind": kind, **item} for item in listing.items}
    found = [
        (creation.operation.kind, captured(body))
        for creation in creations
        for body in _mine(creation, there)
    ]
    application = tuple(item for kind, item in found if kind in _APPLICATION)
    application += _deployed(ctx, journaled, application)
    temporary = tuple(item for kind, item in found if kind is OperationKind.CREATE_OWN_POD)
    if application or journaled.operations:
        temporary += abandoned_probes(ctx, temporary)
    return RunState(
        application=application,
        mutants=tuple(item for kind, item in found if kind is OperationKind.CREATE_MUTANT),
        temporary=temporary,
    )


def _deployed(
    ctx: RunContext, journaled: Journaled, application: tuple[Captured, ...]
) -> tuple[Captured, ...]:
    """What a benchmark deployed, by the UIDs that were noted when it had, less the `application`.

    Raises:
        BlockedError: It was interrupted, and the namespace is not empty: what it made cannot be
            told from what others made.
    """
    known = {item.uid for item in application}
    found: list[Captured] = []
    for operation in journaled.operations:
        if operation.kind is not OperationKind.BENCHMARK_DEPLOY:
            continue
        there = {item.uid: item for item in deployed_there(ctx)}
        effects = journaled.effects.get(operation.id, ())
        # A receipt that was written by looking names the target, and nothing else.
        if effects and not any("conclusion" in effect for effect in effects):
            recorded = {str(effect.get("uid", "")) for effect in effects}
            found += [there[uid] for uid in sorted(recorded & there.keys() - known)]
            known |= recorded
            continue
        # Of these the preflight had found none.
        unknown = [
            item
            for item in there.values()
            if item.ref.kind in {"Deployment", "Service"} and item.uid not in known
        ]
        if unknown:
            raise BlockedError(
                f"the benchmark was interrupted while it deployed {ctx.study.application}: what it "
                "made cannot be told from what others made",
                look=(
                    *(f"object: {item.ref}, UID {item.uid}" for item in unknown[:_SHOWN]),
                    f"{len(unknown)} objects in namespace {ctx.namespace}: take away what is the "
                    "benchmark's, by its own means, and recover again",
                ),
            )
    return tuple(found)


def _mine(
    creation: Creation, there: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The object that a creation left: by the UID that was seen, else by its field manager."""
    if creation.uid:
        if creation.uid in there:
            yield there[creation.uid]
        return
    ref = creation.call.ref
    for body in there.values():
        same = body["kind"] == ref.kind and body["metadata"]["name"] == ref.name
        if same and made_by(body, creation.operation.manager):
            yield body


def settle_target(
    ctx: RunContext, journaled: Journaled, state: RunState, directory: Path, aside: bytes
) -> RunState:
    """Say what the target is: what is there, where it is ours; else the captured body.

    Args:
        ctx: The recovery's context.
        journaled: What the journal says.
        state: What `gather` found.
        directory: Of the attempt.
        aside: The whole captured body, where the dead process kept it aside; else empty.

    Returns:
        `state` with the target and the baseline.

    Raises:
        BlockedError: What has its name is neither the captured object nor ours.
    """
    target = journaled.target
    if target is None:
        if journaled.mutated:
            raise BlockedError("the journal says that the fault was injected, and not what into")
        return state
    state = replace(state, baseline=dict(target.baseline))
    ref = target_ref(ctx)
    if ref != target.object.ref:
        raise BlockedError(f"the study's target is {ref}, what was captured {target.object.ref}")
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(str(found), status=found.status, reason=found.reason)
    if not journaled.mutated:  # nothing is put back, so the body is not asked for
        theirs = _put_back_by_benchmark(journaled)
        if isinstance(found, Present) and found.body["metadata"]["uid"] in theirs:
            return _with_target(state, found.body)
        return state
    body = captured_body(target, directory, aside)
    whole = {**body, "metadata": {**body["metadata"], "uid": target.object.uid}}
    mutants = {item.uid for item in state.mutants}
    if isinstance(found, Absent) or found.body["metadata"]["uid"] in mutants:
        return replace(state, target=whole)
    if _is_ours(journaled, state, target, found, whole):
        return _with_target(state, found.body)
    raise BlockedError(
        f"{ref} is neither the captured object nor the mutant: an unexpected object is never "
        "overwritten",
        look=(
            f"object: {ref}",
            f"UID expected: {target.object.uid} (captured), "
            + (", ".join(sorted(mutants)) or "none")
            + " (mutant)",
            f"UID found: {found.body['metadata']['uid']}",
            f"captured body: {directory / target.file.path}",
        ),
    )


def _with_target(state: RunState, body: Mapping[str, Any]) -> RunState:
    """The state with this object as the target, and as a part of the application."""
    target = captured(body)
    known = any(item.uid == target.uid for item in state.application)
    more = () if known else (target,)
    return replace(state, target=body, application=(*state.application, *more))


def _put_back_by_benchmark(state: Journaled) -> set[str]:
    """UIDs of targets that a benchmark's own recovery made, as receipts saw them."""
    return {
        str(effect.get("uid", ""))
        for operation in state.operations
        if operation.kind is OperationKind.BENCHMARK_RECOVER
        for effect in state.effects.get(operation.id, ())
    }


def _is_ours(
    journaled: Journaled,
    state: RunState,
    target: CapturedTarget,
    found: Present,
    whole: Mapping[str, Any],
) -> bool:
    """The captured object itself, one that we put back, or one that a benchmark put back."""
    uid = found.body["metadata"]["uid"]
    if uid == target.object.uid or any(item.uid == uid for item in state.application):
        return True
    recovered = any(item.kind is OperationKind.BENCHMARK_RECOVER for item in journaled.operations)
    return recovered and as_applied(found.body) == as_applied(whole)
