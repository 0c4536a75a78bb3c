"""EndpointSlices that mirror Endpoints written by hand.

Rules kept here:

* mirrored are the Endpoints of Services without a selector, unless a label says otherwise or they
  are a leader election's;
* one slice per subset, with the labels and annotations of the Endpoints; they go when the Endpoints
  go or the Service gets a selector.
"""

from __future__ import annotations

from ipaddress import ip_address

from pytest_sremut.embedded.controllers.base import Controller
from pytest_sremut.embedded.controllers.networking.serviceports import (
    MANAGED_BY,
    SERVICE_NAME,
    TRIGGER_TIME,
    PortList,
    port_order,
)
from pytest_sremut.embedded.controllers.networking.sliceset import SliceSet
from pytest_sremut.embedded.controllers.objects import Key, key_of, labels_of
from pytest_sremut.embedded.controllers.workloads.podcontrol import namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["EndpointSliceMirroringController"]

SLICES = "endpointslices.discovery.k8s.io"
MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
NOT_COPIED = (TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")


class EndpointSliceMirroringController(Controller[Key]):
    """Keeps the mirrored slices of each Endpoints object."""

    name = "endpoint-slice-mirroring-controller"
    watches = ("endpoints", "services", SLICES)

    def on_event(self, event: Event) -> None:
        """Endpoints, their Services, and mirrored slices that somebody else writes."""
        if event.resource != SLICES:
            self.queue.add(event.key)
        elif not self.working:
            for value in (event.old, event.object):
                labels = labels_of(value) if value is not None else {}
                if labels.get(MANAGED_BY) == MANAGER and SERVICE_NAME in labels:
                    self.queue.add((event.key[0], labels[SERVICE_NAME]))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        endpoints = self.registry.get("endpoints", *key)
        service = self.context.services.get(*key)
        wanted = endpoints is not None and service is not None and _mirrored(endpoints, service)
        present = self.registry.list(
            SLICES, key[0], labels={MANAGED_BY: MANAGER, SERVICE_NAME: key[1]}
        )
        if not wanted or endpoints is None:
            for item in present:
                uid = item["metadata"]["uid"]
                self.registry.delete(SLICES, *key_of(item), uid=uid)
            return
        annotations = endpoints["metadata"].get("annotations") or {}
        groups: dict[PortList, list[JsonObject]] = {}
        for subset in endpoints.get("subsets") or ():
            shown = groups.setdefault(_ports(subset), [])
            shown += [_endpoint(item, ready=True) for item in subset.get("addresses") or ()]
            shown += [
                _endpoint(item, ready=False) for item in subset.get("notReadyAddresses") or ()
            ]
        wanted_slices = SliceSet(
            owner=endpoints,
            name=key[1],
            labels={**labels_of(endpoints), MANAGED_BY: MANAGER, SERVICE_NAME: key[1]},
            annotations={k: text for k, text in annotations.items() if k not in NOT_COPIED},
            groups={ports: _ipv4(shown) for ports, shown in groups.items()},
            placeholder=False,
            trigger_time=None,
        )
        try:
            wanted_slices.apply(self.registry, present)
        except ApiStatus as refused:
            if not namespace_going(refused):
                raise


def _mirrored(endpoints: JsonObject, service: JsonObject) -> bool:
    if service["spec"].get("selector"):
        return False
    if labels_of(endpoints).get(SKIP_MIRROR) == "true":
        return False
    return LEADER not in (endpoints["metadata"].get("annotations") or {})


def _ports(subset: JsonObject) -> PortList:
    ports = [
        (
            port.get("name", ""),
            int(port["port"]),
            port.get("protocol", "TCP"),
            port.get("appProtocol", ""),
        )
        for port in subset.get("ports") or ()
    ]
    return tuple(sorted(ports, key=port_order))


def _ipv4(endpoints: list[JsonObject]) -> list[JsonObject]:
    """Those with an IPv4 address: this cluster has no other, and a slice is of one family."""
    return [item for item in endpoints if ip_address(item["addresses"][0]).version == 4]


def _endpoint(address: JsonObject, *, ready: bool) -> JsonObject:
    endpoint: JsonObject = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for field in ("hostname", "targetRef", "nodeName"):
        if address.get(field):
            endpoint[field] = address[field]
    return endpoint
