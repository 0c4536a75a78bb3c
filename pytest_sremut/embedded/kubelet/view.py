"""What a container sees of its node and of its pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pytest_sremut.embedded.kubelet.images import ImageRegistry
from pytest_sremut.embedded.kubelet.zygote_client import ZygoteClient
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["Node", "PodView"]


class PodView(Protocol):
    """What a container loop needs of its pod."""

    @property
    def pod(self) -> JsonObject: ...

    @property
    def pod_ip(self) -> str: ...

    @property
    def host_ip(self) -> str: ...

    def touch(self) -> None:
        """The status has changed."""

    def event(self, type: str, reason: str, message: str, field_path: str = "") -> None:  # noqa: A002
        """Record an Event about the pod."""

    def root_of(self, container: JsonObject, message_file: Path) -> dict[str, Any]:
        """The root file system of a container, as JSON; raises MountError."""

    def message_file(self, name: str) -> Path:
        """A fresh, empty file for a container's termination message."""

    def changed(self) -> asyncio.Event:
        """An event that is set when the pod, a ConfigMap or a Secret changes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What all containers of a node share."""

    registry: Any
    zygote: ZygoteClient
    images: ImageRegistry
    now: Callable[[], datetime]
    start_delay: Callable[[], float]  # seconds until a pod's first container starts
