"""Rows of printed tables for workloads: what runs pods, and how many."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time
from pytest_sremut.embedded.meta.selectors import format_label_selector
from pytest_sremut.embedded.printers.values import (
    NONE,
    UNKNOWN,
    Printer,
    age,
    containers_of,
    duration,
    labels_text,
    name_of,
    since,
    spec_of,
    status_of,
)

__all__ = ["WORKLOAD_PRINTERS"]


def _template(value: JsonObject) -> list[str]:
    return containers_of((spec_of(value).get("template") or {}).get("spec") or {})


def _deployment(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    return [
        name_of(value),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(value, now),
        *_template(value),
        format_label_selector(spec.get("selector")),
    ]


def _replica_set(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    return [
        name_of(value),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(value, now),
        *_template(value),
        format_label_selector(spec.get("selector")),
    ]


def _stateful_set(value: JsonObject, now: datetime) -> list[Any]:
    ready = f"{status_of(value).get('readyReplicas', 0)}/{spec_of(value).get('replicas', 1)}"
    return [name_of(value), ready, age(value, now), *_template(value)]


def _daemon_set(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    pod = (spec.get("template") or {}).get("spec") or {}
    return [
        name_of(value),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text(pod.get("nodeSelector")),
        age(value, now),
        *_template(value),
        format_label_selector(spec.get("selector")),
    ]


def _revision(value: JsonObject, now: datetime) -> list[Any]:
    owners = value["metadata"].get("ownerReferences") or []
    owner = next((item for item in owners if item.get("controller")), None)
    name = NONE
    if owner is not None:
        group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        kind = str(owner.get("kind", "")).lower()
        name = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name')}"
    return [name_of(value), name, value.get("revision", 0), age(value, now)]


def _job(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        parallelism = spec.get("parallelism") or 0
        of = f" of {parallelism}" if parallelism > 1 else ""
        completions = f"{succeeded}/1{of}"
    return [
        name_of(value),
        _job_state(value),
        completions,
        _job_duration(status, now),
        age(value, now),
        *_template(value),
        format_label_selector(spec.get("selector")),
    ]


def _job_state(value: JsonObject) -> str:
    met = {
        item.get("type")
        for item in status_of(value).get("conditions") or []
        if item.get("status") == "True"
    }
    for condition, text in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in met:
            return text
    if "deletionTimestamp" in value["metadata"]:
        return "Terminating"
    for condition, text in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in met:
            return text
    return "Running"


def _job_duration(status: JsonObject, now: datetime) -> str:
    start = status.get("startTime")
    if not isinstance(start, str):
        return ""
    end = status.get("completionTime")
    finish = parse_time(end) if isinstance(end, str) else now
    return duration((finish - parse_time(start)).total_seconds())


def _cron_job(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    last = status.get("lastScheduleTime")
    pod = (((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}).get("spec")
    return [
        name_of(value),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or []),
        since(last, now) if last else NONE,
        age(value, now),
        *containers_of(pod or {}),
        NONE,
    ]


def _budget(value: JsonObject, now: datetime) -> list[Any]:
    spec = spec_of(value)
    return [
        name_of(value),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status_of(value).get("disruptionsAllowed", 0),
        age(value, now),
    ]


def _autoscaler(value: JsonObject, now: datetime) -> list[Any]:
    spec = spec_of(value)
    target = spec.get("scaleTargetRef") or {}
    return [
        name_of(value),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        UNKNOWN if spec.get("metrics") else NONE,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status_of(value).get("currentReplicas", 0),
        age(value, now),
    ]


WORKLOAD_PRINTERS: dict[str, Printer] = {
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "controllerrevisions.apps": _revision,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "poddisruptionbudgets.policy": _budget,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
}
