"""EndpointSlices: the addresses behind each Service with a selector, terminating ones included.

Rules kept here:

* ``serving`` is the pod's readiness, ``terminating`` that it is being deleted, ``ready`` both
  together (or ``publishNotReadyAddresses``); a finished pod is not shown;
* slices that somebody changes or deletes are put right at once;
* a Service without a selector keeps the slices that it has; the garbage collector takes those of a
  Service that is gone.
"""

from __future__ import annotations

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.networking.serviceports import (
    HEADLESS_LABEL,
    MANAGED_BY,
    SERVICE_NAME,
    PortList,
    TriggerTimes,
    is_headless,
    pod_ports,
    publishes_not_ready,
    selected_pods,
    services_of,
    shown_hostname,
    target_reference,
)
from pytest_sremut.embedded.controllers.networking.sliceset import SliceSet
from pytest_sremut.embedded.controllers.objects import (
    Key,
    deleting,
    labels_of,
    pod_ready,
    pod_terminal,
)
from pytest_sremut.embedded.controllers.workloads.podcontrol import namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["EndpointSliceController"]

SLICES = "endpointslices.discovery.k8s.io"
MANAGER = "endpointslice-controller.k8s.io"


class EndpointSliceController(Controller[Key]):
    """Keeps the slices of each Service."""

    name = "endpoint-slice-controller"
    watches = ("services", "pods", SLICES)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._trigger_times = TriggerTimes()

    def on_event(self, event: Event) -> None:
        """Services, what they show of pods, and slices that somebody else writes."""
        if event.resource == "services":
            self.queue.add(event.key)
        elif event.resource == "pods":
            for key in services_of(event, self.context.services):
                self.queue.add(key)
        elif not self.working:
            for value in (event.old, event.object):
                labels = labels_of(value) if value is not None else {}
                if labels.get(MANAGED_BY) == MANAGER and SERVICE_NAME in labels:
                    self.queue.add((event.key[0], labels[SERVICE_NAME]))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        service = self.context.services.get(*key)
        if service is None:
            self._trigger_times.forget(key)
            return
        spec = service["spec"]
        if not spec.get("selector") or spec.get("type") == "ExternalName":
            return
        pods = selected_pods(service, self.context.pods)
        trigger_time = self._trigger_times.compute(service, pods)
        groups: dict[PortList, list[JsonObject]] = {}
        for pod in pods:
            if (pod.get("status") or {}).get("podIP") and not pod_terminal(pod):
                groups.setdefault(pod_ports(service, pod), []).append(_endpoint(service, pod))
        labels = dict(labels_of(service))
        labels.pop(HEADLESS_LABEL, None)
        labels |= {MANAGED_BY: MANAGER, SERVICE_NAME: key[1]}
        if is_headless(service):
            labels[HEADLESS_LABEL] = ""
        wanted = SliceSet(
            owner=service,
            name=key[1],
            labels=labels,
            annotations={},
            groups=groups,
            placeholder=True,
            trigger_time=trigger_time,
        )
        owned = {MANAGED_BY: MANAGER, SERVICE_NAME: key[1]}
        try:
            wanted.apply(self.registry, self.registry.list(SLICES, key[0], labels=owned))
        except ApiStatus as refused:
            if not namespace_going(refused):
                raise


def _endpoint(service: JsonObject, pod: JsonObject) -> JsonObject:
    serving, terminating = pod_ready(pod), deleting(pod)
    endpoint: JsonObject = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": publishes_not_ready(service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
    }
    hostname = shown_hostname(service, pod)
    if hostname:
        endpoint["hostname"] = hostname
    endpoint["targetRef"] = target_reference(pod)
    if pod["spec"].get("nodeName"):
        endpoint["nodeName"] = pod["spec"]["nodeName"]
    return endpoint
