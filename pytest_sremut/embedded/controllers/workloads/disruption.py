"""PodDisruptionBudgets: how many pods may be evicted now.

Rules kept here:

* healthy is a pod that is ready and not being deleted; expected is what the controllers of the
  selected pods want, or the selected pods themselves where nothing scales them;
* whoever evicts reads ``status.disruptionsAllowed``; this controller only writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_sremut.embedded.controllers.base import Controller
from pytest_sremut.embedded.controllers.objects import (
    Key,
    condition,
    controller_of,
    key_of,
    labels_of,
    matches,
    pod_active,
    pod_ready,
    pod_terminal,
    resolve_count,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp
from pytest_sremut.embedded.meta.resources import by_kind
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["DisruptionController"]

BUDGETS = "poddisruptionbudgets.policy"


class DisruptionController(Controller[Key]):
    """Keeps the status of each budget."""

    name = "disruption-controller"
    watches = (BUDGETS, "pods")

    def on_event(self, event: Event) -> None:
        """A budget's own events and those of the pods that it selects."""
        if event.resource == BUDGETS:
            self.queue.add(event.key)
            return
        pods = [pod for pod in (event.old, event.object) if pod is not None]
        for budget in self.registry.list(BUDGETS, event.key[0]):
            if any(matches(budget["spec"].get("selector"), labels_of(pod)) for pod in pods):
                self.queue.add(key_of(budget))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        budget = self.registry.get(BUDGETS, *key)
        if budget is None:
            return
        selector = budget["spec"].get("selector")
        pods = [
            pod
            for pod in self.context.pods.in_namespace(key[0])
            if matches(selector, labels_of(pod)) and not pod_terminal(pod)
        ]
        expected = self._expected(pods)
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            missing = resolve_count(spec["maxUnavailable"], expected, round_up=True)
            desired = max(0, expected - missing)
        else:
            minimum = spec.get("minAvailable", 1)
            desired = resolve_count(minimum, expected, round_up=True)
            if isinstance(minimum, int):
                expected = len(pods)
        healthy = sum(pod_active(pod) and pod_ready(pod) for pod in pods)
        allowed = max(0, healthy - desired) if expected else 0
        status: dict[str, Any] = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(budget, allowed)],
        }
        self.registry.mutate(
            BUDGETS, *key, lambda value: value.update(status=status), subresource="status"
        )

    def _expected(self, pods: Sequence[JsonObject]) -> int:
        """Replicas that the pods' controllers want, each counted once; 1 for a pod without."""
        scales: dict[str, int] = {}
        alone = 0
        for pod in pods:
            owner = controller_of(pod)
            found = self._scale(pod, owner) if owner is not None else None
            if owner is None or found is None:
                alone += 1
            else:
                scales[owner["uid"]] = found
        return sum(scales.values()) + alone

    def _scale(self, pod: JsonObject, owner: JsonObject) -> int | None:
        table = by_kind(owner["apiVersion"], owner["kind"])
        if table is None:
            return None
        value = self.registry.get(table.key, pod["metadata"]["namespace"], owner["name"])
        if value is None or "replicas" not in value.get("spec", {}):
            return None
        return int(value["spec"]["replicas"])

    def _condition(self, budget: JsonObject, allowed: int) -> JsonObject:
        present = condition(budget, "DisruptionAllowed")
        status = "True" if allowed else "False"
        same = present is not None and present["status"] == status
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": budget["metadata"]["generation"],
            "lastTransitionTime": (
                present["lastTransitionTime"] if present and same else timestamp(self.context.now())
            ),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
