"""The row of a pod: ready count, status text, restarts.

Rules kept here:

* the status text is the reason that says most: of the pod, then of its init containers, then of
  its containers; ``Terminating`` once it is being deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time
from pytest_sremut.embedded.printers.values import age, duration

__all__ = ["pod_conditions", "pod_status", "print_pod"]

NONE = "<none>"


def print_pod(value: JsonObject, now: datetime) -> list[Any]:
    """The cells of a pod."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    containers = status.get("containerStatuses") or []
    total = len(spec.get("containers") or []) + len(_sidecars(spec))
    ready = sum(
        1 for item in containers if item.get("ready") and _state(item, "running") is not None
    )
    ready += sum(
        1
        for item in status.get("initContainerStatuses") or []
        if item.get("name") in _sidecars(spec) and item.get("ready")
    )
    gates = spec.get("readinessGates") or []
    met = {
        item.get("type") for item in status.get("conditions") or [] if item.get("status") == "True"
    }
    passed = sum(1 for gate in gates if gate.get("conditionType") in met)
    return [
        value["metadata"].get("name", ""),
        f"{ready}/{total}",
        pod_status(value),
        _restarts(value, now),
        age(value, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def pod_conditions(value: JsonObject) -> list[JsonObject]:
    """The row's own conditions: a pod that is through can be greyed out."""
    phase = (value.get("status") or {}).get("phase")
    if phase == "Succeeded":
        message = "The pod has completed successfully."
    elif phase == "Failed":
        message = "The pod failed."
    else:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def pod_status(value: JsonObject) -> str:
    """The STATUS column."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    text: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    initializing, text = _init_status(spec, status, text)
    if not initializing or _initialized(status):
        text = _container_status(status, text)
    if "deletionTimestamp" in value["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return text


def _init_status(spec: JsonObject, status: JsonObject, text: str) -> tuple[bool, str]:
    containers = status.get("initContainerStatuses") or []
    sidecars = _sidecars(spec)
    for index, item in enumerate(containers):
        terminated, waiting = _state(item, "terminated"), _state(item, "waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if item.get("name") in sidecars and item.get("started"):
            continue
        if terminated is not None:
            return True, "Init:" + (terminated.get("reason") or _exit(terminated))
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{index}/{len(spec.get('initContainers') or [])}"
    return False, text


def _container_status(status: JsonObject, text: str) -> str:
    running = False
    for item in reversed(status.get("containerStatuses") or []):
        terminated, waiting = _state(item, "terminated"), _state(item, "waiting")
        if waiting is not None and waiting.get("reason"):
            text = waiting["reason"]
        elif terminated is not None:
            text = terminated.get("reason") or _exit(terminated)
        elif item.get("ready") and _state(item, "running") is not None:
            running = True
    if text == "Completed" and running:
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )
        return "Running" if ready else "NotReady"
    return text


def _restarts(value: JsonObject, now: datetime) -> str:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    sidecars = _sidecars(spec)
    init = status.get("initContainerStatuses") or []
    initializing, _ = _init_status(spec, status, "")
    if initializing and not _initialized(status):
        counted = init
    else:
        counted = [item for item in init if item.get("name") in sidecars]
        counted += status.get("containerStatuses") or []
    total = sum(int(item.get("restartCount") or 0) for item in counted)
    moments = []
    for item in counted:
        last = (item.get("lastState") or {}).get("terminated") or {}
        if isinstance(last.get("finishedAt"), str):
            moments.append(parse_time(last["finishedAt"]))
    if total and moments:
        return f"{total} ({duration((now - max(moments)).total_seconds())} ago)"
    return str(total)


def _initialized(status: JsonObject) -> bool:
    return any(
        item.get("type") == "Initialized" and item.get("status") == "True"
        for item in status.get("conditions") or []
    )


def _sidecars(spec: JsonObject) -> set[str]:
    return {
        item.get("name", "")
        for item in spec.get("initContainers") or []
        if item.get("restartPolicy") == "Always"
    }


def _state(item: JsonObject, name: str) -> JsonObject | None:
    found = (item.get("state") or {}).get(name)
    return found if isinstance(found, dict) else None


def _exit(terminated: JsonObject) -> str:
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"
