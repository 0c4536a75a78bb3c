"""What the rules of the registry may ask of it: they read objects and write none."""

from __future__ import annotations

from typing import Protocol

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.store import Objects

__all__ = ["Lookup"]


class Lookup(Protocol):
    """Objects by resource, namespace and name. The answers are shared: nobody changes them."""

    def get(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        """The object, or ``None``. `namespace` is empty for cluster-wide resources."""

    def list(self, resource: str, namespace: str = "") -> Objects:
        """Objects sorted by namespace and name; all namespaces when `namespace` is empty."""
