"""Reading and writing objects as the API server does, for the API and for the controllers alike.

Rules kept here:

* every write goes through the same steps: admission, defaults, validation, object metadata
  (`uid`, `resourceVersion`, `generation`, timestamps), then one write to the store;
* a write that changes nothing is no write: the revision stays;
* answers are shared objects; nobody may change them (`mutate` hands out a copy);
* every refusal is an `ApiStatus` with the recorded wording.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import IPv4Network

from pytest_sremut.embedded.meta.errors import ApiStatus, already_exists, not_found
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone, timestamp
from pytest_sremut.embedded.meta.objectmeta import (
    IMMUTABLE_METADATA,
    check_preconditions,
    merge_for_update,
    metadata_of,
    respecified,
)
from pytest_sremut.embedded.meta.resources import RESOURCES, Resource
from pytest_sremut.embedded.registry import admission, defaults
from pytest_sremut.embedded.registry.deletion import Deletion, delete_object, finish_deletion
from pytest_sremut.embedded.registry.events import EventRecorder
from pytest_sremut.embedded.registry.limits import check_quotas
from pytest_sremut.embedded.registry.services import ServiceAddresses
from pytest_sremut.embedded.registry.store import Event, Objects, Store
from pytest_sremut.embedded.registry.validation.rules import check_create, check_update

__all__ = ["Event", "Registry"]

Finish = Callable[[JsonObject | None, JsonObject], None]

NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
MAX_GENERATED_PREFIX = 63 - SUFFIX_LENGTH
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Registry:
    """The objects of one cluster, with the API server's rules around them.

    Args:
        now: the clock; answers aware datetimes.
        uid: source of object uids.
        service_cidr: range of cluster IPs.
        pod_cidr: range of pod IPs; kept for those who hand them out.
        cluster_name: name of the cluster, for messages.
        seed: seed of generated name suffixes; random when ``None``.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        service_cidr: str = "10.96.0.0/12",
        pod_cidr: str = "10.244.0.0/16",
        cluster_name: str = "sremut",
        seed: int | None = None,
    ) -> None:
        self.now = now
        self.store = Store()
        self.service_cidr = IPv4Network(service_cidr)
        self.pod_cidr = IPv4Network(pod_cidr)
        self.cluster_name = cluster_name
        self._uid = uid
        self._random = random.Random(seed)  # noqa: S311 - name suffixes, not secrets
        self._addresses = ServiceAddresses(self.service_cidr)
        self._events = EventRecorder(self)

    # Reading

    @property
    def revision(self) -> int:
        """Revision of the last write."""
        return self.store.revision

    def get(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        """The object, or ``None``. `namespace` is empty for cluster-wide resources."""
        return self.store.get(resource, namespace, name)

    def list(
        self, resource: str, namespace: str = "", *, labels: Mapping[str, str] | None = None
    ) -> Objects:
        """Objects sorted by namespace and name, all namespaces when `namespace` is empty.

        Args:
            labels: keep only objects that carry all of these labels.
        """
        objects = self.store.list(resource, namespace)
        if not labels:
            return objects
        wanted = labels.items()
        return [
            item for item in objects if wanted <= (item["metadata"].get("labels") or {}).items()
        ]

    def subscribe(self, callback: Callable[[Event], None], *resources: str) -> Callable[[], None]:
        """Call `callback` synchronously after each write to `resources` (all, if none is named).

        Returns:
            A function that ends the subscription.
        """
        return self.store.subscribe(callback, *resources)

    # Writing

    def create(
        self,
        resource: str,
        namespace: str,
        body: JsonObject,
        *,
        dry_run: bool = False,
        finish: Finish | None = None,
    ) -> JsonObject:
        """Create an object from `body` (left as it is) and return it as stored.

        Args:
            namespace: where to create it; empty for cluster-wide resources.
            dry_run: do everything but the write.
            finish: given the object before (``None``) and after, just before the write; may still
                change the latter.

        Raises:
            ApiStatus: the object exists, is invalid, or is not admitted.
        """
        table = _resource(resource)
        value: JsonObject = clone(body)
        metadata = metadata_of(value, table, namespace)
        if metadata.get("resourceVersion"):
            raise ApiStatus(500, "", "resourceVersion should not be set on objects to be created")
        self._name(metadata)
        value.setdefault("kind", table.kind)
        value.setdefault("apiVersion", table.api_version)
        for field in (*IMMUTABLE_METADATA, "uid", "resourceVersion", "generation", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = timestamp(self.now())
        if table.generation:
            metadata["generation"] = 1
        defaults.prepare_create(table, value)
        defaults.apply(table, value)
        admission.admit_create(self, table, value, suffix=self.suffix)
        defaults.apply(table, value)  # of what admission added
        check_create(table, value)
        check_quotas(self, table, value)
        if self.store.get(resource, metadata.get("namespace", ""), metadata["name"]) is not None:
            raise already_exists(resource, metadata["name"])
        if resource == "services":
            self._addresses.assign(value, None, self.store.list("services"))
        if finish is not None:
            finish(None, value)
        if dry_run:
            return value
        return self.store.put(resource, value)

    def update(
        self,
        resource: str,
        body: JsonObject,
        *,
        subresource: str = "",
        dry_run: bool = False,
        external: bool = False,
        finish: Finish | None = None,
    ) -> JsonObject:
        """Replace an object by `body` (left as it is) and return it as stored.

        A `resourceVersion` or `uid` in `body` is a precondition. The last finalizer taken from an
        object that is being deleted removes it.

        Args:
            subresource: ``status`` writes the status alone; empty writes everything else.
            dry_run: do everything but the write.
            external: whether a client asks, who may do less than controllers (bind a pod, say).
            finish: given the object before and after, just before the write; may still change the
                latter. Not called when nothing changes.

        Raises:
            ApiStatus: not found, conflict, or invalid.
        """
        table = _resource(resource)
        value = clone(body)
        metadata = value.get("metadata") or {}
        namespace = metadata.get("namespace", "") if table.namespaced else ""
        name = metadata.get("name", "")
        old = self.store.get(resource, namespace, name)
        if old is None:
            raise not_found(resource, name)
        check_preconditions(table, old, metadata)
        value = merge_for_update(table, old, value, subresource)
        defaults.apply(table, value)
        if not subresource and resource == "services":
            defaults.keep_addresses(value, old)
        check_update(table, value, old, subresource=subresource, external=external)
        if not subresource and resource == "services":
            self._addresses.assign(value, old, self.store.list("services"))
        if table.generation and not subresource and respecified(table, old, value):
            value["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if value == old:
            return old
        if finish is not None:
            finish(old, value)
        if dry_run:
            return value
        if finish_deletion(old, value):
            return self.store.remove(resource, namespace, name, last=value)
        return self.store.put(resource, value)

    def mutate(
        self,
        resource: str,
        namespace: str,
        name: str,
        fn: Callable[[JsonObject], None],
        *,
        subresource: str = "",
    ) -> JsonObject | None:
        """Change an object by `fn`, which is given a copy; ``None`` when the object is gone.

        Raises:
            ApiStatus: the changed object is invalid.
        """
        old = self.store.get(resource, namespace, name)
        if old is None:
            return None
        value = clone(old)
        fn(value)
        if value == old:
            return old
        return self.update(resource, value, subresource=subresource)

    def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period: int | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
    ) -> JsonObject | None:
        """Delete an object, at once or gracefully.

        Pods on a node stay, with `deletionTimestamp`, until the kubelet calls `remove`; objects
        with finalizers until the last one is taken; namespaces until their controller removes them.

        Args:
            uid: precondition.
            resource_version: precondition.
            grace_period: seconds; ``None`` is the pod's own.
            propagation: ``Background``, ``Foreground``, ``Orphan``; ``None`` is the kind's default.

        Returns:
            The object as it is afterwards; its last state when it is gone.

        Raises:
            ApiStatus: not found, or a precondition fails.
        """
        table = _resource(resource)
        old = self.store.get(resource, namespace, name)
        if old is None:
            raise not_found(resource, name)
        request = Deletion(
            uid=uid,
            resource_version=resource_version,
            grace_period=grace_period,
            propagation=propagation,
        )
        value, gone = delete_object(table, old, request, self.now())
        if dry_run or value is old:
            return value
        if gone:
            return self.store.remove(resource, namespace, name, last=value)
        return self.store.put(resource, value)

    def remove(self, resource: str, namespace: str, name: str, *, uid: str) -> None:
        """Take an object away for good: processes are stopped, dependents gone, content deleted.

        An object with finalizers stays until they are taken; one with another uid is left alone.
        """
        old = self.store.get(resource, namespace, name)
        if old is None or old["metadata"]["uid"] != uid:
            return
        if resource == "namespaces":
            self.store.remove(resource, namespace, name)
            return
        self.delete(resource, namespace, name, uid=uid, grace_period=0, propagation="Background")

    def record_event(
        self,
        involved: JsonObject,
        *,
        type: str,  # noqa: A002 - the name of the field
        reason: str,
        message: str,
        component: str,
        field_path: str = "",
    ) -> None:
        """Write a core/v1 Event about `involved`; a repeated one counts up.

        Args:
            type: ``Normal`` or ``Warning``.
            component: who reports, ``kubelet``, ``deployment-controller``.
            field_path: the container meant, ``spec.containers{web}``; empty for the object.
        """
        self._events.record(
            involved,
            type=type,
            reason=reason,
            message=message,
            component=component,
            field_path=field_path,
        )

    def bootstrap(self) -> None:
        """Create the namespaces that every cluster has."""
        for name in SYSTEM_NAMESPACES:
            self.create("namespaces", "", {"metadata": {"name": name}})

    def suffix(self) -> str:
        """Five random characters, as generated names end in."""
        return "".join(self._random.choices(NAME_CHARACTERS, k=SUFFIX_LENGTH))

    def _name(self, metadata: JsonObject) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            prefix = str(metadata["generateName"])[:MAX_GENERATED_PREFIX]
            metadata["name"] = prefix + self.suffix()


def _resource(key: str) -> Resource:
    table = RESOURCES.get(key)
    if table is None:
        raise LookupError(f"{key!r} is not a resource of this cluster")
    return table
