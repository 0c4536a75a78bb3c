"""One container's life: prepare, run, watch, restart or not.

Rules:
- a container is restarted as its policy says: at once the first time, then after 10 s, 20 s, ...
  up to 5 minutes, counted anew after it has run for 10 minutes;
- what it waits for is shown in its state (ErrImagePull, CreateContainerConfigError,
  CrashLoopBackOff, ...) with the words of the kubelet;
- stopping is final: the process gets TERM, its grace, then KILL, and nothing is started any more;
- every descriptor opened here is closed here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from pytest_sremut.embedded.kubelet.environment import ConfigError, arguments, environment
from pytest_sremut.embedded.kubelet.images import Image, parse_reference
from pytest_sremut.embedded.kubelet.logs import LogBuffer, LogPipe
from pytest_sremut.embedded.kubelet.probes.probe import Probe, Target, attempt
from pytest_sremut.embedded.kubelet.probes.probing import Probing
from pytest_sremut.embedded.kubelet.pulling import ImageWait, happens
from pytest_sremut.embedded.kubelet.status import ContainerRecord
from pytest_sremut.embedded.kubelet.view import Node, PodView
from pytest_sremut.embedded.kubelet.volumes import MountError
from pytest_sremut.embedded.kubelet.zygote_client import Process, StartError
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp

RUNTIME = "sremut"
BACKOFF_FIRST = 10.0
BACKOFF_LONGEST = 300.0
BACKOFF_FORGOTTEN = 600.0
CONFIG_RETRY = 10.0
_MESSAGE_LIMIT = 4096
_EPOCH = "1970-01-01T00:00:00Z"
_START_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)
_START_ERROR_CODE = 128


class ContainerLoop:
    """Runs one container of a pod until it is stopped or has ended for good."""

    def __init__(
        self, node: Node, view: PodView, spec: JsonObject, *, init: bool, restart_policy: str
    ) -> None:
        self._node = node
        self._view = view
        self._init = init
        self._policy = restart_policy
        self.name: str = spec["name"]
        self.record = ContainerRecord(name=self.name, image=spec["image"])
        self.log: LogBuffer | None = None
        self.previous_log: LogBuffer | None = None
        self.env: dict[str, str] = {}
        self.process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._images = ImageWait(node.images, view, self.record, self._event)
        self._stopping = False
        self._killing: asyncio.Task[None] | None = None
        self._restarts = 0
        self._ended_at = 0.0
        self._started_at = 0.0
        self.up = asyncio.Event()

    # Life

    def start(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run(), name=f"container {self.name}")
        return self._task

    async def stop(self, deadline: Callable[[], float]) -> None:
        """End the container for good; `deadline` (loop time) may come nearer meanwhile."""
        self._stopping = True
        if self._task is None:
            return
        if self.process is None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            return
        if self._killing is not None:
            self._killing.cancel()
        self._event("Normal", "Killing", f"Stopping container {self.name}")
        await self._kill(deadline)
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            request, image = await self._prepared()
            started = await self._start(request, image)
            if started is not None:
                await self._watched(started)
            if self._stopping or not self._restarts_after(self.record.exit_code or 0):
                self.record.done = True
                self._view.touch()
                return
            await self._backed_off()
            self.record.restart_count += 1

    def _restarts_after(self, code: int) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and code != 0)

    # Before it runs

    async def _prepared(self) -> tuple[JsonObject, Image]:
        """Wait until the image and everything that the configuration names is there."""
        image = await self._images.wait(self._spec)
        while True:
            changed = self._view.changed()
            spec = self._spec()
            try:
                self.env = environment(
                    self._node.registry,
                    self._view.pod,
                    spec,
                    pod_ip=self._view.pod_ip,
                    host_ip=self._view.host_ip,
                )
                return self._request(spec, image), image
            except (ConfigError, MountError) as error:
                self._wait_state("CreateContainerConfigError", str(error))
                self._event("Warning", "Failed", f"Error: {error}")
            await happens(changed.wait(), CONFIG_RETRY)

    def _request(self, spec: JsonObject, image: Image) -> JsonObject:
        command, args = arguments(spec, self.env)
        self._message_path = self._view.message_file(self.name)
        request: JsonObject = {
            "env": self.env,
            "cwd": spec.get("workingDir") or "/",
            "hostname": self.env["HOSTNAME"],
            "root": self._view.root_of(spec, self._message_path),
        }
        if command or image.kind == "commands":
            return request | {"kind": "commands", "argv": (command + args) or ["sh"]}
        if image.kind == "pause":
            module, function = "pytest_sremut.embedded.kubelet.zygote", "pause"
        else:
            module, function = image.module, image.function
        return request | {"kind": "python", "module": module, "function": function, "argv": args}

    # Running

    async def _start(self, request: JsonObject, image: Image) -> datetime | None:
        """Start the process; None where there was nothing to run."""
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        record = self.record
        self.previous_log, self.log = self.log, LogBuffer()
        record.image = str(parse_reference(self._spec()["image"]))
        record.image_id = image.digest
        record.container_id = f"{RUNTIME}://{secrets.token_hex(32)}"
        self._event("Normal", "Created", "Container created")
        reader, writer = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._pipe = LogPipe(reader, self.log, loop)
        try:
            self.process = await self._node.zygote.start(request, (null, writer, writer))
        except StartError as error:
            self._pipe.finish()
            message = _START_ERROR + str(error)
            self._event("Warning", "Failed", f"Error: {message}")
            self._terminated(_START_ERROR_CODE, "StartError", _EPOCH, message)
            return None
        except BaseException:
            self._pipe.finish()
            raise
        finally:
            os.close(writer)
            os.close(null)
        now = self._node.now()
        record.state = {"running": {"startedAt": timestamp(now)}}
        spec = self._spec()
        record.started = not spec.get("startupProbe")
        # An init container is ready when it has succeeded; a sidecar as any other container.
        passing = self._init and self._policy != "Always"
        record.ready = record.started and not passing and not spec.get("readinessProbe")
        self._event("Normal", "Started", "Container started")
        self._view.touch()
        if record.started:
            self.up.set()
        return now

    async def _watched(self, started: datetime) -> None:
        assert self.process is not None
        process = self.process
        probing = Probing(
            self._spec(),
            self.record,
            Target(address=self._view.pod_ip, ports=_ports(self._spec()), run=self.run_command),
            touch=self._view.touch,
            on_started=self.up.set,
            on_failed=self.restart,
            event=self._event,
        )
        try:
            code = await process.exited
        finally:
            probing.stop()
        if self._killing is not None and not self._stopping:
            self._killing.cancel()
        self._killing = None
        self.process = None
        self._pipe.finish()
        code = 128 - code if code < 0 else code
        reason = "Completed" if code == 0 else "Error"
        self._terminated(code, reason, timestamp(started), self._message(code))

    def _terminated(self, code: int, reason: str, started: str, message: str) -> None:
        record = self.record
        if "terminated" in record.state:
            record.last_state = record.state
        terminated: JsonObject = {"exitCode": code, "reason": reason}
        if message:
            terminated["message"] = message
        terminated |= {
            "startedAt": started,
            "finishedAt": timestamp(self._node.now()),
            "containerID": record.container_id,
        }
        record.state = {"terminated": terminated}
        record.started = False
        record.ready = False
        self.up.clear()
        self._ended_at = asyncio.get_running_loop().time()
        if self._stopping or not self._restarts_after(code):
            record.done = True
        self._view.touch()

    def _message(self, code: int) -> str:
        """The termination message, from its file or, if asked for, from the end of the log."""
        try:
            text = self._message_path.read_bytes()[:_MESSAGE_LIMIT]
        except OSError:
            text = b""
        policy = self._spec().get("terminationMessagePolicy")
        if not text and code and policy == "FallbackToLogsOnError" and self.log is not None:
            text = self.log.tail(2048)
        return text.decode(errors="replace")

    async def _backed_off(self) -> None:
        """Wait before the next start, if the container has been restarted before."""
        loop = asyncio.get_running_loop()
        if self._ended_at - self._started_at >= BACKOFF_FORGOTTEN:
            self._restarts = 0
        self._restarts += 1
        record = self.record
        if self._restarts > 1:
            pause = min(BACKOFF_FIRST * 2 ** (self._restarts - 2), BACKOFF_LONGEST)
            metadata = self._view.pod["metadata"]
            pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            # The end of the container is seen before the back-off, as on a real node.
            await asyncio.sleep(0)
            record.last_state, terminated = record.state, record.state["terminated"]
            shown = f"{pause:g}s" if pause < 60 else f"{int(pause // 60)}m{int(pause % 60)}s"
            self._wait_state(
                "CrashLoopBackOff",
                f"back-off {shown} restarting failed container={self.name} pod={pod}",
            )
            self._event(
                "Warning",
                "BackOff",
                f"Back-off restarting failed container {self.name} in pod {pod}",
            )
            changed = self._view.changed()
            image = self._spec()["image"]
            until = self._ended_at + pause
            while await happens(changed.wait(), until - loop.time()):
                changed = self._view.changed()
                if self._spec()["image"] != image:
                    break
            record.state = {"terminated": terminated}
        record.last_state = record.state

    # Ending

    def restart(self, why: str) -> None:
        """End the process; the restart policy decides what follows."""
        if self.process is None or self._stopping or self._killing is not None:
            return
        self._event("Normal", "Killing", why)
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_of(self._view.pod)
        self._killing = asyncio.create_task(self._kill(lambda: until))

    async def _kill(self, deadline: Callable[[], float]) -> None:
        """preStop, TERM, and KILL at the deadline."""
        process = self.process
        if process is None:
            return
        loop = asyncio.get_running_loop()
        await self._pre_stop(deadline() - loop.time())
        self._node.zygote.signal(process, signal.SIGTERM)
        while not process.exited.done():
            left = deadline() - loop.time()
            if left <= 0:
                self._node.zygote.signal(process, signal.SIGKILL)
                await asyncio.wait((process.exited,))
                return
            # The deadline may come nearer, by a second delete of the pod.
            await asyncio.wait((process.exited,), timeout=min(left, 0.1))

    async def _pre_stop(self, seconds: float) -> None:
        hook = (self._spec().get("lifecycle") or {}).get("preStop")
        if not hook or seconds <= 0:
            return
        if hook.get("sleep") is not None:
            await asyncio.sleep(min(seconds, float(hook["sleep"].get("seconds") or 0)))
            return
        probe = Probe.of("Liveness", hook | {"timeoutSeconds": seconds})
        target = Target(address=self._view.pod_ip, ports=_ports(self._spec()), run=self.run_command)
        result = await attempt(probe, target)
        if not result.success:
            self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {result.output}")

    async def run_command(self, argv: list[str], timeout: float) -> tuple[int, str]:
        """Run a command in the container; its exit code and output. Raises TimeoutError."""
        process = self.process
        if process is None:
            return 1, "container is not running"
        loop = asyncio.get_running_loop()
        output = LogBuffer(limit=10 * 1024)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        pipe = LogPipe(reader, output, loop)
        request = {
            "kind": "commands",
            "argv": argv,
            "env": self.env,
            "cwd": self._spec().get("workingDir") or "/",
            "target": process.pid,
        }
        try:
            child = await self._node.zygote.start(request, (null, writer, writer))
        except StartError as error:
            return 126, str(error)
        finally:
            os.close(writer)
            os.close(null)
        try:
            async with asyncio.timeout(timeout):
                code = await asyncio.shield(child.exited)
        except BaseException:
            self._node.zygote.signal(child, signal.SIGKILL, group=True)
            raise
        finally:
            pipe.finish()
        return (128 - code if code < 0 else code), output.tail(10 * 1024).decode(errors="replace")

    @property
    def working_directory(self) -> str:
        return self._spec().get("workingDir") or "/"

    # Small things

    def _spec(self) -> JsonObject:
        """The container as the pod's spec has it now: its image may be changed."""
        group = "initContainers" if self._init else "containers"
        found: JsonObject = next(c for c in self._view.pod["spec"][group] if c["name"] == self.name)
        return found

    def _wait_state(self, reason: str, message: str) -> None:
        self.record.wait(reason, message)
        self._view.touch()

    def _event(self, kind: str, reason: str, message: str) -> None:
        group = "initContainers" if self._init else "containers"
        self._view.event(kind, reason, message, f"spec.{group}{{{self.name}}}")


def grace_of(pod: JsonObject) -> float:
    """Seconds between TERM and KILL."""
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


def _ports(spec: JsonObject) -> dict[str, int]:
    """The container's ports that have a name."""
    return {
        port["name"]: port["containerPort"] for port in spec.get("ports") or [] if port.get("name")
    }
