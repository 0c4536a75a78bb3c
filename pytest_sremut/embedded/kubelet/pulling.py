"""Waiting for a container's image, in the states and words of the kubelet.

Rules: an image that is not in the cluster's registry never appears by itself, but the pod's spec
may be changed to name another, so waiting ends when the pod changes; the pauses between tries are
those of the kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from pytest_sremut.embedded.kubelet.images import (
    Image,
    ImageNameError,
    ImageRegistry,
    parse_reference,
)
from pytest_sremut.embedded.kubelet.status import ContainerRecord
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

BACKOFF_FIRST = 10.0
BACKOFF_LONGEST = 300.0
PULL_SHOWN = 2.0  # seconds that ErrImagePull is shown before it is called a back-off

Report = Callable[[str, str, str], None]
"""Records an Event about the container: type, reason, message."""


class View(Protocol):
    """What is needed of the pod."""

    def touch(self) -> None: ...

    def changed(self) -> asyncio.Event: ...


class ImageWait:
    """Finds the image of one container, as often as it is started."""

    def __init__(
        self, images: ImageRegistry, view: View, record: ContainerRecord, event: Report
    ) -> None:
        self._images = images
        self._view = view
        self._record = record
        self._event = event

    async def wait(self, spec: Callable[[], JsonObject]) -> Image:
        """The image that `spec` names; returns when there is one."""
        pause = BACKOFF_FIRST
        while True:
            changed = self._view.changed()
            name = spec()["image"]
            policy = spec().get("imagePullPolicy", "IfNotPresent")
            self._record.image = name
            try:
                image = self._images.find(name)
            except ImageNameError as error:
                self._refuse("InvalidImageName", "InspectFailed", str(error))
                await happens(changed.wait(), BACKOFF_FIRST)
                continue
            if image is not None:
                self._present(name, policy)
                return image
            if policy == "Never":
                message = f'Container image "{name}" is not present with pull policy of Never'
                self._refuse("ErrImageNeverPull", "ErrImageNeverPull", message)
                await happens(changed.wait(), BACKOFF_FIRST)
                continue
            await self._cannot_pull(name, changed, pause)
            pause = min(pause * 2, BACKOFF_LONGEST)

    def _refuse(self, state: str, reason: str, message: str) -> None:
        self._wait_state(state, message)
        self._event("Warning", reason, message)
        self._event("Warning", "Failed", f"Error: {state}")

    def _present(self, name: str, policy: str) -> None:
        if policy == "Always":
            self._event("Normal", "Pulling", f'Pulling image "{name}"')
            message = (
                f'Successfully pulled image "{name}" in 0s (0s including waiting). '
                "Image size: 0 bytes."
            )
        else:
            message = (
                f'Container image "{name}" already present on machine and can be accessed by '
                "the pod"
            )
        self._event("Normal", "Pulled", message)

    async def _cannot_pull(self, name: str, changed: asyncio.Event, pause: float) -> None:
        reference = parse_reference(name)
        why = (
            f'failed to pull and unpack image "{reference}": failed to resolve image: '
            f"{reference}: not found"
        )
        self._event("Normal", "Pulling", f'Pulling image "{name}"')
        self._event("Warning", "Failed", f'Failed to pull image "{name}": {why}')
        self._event("Warning", "Failed", "Error: ErrImagePull")
        self._wait_state("ErrImagePull", why)
        if await happens(changed.wait(), PULL_SHOWN):
            return
        self._wait_state(
            "ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: {why}'
        )
        self._event("Normal", "BackOff", f'Back-off pulling image "{name}"')
        self._event("Warning", "Failed", "Error: ImagePullBackOff")
        await happens(changed.wait(), pause)

    def _wait_state(self, reason: str, message: str) -> None:
        self._record.wait(reason, message)
        self._view.touch()


async def happens(waiting: Awaitable[Any], seconds: float) -> bool:
    """Whether `waiting` finishes within `seconds`."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await waiting
    except TimeoutError:
        return False
    return True
