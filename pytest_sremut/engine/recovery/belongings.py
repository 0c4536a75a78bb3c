"""What of a dead run's objects is there now, and the run's context made anew from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import Absent, Failed, Present
from pytest_sremut.engine.faults import deployer
from pytest_sremut.engine.faults import writes as fault
from pytest_sremut.engine.faults.benchmark import as_applied
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.reconciliation import made_by
from pytest_sremut.engine.recovery.rebuild import Creation, RunState
from pytest_sremut.engine.recovery.stops import BlockedError
from pytest_sremut.engine.steps.capture import CapturedTarget, restorable
from pytest_sremut.engine.steps.read import abandoned_probes
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


def gather(ctx: RunContext, state: RunState) -> None:
    """Fill the context with what this run created and what of it is there, by UID."""
    there: dict[str, Mapping[str, Any]] = {}
    creations = [item for item in state.creations if item.operation.kind in _OURS]
    for kind in dict.fromkeys(item.call.ref.kind for item in creations):
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            raise ClusterUnavailableError(
                str(listing), status=listing.status, reason=listing.reason
            )
        there |= {item["metadata"]["uid"]: {"kind": kind, **item} for item in listing.items}
    for creation in creations:
        for body in _mine(creation, there):
            _take(ctx, creation.operation.kind, captured(body))
    _gather_deployed(ctx, state)
    if ctx.application or state.operations:
        known = {item.uid for item in ctx.temporary}
        ctx.temporary += [pod for pod in abandoned_probes(ctx) if pod.uid not in known]


def _gather_deployed(ctx: RunContext, state: RunState) -> None:
    """What a benchmark deployed, by the UIDs that were noted when it had.

    Raises:
        BlockedError: It was interrupted, and the namespace is not empty: what it made cannot be
            told from what others made.
    """
    for operation in state.operations:
        if operation.kind is not OperationKind.BENCHMARK_DEPLOY:
            continue
        there = {item.uid: item for item in deployer.there(ctx)}
        known = {item.uid for item in ctx.application}
        effects = state.effects.get(operation.id, ())
        # A receipt that was written by looking names the target, and nothing else.
        if effects and not any("conclusion" in effect for effect in effects):
            noted = {str(effect.get("uid", "")) for effect in effects}
            ctx.application += [there[uid] for uid in sorted(noted & there.keys() - known)]
            continue
        # Of these the preflight had found none.
        foreign = [
            item
            for item in there.values()
            if item.ref.kind in {"Deployment", "Service"} and item.uid not in known
        ]
        if foreign:
            raise BlockedError(
                f"the benchmark was interrupted while it deployed {ctx.study.application}: what it "
                "made cannot be told from what others made",
                look=(
                    *(f"object: {item.ref}, UID {item.uid}" for item in foreign[:_SHOWN]),
                    f"{len(foreign)} objects in namespace {ctx.namespace}: take away what is the "
                    "benchmark's, by its own means, and recover again",
                ),
            )


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


def _take(ctx: RunContext, kind: OperationKind, item: Captured) -> None:
    if kind in _APPLICATION:
        ctx.application.append(item)
    elif kind is OperationKind.CREATE_MUTANT:
        ctx.mutant_objects.append(item)
    elif kind is OperationKind.CREATE_OWN_POD:
        ctx.temporary.append(item)


def settle_target(ctx: RunContext, state: RunState, directory: Path, aside: bytes) -> None:
    """Say what the target is: what stands there, where it is ours; else the captured body.

    Raises:
        BlockedError: What stands under its name is neither the captured object nor ours.
    """
    target = state.target
    if target is None:
        if state.mutated:
            raise BlockedError("the journal says that the fault was injected, and not what into")
        return
    ctx.baseline = dict(target.baseline)
    ref = fault.target_ref(ctx)
    if ref != target.object.ref:
        raise BlockedError(f"the study's target is {ref}, what was captured {target.object.ref}")
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(str(found), status=found.status, reason=found.reason)
    if not state.mutated:  # nothing is put back, so the body is not asked for
        if isinstance(found, Present) and found.body["metadata"]["uid"] in _put_back_by_them(state):
            ctx.application.append(captured(found.body))
        return
    body = captured_body(target, directory, aside)
    whole = {**body, "metadata": {**body["metadata"], "uid": target.object.uid}}
    mutants = {item.uid for item in ctx.mutant_objects}
    if isinstance(found, Absent) or found.body["metadata"]["uid"] in mutants:
        ctx.target = whole
        return
    if _is_ours(ctx, state, target, found, whole):
        ctx.target = found.body
        if all(item.uid != found.body["metadata"]["uid"] for item in ctx.application):
            ctx.application.append(captured(found.body))
        return
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


def _put_back_by_them(state: RunState) -> set[str]:
    """UIDs of targets that a benchmark's own recovery made, as receipts saw them."""
    return {
        str(effect.get("uid", ""))
        for operation in state.operations
        if operation.kind is OperationKind.BENCHMARK_RECOVER
        for effect in state.effects.get(operation.id, ())
    }


def _is_ours(
    ctx: RunContext,
    state: RunState,
    target: CapturedTarget,
    found: Present,
    whole: Mapping[str, Any],
) -> bool:
    """The captured object itself, one that we put back, or one that a benchmark put back."""
    uid = found.body["metadata"]["uid"]
    if uid == target.object.uid or any(item.uid == uid for item in ctx.application):
        return True
    recovered = any(item.kind is OperationKind.BENCHMARK_RECOVER for item in state.operations)
    return recovered and as_applied(found.body) == as_applied(whole)
