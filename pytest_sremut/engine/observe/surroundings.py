"""The cluster around the namespace, before and after a run: what else could have changed a verdict.

Webhooks, DNS, proxy, kinds, classes, namespaces and nodes are not ours, and somebody may change
them while we measure. The record and the summary report a difference. It decides nothing: it says
when, not who, and the readings that it may have changed have their own fingerprints and timeline.
Whoever reads the record judges it.

Compared are allow-listed fields, kept as digests alone: a ConfigMap's data never enters a record.
What changes by itself (heartbeats, status, certificate bundles that rotate) is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Failed, Kind, KubeApi, ObjectRef, Present
from pytest_sremut.engine.observe.fingerprint import Fingerprint, changes, digest

__all__ = ["noted", "surroundings"]

_SYSTEM: Final = "kube-system"
_CONFIG_MAPS: Final = ("coredns", "kube-proxy")

Fields = Callable[[Mapping[str, Any]], Any]


def _pick(source: Any, *names: str) -> dict[str, Any]:
    return {name: source.get(name) for name in names} if isinstance(source, Mapping) else {}


def _listed(source: Any) -> list[Any]:
    return source if isinstance(source, list) else []


def _node(node: Mapping[str, Any]) -> Any:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        "labels": node["metadata"].get("labels"),
        "unschedulable": spec.get("unschedulable"),
        "taints": [_pick(taint, "key", "value", "effect") for taint in _listed(spec.get("taints"))],
        "ready": [
            one.get("status")
            for one in _listed(status.get("conditions"))
            if one.get("type") == "Ready"
        ],
        "kubelet": _pick(status.get("nodeInfo"), "kubeletVersion"),
    }


def _webhooks(configuration: Mapping[str, Any]) -> Any:
    return [
        {
            **_pick(
                hook, "name", "rules", "failurePolicy", "matchPolicy", "namespaceSelector",
                "objectSelector", "matchConditions", "sideEffects", "reinvocationPolicy",
            ),
            "client": _pick(hook.get("clientConfig"), "service", "url"),
        }
        for hook in _listed(configuration.get("webhooks"))
    ]  # fmt: skip


def _definition(definition: Mapping[str, Any]) -> Any:
    spec = definition.get("spec") or {}
    versions = _listed(spec.get("versions"))
    return {
        **_pick(spec, "group", "names", "scope"),
        "versions": [_pick(one, "name", "served", "storage", "schema") for one in versions],
    }


def _workload(workload: Mapping[str, Any]) -> Any:
    return _pick(workload.get("spec"), "replicas", "selector", "template")


def _data(config_map: Mapping[str, Any]) -> Any:
    return config_map.get("data")


_CLUSTER_WIDE: Final[dict[Kind, Fields]] = {
    "CustomResourceDefinition": _definition,
    "MutatingWebhookConfiguration": _webhooks,
    "Namespace": lambda item: item["metadata"].get("labels"),
    "Node": _node,
    "PriorityClass": lambda item: _pick(item, "value", "globalDefault", "preemptionPolicy"),
    "StorageClass": lambda item: _pick(
        item, "provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"
    ),
    "ValidatingWebhookConfiguration": _webhooks,
}
_OF_THE_SYSTEM: Final[dict[Kind, Fields]] = {"DaemonSet": _workload, "Deployment": _workload}
_FIELDS: Final = {**_CLUSTER_WIDE, **_OF_THE_SYSTEM}


def surroundings(api: KubeApi, namespace: str) -> Fingerprint:
    """Everything around `namespace`, now. Reads only; a server that is away is asked once."""
    objects: dict[str, str] = {}
    unread: set[str] = set()
    for kind, found in _read(api, unread):
        metadata = found["metadata"]
        if kind == "Namespace" and metadata["name"] == namespace:
            continue
        fields = _FIELDS.get(kind, _data)
        where = f"{_SYSTEM}/" if kind not in _CLUSTER_WIDE else ""
        name = f"{kind} {where}{metadata['name']} ({metadata.get('uid', '')})"
        objects[name] = digest(fields(found))
    return Fingerprint(objects=objects, unread=tuple(sorted(unread)))


def noted(api: KubeApi, namespace: str, before: Fingerprint | None) -> dict[str, Any]:
    """What became of the surroundings since `before`, for the record; nothing without `before`."""
    if before is None:
        return {}
    after = surroundings(api, namespace)
    return {
        "surroundings": {
            # Nothing that could be read is no state that could have stayed the same.
            "before": before.digest if before.objects else None,
            "after": after.digest if after.objects else None,
            "changes": changes(before, after),
            "unread": sorted({*before.unread, *after.unread}),
        }
    }


def _read(api: KubeApi, unread: set[str]) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    first, *others = (*_CLUSTER_WIDE, *_OF_THE_SYSTEM)
    asked = api.list(first, "")
    if isinstance(asked, Failed) and not asked.status:  # not even an answer
        unread.update((first, *others, "ConfigMap"))
        return
    listings = overlapped(
        [partial(api.list, kind, _SYSTEM if kind in _OF_THE_SYSTEM else "") for kind in others]
    )
    for kind, listing in zip((first, *others), (asked, *listings), strict=True):
        if isinstance(listing, Failed):
            unread.add(kind)
            continue
        for item in listing.items:
            yield kind, item
    refs = [ObjectRef(kind="ConfigMap", namespace=_SYSTEM, name=name) for name in _CONFIG_MAPS]
    for found in overlapped([partial(api.get, ref) for ref in refs]):
        if isinstance(found, Present):
            yield "ConfigMap", found.body
        elif isinstance(found, Failed):
            unread.add("ConfigMap")
