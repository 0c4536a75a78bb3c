"""ControllerRevisions: the templates that a StatefulSet or DaemonSet had.

Rules kept here:

* a revision is the template as a patch, named after its hash; the same template is the same
  revision, moved to the front when it comes back;
* old revisions are kept up to ``revisionHistoryLimit``, those in use always.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pytest_sremut.embedded.controllers.objects import (
    controller_of,
    key_of,
    owner_reference,
    safe_hash,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["HASH_LABEL", "REVISIONS", "current_revision", "prune", "template_of"]

REVISIONS = "controllerrevisions.apps"
HASH_LABEL = "controller.kubernetes.io/hash"
DEFAULT_LIMIT = 10


def _owned(registry: Registry, owner: JsonObject) -> list[JsonObject]:
    uid = owner["metadata"]["uid"]
    found = [
        item
        for item in registry.list(REVISIONS, owner["metadata"]["namespace"])
        if (reference := controller_of(item)) is not None and reference["uid"] == uid
    ]
    return sorted(found, key=lambda item: int(item["revision"]))


def current_revision(registry: Registry, owner: JsonObject) -> JsonObject:
    """The revision of the owner's template, made or moved to the front if need be.

    Raises:
        ApiStatus: it cannot be written.
    """
    data: dict[str, Any] = {
        "spec": {"template": {"$patch": "replace", **clone(owner["spec"]["template"])}}
    }
    known = _owned(registry, owner)
    newest = int(known[-1]["revision"]) if known else 0
    for item in known:
        if item.get("data") == data:
            if item is known[-1]:
                return item
            moved = registry.mutate(
                REVISIONS, *key_of(item), lambda value: value.update(revision=newest + 1)
            )
            return moved if moved is not None else item
    code = safe_hash(data)
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner['metadata']['name']}-{code}",
            "labels": {
                **(owner["spec"]["template"].get("metadata") or {}).get("labels", {}),
                HASH_LABEL: code,
            },
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": newest + 1,
    }
    return registry.create(REVISIONS, owner["metadata"]["namespace"], body)


def template_of(registry: Registry, owner: JsonObject, name: str) -> JsonObject:
    """The template of the owner's revision called `name`; its present one if that is gone."""
    item = registry.get(REVISIONS, owner["metadata"]["namespace"], name)
    if item is None:
        template: JsonObject = owner["spec"]["template"]
        return template
    kept = item["data"]["spec"]["template"]
    return {field: value for field, value in kept.items() if field != "$patch"}


def prune(registry: Registry, owner: JsonObject, in_use: Collection[str]) -> None:
    """Delete the oldest revisions beyond the limit; names `in_use` stay.

    Raises:
        ApiStatus: a delete is refused.
    """
    idle = [x for x in _owned(registry, owner) if x["metadata"]["name"] not in in_use]
    limit = owner["spec"].get("revisionHistoryLimit", DEFAULT_LIMIT)
    for item in idle[: max(0, len(idle) - limit)]:
        registry.delete(REVISIONS, *key_of(item), uid=item["metadata"]["uid"])
