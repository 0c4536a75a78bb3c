"""The probes of one running container, and what their results do to it.

Rules: until the startup probe has succeeded there is no readiness and no liveness; readiness only
changes ``ready``; a failed liveness or startup probe ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pytest_sremut.embedded.kubelet.probes.probe import Kind, Probe, Target, watch
from pytest_sremut.embedded.kubelet.pulling import Report
from pytest_sremut.embedded.kubelet.status import ContainerRecord
from pytest_sremut.embedded.meta.jsonvalue import JsonObject


class Probing:
    """Probes a container from its start until `stop`."""

    def __init__(
        self,
        spec: JsonObject,
        record: ContainerRecord,
        target: Target,
        *,
        touch: Callable[[], None],
        on_started: Callable[[], None],
        on_failed: Callable[[str], None],
        event: Report,
    ) -> None:
        self._spec = spec
        self._record = record
        self._target = target
        self._touch = touch
        self._on_started = on_started
        self._on_failed = on_failed
        self._event = event
        self._tasks: dict[Kind, asyncio.Task[None]] = {}
        if spec.get("startupProbe"):
            self._start("Startup", spec["startupProbe"], self._started)
        else:
            self._started()

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _started(self) -> None:
        startup = self._tasks.pop("Startup", None)
        if startup is not None:
            startup.cancel()
        if not self._record.started:
            self._record.started = True
            self._record.ready = not self._spec.get("readinessProbe")
            self._touch()
        self._on_started()
        if self._spec.get("readinessProbe"):
            self._start("Readiness", self._spec["readinessProbe"], lambda: self._ready(True))
        if self._spec.get("livenessProbe"):
            self._start("Liveness", self._spec["livenessProbe"], lambda: None)

    def _start(self, kind: Kind, spec: JsonObject, on_success: Callable[[], None]) -> None:
        def failed(_output: str) -> None:
            if kind == "Readiness":
                self._ready(False)
            else:
                name = self._record.name
                self._on_failed(f"Container {name} failed {kind.lower()} probe, will be restarted")

        watching = watch(
            Probe.of(kind, spec),
            self._target,
            on_success=on_success,
            on_failure=failed,
            on_try_failed=lambda output: self._event(
                "Warning", "Unhealthy", f"{kind} probe failed: {output}"
            ),
        )
        name = f"{kind} probe of {self._record.name}"
        self._tasks[kind] = asyncio.create_task(watching, name=name)

    def _ready(self, ready: bool) -> None:
        if self._record.ready != ready and self._record.running:
            self._record.ready = ready
            self._touch()
