"""LimitRanges and ResourceQuotas: what they add to new objects and what they refuse.

Rules kept here:

* limits are read from the namespace's objects at the moment of creation; nothing is remembered;
* usage is counted from what is there, so a quota can never drift from the truth;
* pods that are through (Succeeded, Failed) use nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from pytest_sremut.embedded.meta.errors import forbidden
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.quantity import canonical, parse
from pytest_sremut.embedded.meta.resources import RESOURCES, Resource
from pytest_sremut.embedded.registry.lookup import Lookup

__all__ = ["apply_limit_ranges", "check_quotas", "usage"]

ANNOTATION = "kubernetes.io/limit-ranger"
COUNTED = {
    "configmaps": "configmaps",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "pods": "pods",
    "resourcequotas": "resourcequotas",
    "secrets": "secrets",
    "services": "services",
}


def apply_limit_ranges(registry: Lookup, pod: JsonObject) -> None:
    """Write the defaults of the namespace's LimitRanges into a pod, and check the pod by them.

    Raises:
        ApiStatus: 403, a container claims too little or too much.
    """
    namespace = pod["metadata"]["namespace"]
    notes: list[str] = []
    for limit_range in registry.list("limitranges", namespace):
        for limit in (limit_range.get("spec") or {}).get("limits") or []:
            if limit.get("type") == "Container":
                for container in _containers(pod):
                    notes += _default(container, limit)
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"
    problems = [
        problem
        for limit_range in registry.list("limitranges", namespace)
        for limit in (limit_range.get("spec") or {}).get("limits") or []
        for problem in _problems(pod, limit)
    ]
    if problems:
        listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden("pods", pod["metadata"].get("name", ""), listed)


def _containers(pod: JsonObject) -> Iterator[JsonObject]:
    spec = pod.get("spec") or {}
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or []:
            if isinstance(container, dict):
                yield container


def _default(container: JsonObject, limit: JsonObject) -> list[str]:
    resources = container.setdefault("resources", {})
    notes = []
    for kind, source in (("requests", "defaultRequest"), ("limits", "default")):
        values = resources.get(kind) or {}
        missing = {
            name: quantity
            for name, quantity in (limit.get(source) or {}).items()
            if name not in values
        }
        if missing:
            resources[kind] = {**values, **missing}
            names = ", ".join(sorted(missing))
            notes.append(f"{names} {kind[:-1]} for container {container.get('name', '')}")
    return notes


def _problems(pod: JsonObject, limit: JsonObject) -> list[str]:
    kind = limit.get("type", "")
    if kind == "Container":
        claimed = [container.get("resources") or {} for container in _containers(pod)]
    elif kind == "Pod":
        claimed = [_totals(pod)]
    else:
        return []
    return [problem for claims in claimed for problem in _outside(claims, limit, kind)]


def _outside(claims: JsonObject, limit: JsonObject, kind: str) -> Iterator[str]:
    checks: tuple[tuple[str, str, str, Callable[[Fraction, Fraction], bool]], ...] = (
        ("min", "minimum", "request", lambda found, bound: found < bound),
        ("max", "maximum", "limit", lambda found, bound: found > bound),
    )
    for source, word, claim, breaks in checks:
        for name, bound in sorted((limit.get(source) or {}).items()):
            found = (claims.get(f"{claim}s") or {}).get(name)
            head = f"{word} {name} usage per {kind} is {bound}"
            if found is None:
                yield f"{head}.  No {claim} is specified"
            elif breaks(parse(found), parse(bound)):
                yield f"{head}, but {claim} is {found}"


def _totals(pod: JsonObject) -> JsonObject:
    """Claims of a pod: the sum of its containers."""
    totals: JsonObject = {}
    for kind in ("requests", "limits"):
        sums: dict[str, Fraction] = {}
        for container in (pod.get("spec") or {}).get("containers") or []:
            for name, quantity in ((container.get("resources") or {}).get(kind) or {}).items():
                sums[name] = sums.get(name, Fraction(0)) + parse(quantity)
        totals[kind] = {name: _text(amount) for name, amount in sums.items()}
    return totals


def _text(amount: Fraction) -> str:
    """An amount as a quantity; bytes in binary units where they come out even."""
    if amount.denominator == 1:
        for suffix, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{suffix}"
        return canonical(str(amount.numerator))
    return canonical(f"{amount * 10**9 // 1}n")


def check_quotas(registry: Lookup, table: Resource, value: JsonObject) -> None:
    """Refuse a new object that would break a quota of its namespace.

    Raises:
        ApiStatus: 403.
    """
    metadata = value["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    for quota in registry.list("resourcequotas", namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        asked = {key: amount for key, amount in _usage(table, value).items() if key in hard}
        quota_name = quota["metadata"]["name"]
        if table.key == "pods":
            _check_specified(value, hard, quota_name)
        if not asked:
            continue
        used = _used(registry, table, namespace)
        over = [
            key
            for key in sorted(asked)
            if used.get(key, Fraction(0)) + asked[key] > parse(hard[key])
        ]
        if over:
            raise forbidden(
                table.key,
                name,
                f"exceeded quota: {quota_name}, requested: {_pairs(over, asked)}, "
                f"used: {_pairs(over, used)}, limited: "
                + ",".join(f"{key}={hard[key]}" for key in over),
            )


def usage(registry: Lookup, namespace: str, hard: JsonObject) -> dict[str, str]:
    """What of `hard` is used in a namespace, by the names that quotas know."""
    total: dict[str, Fraction] = {}
    for table in RESOURCES.values():
        if table.namespaced and not table.stored_as and "delete" in table.verbs:
            for key, amount in _used(registry, table, namespace).items():
                total[key] = total.get(key, Fraction(0)) + amount
    return {key: _text(total.get(key, Fraction(0))) for key in hard}


def _pairs(keys: Iterable[str], amounts: dict[str, Fraction]) -> str:
    return ",".join(f"{key}={_text(amounts.get(key, Fraction(0)))}" for key in keys)


def _check_specified(pod: JsonObject, hard: JsonObject, quota: str) -> None:
    """A pod must say how much it claims of what a quota limits."""
    missing: dict[str, list[str]] = {}
    for key in hard:
        kind, _, name = key.partition(".")
        if kind not in ("requests", "limits") and key not in ("cpu", "memory"):
            continue
        claim, resource = (kind, name) if name else ("requests", key)
        if resource not in ("cpu", "memory"):
            continue
        for container in _containers(pod):
            if resource not in ((container.get("resources") or {}).get(claim) or {}):
                missing.setdefault(container.get("name", ""), []).append(key)
    if not missing:
        return
    by_claim: dict[str, list[str]] = {}
    for container_name, keys in missing.items():
        by_claim.setdefault(",".join(sorted(keys)), []).append(container_name)
    told = "; ".join(f"{keys} for: {','.join(names)}" for keys, names in sorted(by_claim.items()))
    raise forbidden(
        "pods", pod["metadata"].get("name", ""), f"failed quota: {quota}: must specify {told}"
    )


def _used(registry: Lookup, table: Resource, namespace: str) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for item in registry.list(table.key, namespace):
        if (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for key, amount in _usage(table, item).items():
            total[key] = total.get(key, Fraction(0)) + amount
    return total


def _claimed(totals: JsonObject) -> dict[str, Fraction]:
    """Claims of a pod by the names that quotas know; requests have two names each."""
    used = {
        f"{kind}.{name}": parse(quantity)
        for kind in ("requests", "limits")
        for name, quantity in totals[kind].items()
    }
    return used | {name: parse(quantity) for name, quantity in totals["requests"].items()}


def _usage(table: Resource, value: JsonObject) -> dict[str, Fraction]:
    """What one object uses, by the names that quotas know."""
    one = Fraction(1)
    used = {f"count/{table.key}": one}
    if table.key in COUNTED:
        used[COUNTED[table.key]] = one
    if table.key == "pods":
        used |= _claimed(_totals(value))
    elif table.key == "services":
        service_type = (value.get("spec") or {}).get("type")
        if service_type == "LoadBalancer":
            used["services.loadbalancers"] = one
        if service_type in ("LoadBalancer", "NodePort"):
            used["services.nodeports"] = Fraction(len(value["spec"].get("ports") or []))
    elif table.key == "persistentvolumeclaims":
        claims = ((value.get("spec") or {}).get("resources") or {}).get("requests") or {}
        if "storage" in claims:
            used["requests.storage"] = parse(claims["storage"])
    return used
