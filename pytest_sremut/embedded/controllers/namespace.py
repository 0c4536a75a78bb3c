"""Namespaces: what each is given when it comes, and how all that it holds goes with it.

Rules kept here:

* each active namespace has the service account ``default`` and the CA bundle, made again when they
  are taken away;
* a namespace that goes is seen going for a moment (a real controller waits five seconds), then
  deletes its content by the ordinary rules (grace, finalizers), reports what is left, and is
  removed when nothing is.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.objects import deleting, finalizers, key_of
from pytest_sremut.embedded.controllers.workloads.podcontrol import namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp
from pytest_sremut.embedded.meta.resources import RESOURCES
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["NamespaceController"]

SEEN_GOING = 0.3  # seconds
CA_BUNDLE = "kube-root-ca.crt"
CA_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)
FURNITURE = (("serviceaccounts", "default"), ("configmaps", CA_BUNDLE))
CONTENT = tuple(
    table.key
    for table in RESOURCES.values()
    if table.namespaced and not table.stored_as and "delete" in table.verbs
)


class NamespaceController(Controller[str]):
    """Keys are names of namespaces.

    Args:
        root_ca: PEM of the certificates that verify this cluster's API; empty if it has none.
    """

    name = "namespace-controller"
    watches = ("namespaces", *CONTENT)

    def __init__(self, context: Context, *, root_ca: str = "") -> None:
        super().__init__(context)
        self._root_ca = root_ca
        self._going_since: dict[str, datetime] = {}

    def on_event(self, event: Event) -> None:
        """Namespaces; what each must have; and the end of anything in one that goes."""
        if event.resource == "namespaces":
            self.queue.add(event.key[1])
            return
        namespace, name = event.key
        furniture = (event.resource, name) in FURNITURE and event.type != "ADDED"
        if furniture or self._going(namespace):
            self.queue.add(namespace)

    def _going(self, namespace: str) -> bool:
        value = self.registry.get("namespaces", "", namespace)
        return value is not None and deleting(value)

    def reconcile(self, key: str) -> None:
        """See the module."""
        value = self.registry.get("namespaces", "", key)
        if value is None:
            return
        if deleting(value):
            self._end(value)
            return
        try:
            self._furnish(key)
        except ApiStatus as refused:
            if not namespace_going(refused):
                raise

    def _furnish(self, namespace: str) -> None:
        if self.registry.get("serviceaccounts", namespace, "default") is None:
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
            }
            self.registry.create("serviceaccounts", namespace, account)
        data = {"ca.crt": self._root_ca}
        bundle = self.registry.get("configmaps", namespace, CA_BUNDLE)
        if bundle is None:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": CA_BUNDLE,
                    "annotations": {"kubernetes.io/description": CA_DESCRIPTION},
                },
                "data": data,
            }
            self.registry.create("configmaps", namespace, body)
        elif bundle.get("data") != data:
            self.registry.mutate(
                "configmaps", namespace, CA_BUNDLE, lambda value: value.update(data=data)
            )

    def _end(self, value: JsonObject) -> None:
        """Wait for the moment that it is to be seen, then empty it."""
        now = self.context.now()
        since = self._going_since.setdefault(value["metadata"]["uid"], now)
        left = SEEN_GOING - (now - since).total_seconds()
        if left > 0:
            self.queue.add_after(value["metadata"]["name"], left)
        else:
            self._empty(value)

    def _empty(self, value: JsonObject) -> None:
        name = value["metadata"]["name"]
        for resource in CONTENT:
            for item in self.registry.list(resource, name):
                if not deleting(item):
                    uid = item["metadata"]["uid"]
                    self.registry.delete(resource, *key_of(item), uid=uid, propagation="Background")
        left = {key: items for key in CONTENT if (items := self.registry.list(key, name))}
        conditions = self._conditions(value, left)
        self.registry.mutate(
            "namespaces",
            "",
            name,
            lambda item: item["status"].update(conditions=conditions),
            subresource="status",
        )
        if not left:
            self._going_since.pop(value["metadata"]["uid"], None)
            self.registry.remove("namespaces", "", name, uid=value["metadata"]["uid"])

    def _conditions(self, value: JsonObject, left: dict[str, list[JsonObject]]) -> list[JsonObject]:
        """The five conditions; one whose status stays keeps its time."""
        holders = Counter(x for items in left.values() for item in items for x in finalizers(item))
        remaining = ", ".join(
            f"{key}. has {len(items)} resource instances" for key, items in sorted(left.items())
        )
        held = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(holders.items()))
        wanted = [
            (
                "DiscoveryFailure",
                False,
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                "GroupVersionParsingFailure",
                False,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            (
                "ContentFailure",
                False,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ]
        told = [(f"NamespaceDeletion{kind}", *rest) for kind, *rest in wanted]
        told += [
            (
                "NamespaceContentRemaining",
                True,
                "SomeResourcesRemain",
                f"Some resources are remaining: {remaining}",
            )
            if left
            else (
                "NamespaceContentRemaining",
                False,
                "ContentRemoved",
                "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                True,
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {held}",
            )
            if holders
            else (
                "NamespaceFinalizersRemaining",
                False,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]
        present = {x["type"]: x for x in (value.get("status") or {}).get("conditions") or ()}
        now = timestamp(self.context.now())
        conditions = []
        for type_, status, reason, message in told:
            text = "True" if status else "False"
            old = present.get(str(type_))
            same = old is not None and old["status"] == text
            conditions.append(
                {
                    "type": type_,
                    "status": text,
                    "lastTransitionTime": old["lastTransitionTime"] if old and same else now,
                    "reason": reason,
                    "message": message,
                }
            )
        return conditions
