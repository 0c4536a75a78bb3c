"""What the cluster looks like, less what changes by itself: it shows a grader that changes it.

The cluster is only read. A kind that cannot be read is reported and decides nothing.

Compared are labels, annotations, owners and everything that says what *should be*. Of the status
nothing is compared; of endpoints all addresses are, since writing those by hand is a repair, too.
Everything that changes while a grader looks is reported: it says *when*, not *who*. Pods that only
look at the application are left out: the barrier waits until they are gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Failed, Kind, KubeApi

__all__ = ["Fingerprint", "changes", "digest", "fingerprint"]

_NAMESPACED: Final[tuple[Kind, ...]] = (
    "ConfigMap", "Deployment", "EndpointSlice", "Endpoints", "Job", "Pod", "ReplicaSet", "Service",
)  # fmt: skip
_CLUSTER_WIDE: Final[tuple[Kind, ...]] = ("Namespace", "Node")
_META: Final = ("labels", "annotations", "ownerReferences", "finalizers")
_BY_ITSELF: Final = frozenset({"endpoints.kubernetes.io/last-change-trigger-time"})
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """`Kind name (uid)` -> SHA-256 of what is compared, and the kinds that could not be read."""

    objects: Mapping[str, str]
    unread: tuple[str, ...]

    @property
    def digest(self) -> str:
        """One SHA-256 over all."""
        return digest(sorted(self.objects.items()))


def fingerprint(
    api: KubeApi,
    namespace: str,
    *,
    is_probe: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> Fingerprint:
    """The namespace's objects, and the cluster's namespaces and nodes, now.

    Args:
        api: The cluster.
        namespace: The application's.
        is_probe: Pods to leave out.
    """
    objects: dict[str, str] = {}
    unread: list[str] = []
    kinds: tuple[Kind, ...] = (*_NAMESPACED, *_CLUSTER_WIDE)
    listings = overlapped(
        [partial(api.list, kind, namespace if kind in _NAMESPACED else "") for kind in kinds]
    )
    for kind, listing in zip(kinds, listings, strict=True):
        if isinstance(listing, Failed):
            unread.append(kind)
            continue
        for item in listing.items:
            if kind == "Pod" and is_probe(item):
                continue
            metadata = item["metadata"]
            objects[f"{kind} {metadata['name']} ({metadata.get('uid', '')})"] = digest(
                _compared(item)
            )
    return Fingerprint(objects=objects, unread=tuple(unread))


def changes(before: Fingerprint, after: Fingerprint) -> list[str]:
    """A line for each object that came, went or became another, at most twenty and a count."""
    told = [
        *(f"{name} appeared" for name in sorted(after.objects.keys() - before.objects.keys())),
        *(f"{name} is gone" for name in sorted(before.objects.keys() - after.objects.keys())),
        *(
            f"{name} changed"
            for name in sorted(before.objects.keys() & after.objects.keys())
            if before.objects[name] != after.objects[name]
        ),
    ]
    unread = set(before.unread) | set(after.unread)
    told = [line for line in told if line.partition(" ")[0] not in unread]
    more = len(told) - _SHOWN
    return told if more <= 0 else [*told[:_SHOWN], f"and {more} more"]


def _compared(item: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: item["metadata"].get(key) for key in _META}
    annotations = metadata["annotations"] or {}
    metadata["annotations"] = {k: v for k, v in annotations.items() if k not in _BY_ITSELF}
    metadata["labels"] = metadata["labels"] or {}
    rest = {key: value for key, value in item.items() if key not in {"metadata", "status"}}
    return {"metadata": metadata, **rest}


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
