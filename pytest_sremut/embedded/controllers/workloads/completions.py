"""Completion indexes of Indexed Jobs.

Rules kept here:

* pure: pods in, indexes out; an index is done when a pod that carries it has succeeded;
* sets of indexes are written as Kubernetes writes them: ``0-2,4``.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sremut.embedded.controllers.objects import whole
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["INDEX", "compress", "expand", "free_indexes", "index_of", "with_index"]

MAX_INDEX = 1_000_000
INDEX = "batch.kubernetes.io/job-completion-index"


def expand(text: str) -> set[int]:
    """The indexes that ``0-2,4`` names; parts that are no indexes name none."""
    done: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = whole(first), whole(last or first)
        if start is not None and end is not None and end <= MAX_INDEX:
            done.update(range(start, end + 1))
    return done


def compress(indexes: Iterable[int]) -> str:
    """`indexes` in the short form."""
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in parts)


def index_of(pod: JsonObject) -> int | None:
    """The index that a pod works on, or ``None``."""
    return whole((pod["metadata"].get("annotations") or {}).get(INDEX, ""))


def free_indexes(total: int, done: set[int], busy: Iterable[JsonObject], count: int) -> list[int]:
    """The lowest `count` indexes below `total`, neither done nor worked on by `busy` pods."""
    taken = done | {index for pod in busy if (index := index_of(pod)) is not None}
    free = (index for index in range(total) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def with_index(template: JsonObject, job: str, index: int) -> JsonObject:
    """`template` for a pod that works on `index`: annotation, label, environment, host name."""
    metadata = template.get("metadata") or {}
    spec = dict(template["spec"])
    spec.setdefault("hostname", f"{job}-{index}")
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [
                {**item, "env": [*(item.get("env") or ()), variable]} for item in spec[field]
            ]
    marks = {INDEX: str(index)}
    return {
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), **marks},
            "annotations": {**(metadata.get("annotations") or {}), **marks},
        },
        "spec": spec,
    }
