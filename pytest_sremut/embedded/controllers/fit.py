"""Whether a pod fits on a node, and why not.

Rules kept here:

* pure; checks run in the order of the real scheduler and the first that fails names the reason;
* what no eviction could help (labels, taints, more than the node has) is kept apart from what it
  could (resources and ports that others use);
* checked are cordons, taints, node selectors and required node affinity, host ports and resources;
  affinity between pods and spreading are not: here is one node, as a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pytest_sremut.embedded.controllers.objects import labels_of
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.quantity import parse
from pytest_sremut.embedded.meta.selectors import Requirement

__all__ = ["Amounts", "Misfit", "host_ports", "misfit", "requests_of"]

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
_OPERATORS = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}

Amounts = dict[str, Fraction]
"""Amounts by resource; ``pods`` is a resource, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a node will not do.

    Attributes:
        reasons: as the scheduler words them.
        helpless: whether evicting other pods could not help either.
    """

    reasons: tuple[str, ...]
    helpless: bool = True


def requests_of(pod: JsonObject) -> Amounts:
    """What a pod asks for: its containers together, or one init container if that is more."""
    spec = pod["spec"]
    total: Amounts = {"pods": Fraction(1)}
    for container in spec.get("containers") or ():
        for resource, amount in _requests(container):
            total[resource] = total.get(resource, Fraction(0)) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _requests(container):
            total[resource] = max(total.get(resource, Fraction(0)), amount)
    for resource, text in (spec.get("overhead") or {}).items():
        total[resource] = total.get(resource, Fraction(0)) + parse(str(text))
    return total


def _requests(container: JsonObject) -> Iterator[tuple[str, Fraction]]:
    for resource, text in ((container.get("resources") or {}).get("requests") or {}).items():
        yield resource, parse(str(text))


def host_ports(pod: JsonObject) -> set[tuple[str, int]]:
    """Protocol and number of each port that the pod takes on its node."""
    return {
        (port.get("protocol", "TCP"), int(port["hostPort"]))
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def misfit(
    pod: JsonObject, node: JsonObject, used: Mapping[str, Fraction], taken: set[tuple[str, int]]
) -> Misfit | None:
    """Why `pod` cannot run on `node`, or ``None``.

    Args:
        used: what the node's pods ask for, summed.
        taken: host ports that they use.
    """
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable") and not _tolerated(
        {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}, tolerations
    ):
        return Misfit(reasons=("node(s) were unschedulable",))
    for taint in node["spec"].get("taints") or ():
        if taint.get("effect") in BLOCKING_EFFECTS and not _tolerated(taint, tolerations):
            return Misfit(reasons=("node(s) had untolerated taint(s)",))
    if not _selected(spec, node):
        return Misfit(reasons=("node(s) didn't match Pod's node affinity/selector",))
    if host_ports(pod) & taken:
        reason = "node(s) didn't have free ports for the requested pod ports"
        return Misfit(reasons=(reason,), helpless=False)
    return _overcommitted(pod, node, used)


def _overcommitted(
    pod: JsonObject, node: JsonObject, used: Mapping[str, Fraction]
) -> Misfit | None:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    reasons, helpless = [], False
    for resource, amount in requests_of(pod).items():
        if not amount:
            continue
        capacity = parse(str(allocatable.get(resource, "0")))
        if amount + used.get(resource, 0) > capacity:
            reasons.append("Too many pods" if resource == "pods" else f"Insufficient {resource}")
            helpless = helpless or amount > capacity
    return Misfit(reasons=tuple(reasons), helpless=helpless) if reasons else None


def _tolerated(taint: JsonObject, tolerations: Iterable[JsonObject]) -> bool:
    for item in tolerations:
        if item.get("effect") and item["effect"] != taint.get("effect"):
            continue
        exists = item.get("operator", "Equal") == "Exists"
        if not item.get("key"):
            if exists:
                return True
        elif item["key"] == taint.get("key") and (
            exists or item.get("value", "") == taint.get("value", "")
        ):
            return True
    return False


def _selected(spec: JsonObject, node: JsonObject) -> bool:
    labels = labels_of(node)
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        _term(term.get("matchExpressions"), labels) and _term(term.get("matchFields"), fields)
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _term(expressions: Iterable[JsonObject] | None, values: Mapping[str, str]) -> bool:
    for item in expressions or ():
        operator = _OPERATORS.get(item.get("operator", ""))
        if operator is None:
            return False
        wanted = tuple(item.get("values") or ())
        if not Requirement(item.get("key", ""), operator, wanted).matches(values):
            return False
    return True
