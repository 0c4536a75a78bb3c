"""Whether a mutant is active: structural criteria, read from the cluster, never from an
acknowledgement.

Each criterion is a pure function over one look at the objects. A read that failed makes no
criterion hold: it is not absence, and not presence either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Absent, Failed, Listing, ObjectRef, Present
from pytest_sremut.contract.observations import Backends, EligibleEndpoint, eligible_endpoints
from pytest_sremut.study.mutants import build_body
from pytest_sremut.study.names import Criterion

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["CriterionResult", "Seen", "UnreadableError", "check", "judge", "see"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """One criterion: whether it holds, and in one sentence what was seen."""

    criterion: str
    holds: bool
    observed: str
    unread: bool = False  # a read gave no answer: the criterion was not judged


class UnreadableError(Exception):
    """A read that a criterion needs gave no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look at everything the criteria may ask about."""

    target: ObjectRef
    workload: str
    body: Mapping[str, Any] | None  # what the mutant puts in place; None where it is absent
    written: tuple[Mapping[str, Any], ...]  # further objects, as read back after their creation
    service: Present | Absent | Failed
    endpoints: Present | Absent | Failed
    slices: Listing | Failed
    pods: Listing | Failed
    replica_sets: Listing | Failed
    deployment: Present | Absent | Failed


def see(
    ctx: RunContext, captured: Mapping[str, Any], written: tuple[Mapping[str, Any], ...]
) -> Seen:
    """Look at the cluster once.

    Args:
        ctx: The run.
        captured: The target before the fault.
        written: The mutant's objects as read back after their creation.
    """
    name, namespace = ctx.study.target.name, ctx.namespace
    target = ObjectRef(kind="Service", namespace=namespace, name=name)
    workload = ctx.study.target.workload_name
    label = f"kubernetes.io/service-name={name}"
    reads: list[Callable[[], Any]] = [
        partial(ctx.api.get, target),
        partial(ctx.api.get, ObjectRef(kind="Endpoints", namespace=namespace, name=name)),
        partial(ctx.api.list, "EndpointSlice", namespace, labels=label),
        partial(ctx.api.list, "Pod", namespace),
        partial(ctx.api.list, "ReplicaSet", namespace),
        partial(ctx.api.get, ObjectRef(kind="Deployment", namespace=namespace, name=workload)),
    ]
    service, endpoints, slices, pods, replica_sets, deployment = overlapped(reads)
    return Seen(
        target=target,
        workload=workload,
        body=build_body(ctx.mutant, captured),
        written=written,
        service=service,
        endpoints=endpoints,
        slices=slices,
        pods=pods,
        replica_sets=replica_sets,
        deployment=deployment,
    )


def check(
    ctx: RunContext, captured: Mapping[str, Any], written: tuple[Mapping[str, Any], ...]
) -> list[CriterionResult]:
    """Every criterion of the run's mutant, on one look; arguments as for `see`."""
    seen = see(ctx, captured, written)
    return [judge(Criterion(name), seen) for name in ctx.mutant.activation]


def judge(criterion: Criterion, seen: Seen) -> CriterionResult:
    """One criterion on one look."""
    try:
        holds, observed = _RULES[criterion](seen)
    except UnreadableError as error:
        told = f"cannot be told: {error}"
        return CriterionResult(criterion=criterion.value, holds=False, observed=told, unread=True)
    return CriterionResult(criterion=criterion.value, holds=holds, observed=observed)


# -- reads ------------------------------------------------------------------------------------


def _unreadable(failed: Failed) -> UnreadableError:
    return UnreadableError(str(failed))


def _service(seen: Seen) -> Mapping[str, Any] | None:
    if isinstance(seen.service, Failed):
        raise _unreadable(seen.service)
    return seen.service.body if isinstance(seen.service, Present) else None


def _spec(seen: Seen) -> Mapping[str, Any]:
    service = _service(seen)
    spec = {} if service is None else service.get("spec") or {}
    return spec if isinstance(spec, Mapping) else {}


def _items(listing: Listing | Failed) -> tuple[Mapping[str, Any], ...]:
    if isinstance(listing, Failed):
        raise _unreadable(listing)
    return listing.items


def _eligible(seen: Seen) -> tuple[EligibleEndpoint, ...]:
    return eligible_endpoints(_items(seen.slices))


# -- criteria ---------------------------------------------------------------------------------

Rule = Callable[[Seen], tuple[bool, str]]


def _service_absent(seen: Seen) -> tuple[bool, str]:
    service = _service(seen)
    if service is None:
        return True, f"{seen.target}: NotFound"
    return False, f"{seen.target} exists (uid {service['metadata']['uid']})"


def _selector_exact(seen: Seen) -> tuple[bool, str]:
    if _service(seen) is None:
        return False, f"{seen.target} does not exist"
    wanted = ((seen.body or {}).get("spec") or {}).get("selector")
    live = _spec(seen).get("selector")
    return live == wanted and wanted is not None, f"selector is {live}, the mutant's {wanted}"


def _selector_absent(seen: Seen) -> tuple[bool, str]:
    if _service(seen) is None:
        return False, f"{seen.target} does not exist"
    live = _spec(seen).get("selector")
    return not live, f"selector is {live}"


_PORT_FIELDS: Final = ("name", "protocol", "port", "targetPort")


def _ports_exact(seen: Seen) -> tuple[bool, str]:
    def ports(spec: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(port.get(key) for key in _PORT_FIELDS) for port in spec.get("ports") or ()]

    if _service(seen) is None:
        return False, f"{seen.target} does not exist"
    wanted = ports((seen.body or {}).get("spec") or {})
    live = ports(_spec(seen))
    return live == wanted and bool(wanted), f"ports are {live}, the mutant's {wanted}"


def _no_pod_matches_selector(seen: Seen) -> tuple[bool, str]:
    selector = _spec(seen).get("selector")
    if not selector:
        return False, f"{seen.target} has no selector"
    matching = [
        pod["metadata"]["name"]
        for pod in _items(seen.pods)
        if selector.items() <= (pod["metadata"].get("labels") or {}).items()
    ]
    told = ", ".join(matching[:3])
    return not matching, f"{len(matching)} pods match {selector}" + (f": {told}" if told else "")


def _no_eligible_endpoint(seen: Seen) -> tuple[bool, str]:
    found = _eligible(seen)
    return not found, f"{len(found)} eligible endpoints"


def _owned_endpoint(seen: Seen) -> tuple[bool, str]:
    if isinstance(seen.deployment, Failed):
        raise _unreadable(seen.deployment)
    deployment = seen.deployment.body if isinstance(seen.deployment, Present) else None
    backends = Backends(
        workload=seen.workload,
        deployment=deployment,
        replica_sets=_items(seen.replica_sets),
        pods=_items(seen.pods),
    )
    eligible = _eligible(seen)
    behind = backends.behind(eligible)
    return bool(behind), (
        f"{len(behind)} ready pods of Deployment/{seen.workload} behind {len(eligible)} "
        "eligible endpoints"
    )


def _endpoints_pinned(seen: Seen) -> tuple[bool, str]:
    if isinstance(seen.endpoints, Failed):
        raise _unreadable(seen.endpoints)
    written = [body for body in seen.written if body["kind"] == "Endpoints"]
    if not written:
        return False, "the mutant wrote no Endpoints"
    if isinstance(seen.endpoints, Absent):
        return False, f"Endpoints {seen.target.name} does not exist"
    live, wanted = _pinned(seen.endpoints.body), _pinned(written[0])
    return live == wanted and bool(
        wanted
    ), f"addresses are {sorted(live)}, written {sorted(wanted)}"


def _pinned(body: Mapping[str, Any]) -> set[str]:
    return {
        address["ip"]
        for subset in body.get("subsets") or ()
        for address in subset.get("addresses") or ()
    }


_RULES: Final[Mapping[Criterion, Rule]] = {
    Criterion.SERVICE_ABSENT: _service_absent,
    Criterion.SELECTOR_EXACT: _selector_exact,
    Criterion.SELECTOR_ABSENT: _selector_absent,
    Criterion.PORTS_EXACT: _ports_exact,
    Criterion.NO_POD_MATCHES_SELECTOR: _no_pod_matches_selector,
    Criterion.NO_ELIGIBLE_ENDPOINT: _no_eligible_endpoint,
    Criterion.ELIGIBLE_ENDPOINT_OWNED_BY_TARGET: _owned_endpoint,
    Criterion.ENDPOINTS_PINNED: _endpoints_pinned,
}
"""Total over `Criterion`: a word without a rule would be an activation that nothing checks."""
