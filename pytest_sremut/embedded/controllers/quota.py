"""ResourceQuotas: what is allowed and what is used, as the quota's status shows it.

Rules kept here:

* counted from what is there (`limits.usage`); whether something new may come is decided there too,
  so this status is only shown, never relied on.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.controllers.base import Controller
from pytest_sremut.embedded.controllers.objects import Key, key_of
from pytest_sremut.embedded.meta.resources import RESOURCES
from pytest_sremut.embedded.registry.limits import usage
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["QuotaController"]

QUOTAS = "resourcequotas"
_COUNTED = tuple(
    table.key
    for table in RESOURCES.values()
    if table.namespaced and not table.stored_as and "delete" in table.verbs
)


class QuotaController(Controller[Key]):
    """Keeps the status of each quota."""

    name = "resourcequota-controller"
    watches = _COUNTED

    def on_event(self, event: Event) -> None:
        """Whatever happens in a namespace concerns its quotas."""
        if event.resource == QUOTAS:
            self.queue.add(event.key)
            return
        for quota in self.registry.list(QUOTAS, event.key[0]):
            self.queue.add(key_of(quota))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        quota = self.registry.get(QUOTAS, *key)
        if quota is None:
            return
        hard = dict(quota["spec"].get("hard") or {})
        status: dict[str, Any] = {"hard": hard, "used": usage(self.registry, key[0], hard)}
        self.registry.mutate(
            QUOTAS, *key, lambda value: value.update(status=status), subresource="status"
        )
