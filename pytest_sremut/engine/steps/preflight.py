"""What must hold before a run touches anything.

The checks only read. One failed check stops the run; the reason names every failed check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_sremut.cluster.node_images import places_of
from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present
from pytest_sremut.cluster.rbac import lacking
from pytest_sremut.engine.own_pods import OWNER_LABEL, image_of
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["PreflightCheck", "as_facts", "preflight"]

_SELF_TEST_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightCheck:
    """One check: what was looked at, whether it holds, what was seen.

    One that could not be made stops nothing, and is never recorded as if it had passed.
    """

    name: str
    holds: bool
    observed: str
    outcome: Outcome = Outcome.INFRASTRUCTURE_FAILURE  # what its failure means
    made: bool = True


def preflight(ctx: RunContext, more: Iterable[PreflightCheck] = ()) -> list[PreflightCheck]:
    """Run every check, and those of others. Raises RunStoppedError naming each that fails."""
    ctx.tell("preflight")
    found = ctx.api.get(ObjectRef(kind="Namespace", namespace="", name=ctx.namespace))
    checks = [
        *more,
        *_cluster(ctx),
        *_images(ctx),
        *_rights(ctx, found),
        *_namespace(ctx, found),
    ]
    failed = [check for check in checks if not check.holds]
    if failed:
        told = "; ".join(f"{check.name}: {check.observed}" for check in failed)
        outcomes = {check.outcome for check in failed}
        # A violated protocol outweighs what might pass by itself.
        worst = Outcome.PROTOCOL_VIOLATION in outcomes
        raise RunStoppedError(
            Outcome.PROTOCOL_VIOLATION if worst else Outcome.INFRASTRUCTURE_FAILURE,
            f"preflight: {told}",
        )
    return checks


def as_facts(checks: Iterable[PreflightCheck]) -> dict[str, Any]:
    """What a record keeps of them: what each saw, and which could not be made."""
    kept = list(checks)
    return {
        "preflight": {check.name: check.observed for check in kept},
        "preflight_not_made": [check.name for check in kept if not check.made],
    }


def _cluster(ctx: RunContext) -> Iterator[PreflightCheck]:
    version = ctx.api.version()
    yield PreflightCheck(
        name="api-answers",
        holds=not isinstance(version, Failed),
        observed=(str(version) if isinstance(version, Failed) else str(version.get("gitVersion"))),
    )
    if isinstance(version, Failed):
        return
    deviations = list(ctx.cluster.fit_for_verdicts(timeout=_SELF_TEST_TIMEOUT))
    # Only a cluster of ours has a self-test; of another one at most its nodes are looked at.
    tested = ctx.cluster.facts().kind == "embedded"
    yield PreflightCheck(
        name="cluster-self-test",
        holds=not deviations,
        observed="; ".join(deviations)
        or ("no deviation" if tested else "not made: this cluster has no self-test"),
        made=tested or bool(deviations),
    )
    nodes = ctx.api.list("Node", "")
    if isinstance(nodes, Failed) and nodes.status == 403:
        # A cluster-wide read that a restricted account rightly lacks; the pods tell the rest.
        yield PreflightCheck(
            name="nodes-ready",
            holds=True,
            observed=f"not made: nodes may not be read: {nodes.reason}",
            made=False,
        )
        return
    if isinstance(nodes, Failed):
        yield PreflightCheck(name="nodes-ready", holds=False, observed=str(nodes))
        return
    ready = [
        node["metadata"]["name"]
        for node in nodes.items
        if any(
            c.get("type") == "Ready" and c.get("status") == "True"
            for c in (node.get("status") or {}).get("conditions") or ()
        )
    ]
    yield PreflightCheck(
        name="nodes-ready",
        holds=bool(ready) and len(ready) == len(nodes.items),
        observed=f"{len(ready)} of {len(nodes.items)} nodes are ready",
    )


def _images(ctx: RunContext) -> Iterator[PreflightCheck]:
    """On a cluster that is not ours: are the images there that no registry holds."""
    if ctx.cluster.facts().kind != "context":
        return
    # One that a profile names comes from where it says; ours come from nowhere.
    demo = ctx.study.application.startswith("demo:")
    roles: tuple[Literal["demo", "load", "probe"], ...] = ("demo", "load") if demo else ("load",)
    names = [image_of(ctx.protocol, role) for role in roles if role not in ctx.protocol.images]
    for place in places_of(ctx.api, names):
        told = f"not on {', '.join(place.lacks)}; `sremut cluster images` makes it"
        untold = f"not made: {place.untold}" if place.untold else f"on {', '.join(place.has)}"
        yield PreflightCheck(
            name=f"image {place.name}",
            holds=not place.lacks,
            observed=told if place.lacks else untold,
            made=not place.untold or bool(place.lacks),
        )


def _rights(ctx: RunContext, found: Present | Absent | Failed) -> Iterator[PreflightCheck]:
    """On a cluster that is not ours: everything that the engine will ask for, asked beforehand.

    A right that is missing in the middle of a run would leave the namespace mutated.
    """
    if ctx.cluster.facts().kind != "context":
        return
    holds = bool(ctx.study.deployer) or any(
        body["kind"] == "ConfigMap" for body in ctx.study.manifests
    )
    create = isinstance(found, Absent)
    missing = lacking(ctx.api, ctx.namespace, create=create, configmaps=holds)
    if isinstance(missing, Failed):
        told = f"cannot be asked for: {missing.what}: {missing.reason}: {missing.message}"
        yield PreflightCheck(name="rights", holds=False, observed=told)
        return
    told = (
        f"the user of context {ctx.cluster.context} lacks: {', '.join(missing)}; "
        f"`sremut cluster rbac --namespace {ctx.namespace}{' --configmaps' * holds}` prints the "
        "manifest that grants them"
    )
    yield PreflightCheck(
        name="rights", holds=not missing, observed=told if missing else "all that a run needs"
    )


def _namespace(ctx: RunContext, found: Present | Absent | Failed) -> Iterator[PreflightCheck]:
    match found:
        case Failed():
            yield PreflightCheck(name="namespace", holds=False, observed=str(found))
            return
        case Absent():
            yield PreflightCheck(name="namespace", holds=True, observed="absent: will be created")
            return
        case Present():
            yield _owner(ctx, found.body["metadata"])
    for kind in ("Deployment", "Service", "Job", "Pod"):
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            yield PreflightCheck(name=f"no-stale-{kind}", holds=False, observed=str(listing))
            continue
        names = [item["metadata"]["name"] for item in listing.items]
        yield PreflightCheck(
            name=f"no-stale-{kind}",
            holds=not names,
            observed=f"{len(names)} left over: {', '.join(names[:3])}" if names else "none",
        )
    yield from _config_maps(ctx)


def _config_maps(ctx: RunContext) -> Iterator[PreflightCheck]:
    """Every namespace holds some that are nobody's business: ours may only not be among them."""
    ours = {item["metadata"]["name"] for item in ctx.study.manifests if item["kind"] == "ConfigMap"}
    if not ours:
        return
    listing = ctx.api.list("ConfigMap", ctx.namespace)
    if isinstance(listing, Failed):
        yield PreflightCheck(name="no-stale-ConfigMap", holds=False, observed=str(listing))
        return
    names = [n for item in listing.items if (n := item["metadata"]["name"]) in ours]
    yield PreflightCheck(
        name="no-stale-ConfigMap",
        holds=not names,
        observed=f"{len(names)} of the application's names are taken: {', '.join(names[:3])}"
        if names
        else "none of the application's names is taken",
    )


def _owner(ctx: RunContext, metadata: Mapping[str, Any]) -> PreflightCheck:
    """A namespace is used if we created it, or if somebody who may say so said so."""
    ours = (metadata.get("labels") or {}).get(OWNER_LABEL) == "true"
    allowed = ctx.namespace in ctx.use_namespaces
    terminating = "deletionTimestamp" in metadata
    if terminating:
        told = f"namespace {ctx.namespace} is being deleted"
    elif ours:
        told = "ours"
    elif allowed:
        told = "not ours; named by --sremut-use-namespace"
    else:
        told = (
            f"namespace {ctx.namespace} is taken: it exists without the label {OWNER_LABEL}; "
            f"remove it, name another in the study, or allow it by "
            f"--sremut-use-namespace={ctx.namespace}"
        )
    return PreflightCheck(
        name="namespace", holds=(ours or allowed) and not terminating, observed=told
    )
