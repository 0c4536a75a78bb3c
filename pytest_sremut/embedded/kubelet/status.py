"""A pod's status from what its containers are doing. Pure; held against recorded statuses.

Rules:
- a condition keeps its transition time while its status stays;
- phase follows the kubelet: Pending until every container has started once, Running while one
  runs or will be restarted, Succeeded or Failed when all have ended for good;
- a pod that is being deleted ends by its exit codes, whatever its restart policy;
- Succeeded and Failed are said last, when the pod's sandbox is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pytest_sremut.embedded.meta import quantity
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

_PRESERVED = ("PodScheduled", "DisruptionTarget")
_FINISHED = ("Succeeded", "Failed")
STATUS_UNKNOWN = "ContainerStatusUnknown"


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """What is known of one container now; the only mutable thing, owned by its loop."""

    name: str
    image: str
    state: JsonObject = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: JsonObject = field(default_factory=dict)
    image_id: str = ""
    container_id: str = ""
    restart_count: int = 0
    started: bool = False
    ready: bool = False
    done: bool = False  # has ended and will not be restarted

    def wait(self, reason: str, message: str) -> None:
        """The container does not run, for a reason."""
        self.state = {"waiting": {"reason": reason, "message": message}}

    def give_up(self) -> None:
        """The pod has been stopped; a container that is not seen to have ended counts as failed."""
        if "terminated" not in self.state:
            self.state = {
                "terminated": {
                    "exitCode": 137,
                    "reason": STATUS_UNKNOWN,
                    "message": "The container could not be located when the pod was terminated",
                    "startedAt": None,
                    "finishedAt": None,
                }
            }
            self.started = self.ready = False

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Exit code of the current state, None unless it is terminated."""
        terminated = self.state.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """Everything a status is made of besides the pod object itself."""

    init: Sequence[ContainerRecord]
    containers: Sequence[ContainerRecord]
    sandbox_ready: bool
    stopping: bool
    pod_ip: str
    host_ip: str
    start_time: str


def pod_status(pod: JsonObject, facts: PodFacts, now: str) -> JsonObject:
    """The whole status of a pod; `now` is the transition time of what changes."""
    old = pod.get("status") or {}
    generation = pod["metadata"].get("generation", 1)
    phase = pod_phase(pod, facts)
    shown = phase
    if phase in _FINISHED and facts.sandbox_ready and old.get("phase") not in _FINISHED:
        shown = str(old.get("phase") or "Running")  # not final before everything is torn down
    status: JsonObject = {"observedGeneration": generation, "phase": shown}
    given_up = any(
        record.state.get("terminated", {}).get("reason") == STATUS_UNKNOWN
        for record in facts.containers
    )
    # As recorded: the conditions then still tell of containers that are not ready.
    told = "Running" if given_up else phase
    status["conditions"] = _conditions(pod, facts, told, generation, now)
    for key in ("message", "reason", "nominatedNodeName"):
        if old.get(key):
            status[key] = old[key]
    status["hostIP"] = facts.host_ip
    status["hostIPs"] = [{"ip": facts.host_ip}]
    if facts.pod_ip:
        status["podIP"] = facts.pod_ip
        status["podIPs"] = [{"ip": facts.pod_ip}]
    status["startTime"] = facts.start_time
    spec = pod["spec"]
    if facts.init:
        status["initContainerStatuses"] = [
            _container(record, _named(spec["initContainers"], record.name)) for record in facts.init
        ]
    status["containerStatuses"] = [
        _container(record, _named(spec["containers"], record.name))
        for record in sorted(facts.containers, key=lambda record: record.name)
    ]
    status["qosClass"] = old.get("qosClass", "BestEffort")
    status["resources"] = {}
    if any(record.container_id for record in facts.containers):
        resources = _total_resources(spec["containers"])
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
        status["resources"] = resources
    return status


def pod_phase(pod: JsonObject, facts: PodFacts) -> str:
    """Pending, Running, Succeeded or Failed."""
    ended_before = (pod.get("status") or {}).get("phase")
    if ended_before in _FINISHED:
        return str(ended_before)
    if unfinished := _phase_of_init(pod, facts):
        return unfinished
    running = waiting = stopped = succeeded = 0
    for record in facts.containers:
        if record.running:
            running += 1
        elif record.exit_code is not None:
            stopped += 1
            succeeded += record.exit_code == 0
        elif "terminated" in record.last_state:
            stopped += 1
        else:
            waiting += 1
    if waiting:
        return "Pending"
    policy = pod["spec"].get("restartPolicy", "Always")
    if running or (policy == "Always" and not facts.stopping):
        return "Running"
    if succeeded == stopped:
        return "Succeeded"
    return "Failed" if policy == "Never" or facts.stopping else "Running"


def _phase_of_init(pod: JsonObject, facts: PodFacts) -> str:
    """Pending or Failed while an init container has not succeeded; empty after the last one."""
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    for record in facts.init:
        if record.name in sidecars:
            if "waiting" in record.state and not record.last_state:
                return "Pending"
        elif record.exit_code != 0:
            ended = record.done or facts.stopping
            return "Failed" if ended and record.exit_code is not None else "Pending"
    return ""


def _conditions(
    pod: JsonObject, facts: PodFacts, phase: str, generation: int, now: str
) -> list[JsonObject]:
    old = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    unready = [record.name for record in facts.containers if not record.ready]
    incomplete = [record.name for record in facts.init if not _initialised(record)]
    wanted: list[tuple[str, bool, str, str]] = [
        ("PodReadyToStartContainers", facts.sandbox_ready, "", "")
    ]
    if phase == "Succeeded":
        wanted.append(("Initialized", True, "PodCompleted", ""))
        ready = containers_ready = (False, "PodCompleted", "")
    else:
        if incomplete:
            message = f"containers with incomplete status: [{' '.join(incomplete)}]"
            wanted.append(("Initialized", False, "ContainersNotInitialized", message))
        else:
            wanted.append(("Initialized", True, "", ""))
        if phase == "Failed":
            ready = containers_ready = (False, "PodFailed", "")
        elif unready:
            message = f"containers with unready status: [{' '.join(unready)}]"
            ready = containers_ready = (False, "ContainersNotReady", message)
        else:
            containers_ready = (True, "", "")
            ready = _gates(pod, old) or (True, "", "")
    wanted.append(("Ready", *ready))
    wanted.append(("ContainersReady", *containers_ready))
    conditions = [
        _condition(old.get(entry[0]), entry, generation=generation, now=now) for entry in wanted
    ]
    made = {condition["type"] for condition in conditions}
    for name, condition in old.items():
        if name not in made:
            kept = dict(condition)
            if name in _PRESERVED:
                kept = {"type": name, "observedGeneration": generation} | {
                    key: value for key, value in condition.items() if key != "observedGeneration"
                }
            conditions.append(kept)
    return conditions


def _condition(
    before: JsonObject | None, wanted: tuple[str, bool, str, str], *, generation: int, now: str
) -> JsonObject:
    """A condition from (type, holds, reason, message)."""
    name, holds, reason, message = wanted
    status = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before.get("status") == status else now
    condition: JsonObject = {
        "type": name,
        "observedGeneration": generation,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _gates(pod: JsonObject, old: Mapping[str, JsonObject]) -> tuple[bool, str, str] | None:
    """Why the readiness gates hold the pod back; None where they do not."""
    missing = []
    for gate in pod["spec"].get("readinessGates") or []:
        name = gate["conditionType"]
        if name not in old:
            missing.append(
                f'corresponding condition of pod readiness gate "{name}" does not exist.'
            )
        elif old[name].get("status") != "True":
            missing.append(f'the status of pod readiness gate "{name}" is not "True", but False')
    return (False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else None


def _initialised(record: ContainerRecord) -> bool:
    return record.exit_code == 0 or (record.running and record.ready)


def _container(record: ContainerRecord, spec: JsonObject) -> JsonObject:
    status: JsonObject = {
        "name": record.name,
        "state": record.state,
        "lastState": record.last_state,
        "ready": record.ready,
        "restartCount": record.restart_count,
        "image": record.image,
        "imageID": record.image_id,
    }
    if record.container_id:
        status["containerID"] = record.container_id
    status["started"] = record.started
    if record.container_id:
        resources = spec.get("resources") or {}
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
        status["resources"] = resources
    mounts = []
    for mount in spec.get("volumeMounts") or []:
        shown = {"name": mount["name"], "mountPath": mount["mountPath"]}
        if mount.get("readOnly"):
            shown |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
        mounts.append(shown)
    if mounts:
        status["volumeMounts"] = mounts
    if record.container_id:
        status["user"] = {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0]}}
    return status


def _total_resources(containers: Iterable[JsonObject]) -> dict[str, Any]:
    """Requests and limits of all containers together."""
    totals: dict[str, dict[str, tuple[Fraction, str]]] = {}
    for container in containers:
        for group in ("limits", "requests"):
            for name, text in ((container.get("resources") or {}).get(group) or {}).items():
                amounts = totals.setdefault(group, {})
                amount, _ = amounts.get(name, (Fraction(0), ""))
                amounts[name] = (amount + quantity.parse(str(text)), str(text))
    return {
        group: {name: _amount_text(amount, like) for name, (amount, like) in amounts.items()}
        for group, amounts in totals.items()
    }


def _amount_text(amount: Fraction, like: str) -> str:
    """An amount in the words of `like` if it is that amount, else as plainly as possible."""
    if quantity.parse(like) == amount:
        return like
    if amount.denominator == 1:
        return quantity.canonical(
            str(amount.numerator) if not like.endswith("i") else _binary(amount)
        )
    return quantity.canonical(f"{-(-amount.numerator * 1000 // amount.denominator)}m")


def _binary(amount: Fraction) -> str:
    whole = int(amount)
    return f"{whole // 1024}Ki" if whole % 1024 == 0 else str(whole)


def _named(containers: Iterable[JsonObject], name: str) -> JsonObject:
    return next(container for container in containers if container["name"] == name)
