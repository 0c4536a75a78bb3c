"""Rules of Deployments, ReplicaSets, DaemonSets, Jobs and disruption budgets."""

from __future__ import annotations

import re
from typing import Any

from pytest_sremut.embedded.meta.fielderrors import Complaints
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.names import label_value, qualified_name
from pytest_sremut.embedded.meta.selectors import selector_of
from pytest_sremut.embedded.registry.validation.pods import check_labels, check_pod_spec

__all__ = [
    "check_budget",
    "check_cron_job",
    "check_daemon_set",
    "check_deployment",
    "check_job",
    "check_job_update",
    "check_replica_set",
    "check_selector_update",
]

OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
IMMUTABLE = "field is immutable"


def check_deployment(value: JsonObject, complaints: Complaints) -> None:
    """Replicas, selector, template, strategy and deadlines of a Deployment."""
    spec = value.get("spec") or {}
    complaints.at_least_zero("spec.replicas", spec.get("replicas"))
    _check_selector(spec, "deployment", complaints)
    _check_template(spec, complaints)
    _check_strategy(spec.get("strategy") or {}, complaints)
    complaints.at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    complaints.at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    complaints.at_least_zero("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        complaints.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def check_replica_set(value: JsonObject, complaints: Complaints) -> None:
    """Replicas, selector and template of a ReplicaSet or StatefulSet."""
    spec = value.get("spec") or {}
    complaints.at_least_zero("spec.replicas", spec.get("replicas"))
    complaints.at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    kind = "statefulset" if value.get("kind") == "StatefulSet" else "deployment"
    _check_selector(spec, kind, complaints)
    _check_template(spec, complaints)


def check_daemon_set(value: JsonObject, complaints: Complaints) -> None:
    """Selector and template of a DaemonSet."""
    spec = value.get("spec") or {}
    _check_selector(spec, "daemonset", complaints)
    _check_template(spec, complaints)


def check_selector_update(value: JsonObject, old: JsonObject, complaints: Complaints) -> None:
    """A selector, once there, stays."""
    after = (value.get("spec") or {}).get("selector")
    if after != (old.get("spec") or {}).get("selector"):
        complaints.invalid("spec.selector", after, IMMUTABLE)


def _check_selector(spec: JsonObject, kind: str, complaints: Complaints) -> None:
    selector = spec.get("selector")
    if selector is None:
        complaints.required("spec.selector")
        return
    _check_label_selector(selector, "spec.selector", complaints)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        complaints.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _check_label_selector(selector: JsonObject, place: str, complaints: Complaints) -> None:
    for key, item in (selector.get("matchLabels") or {}).items():
        complaints.each_invalid(f"{place}.matchLabels", key, qualified_name(key))
        complaints.each_invalid(f"{place}.matchLabels", item, label_value(item))
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        where = f"{place}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            complaints.required(
                f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            complaints.forbidden(
                f"{where}.values",
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
        elif operator not in OPERATORS:
            complaints.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = expression.get("key", "")
        complaints.each_invalid(f"{where}.key", key, qualified_name(key))


def _check_template(spec: JsonObject, complaints: Complaints) -> None:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if selector and not selector_of(selector).matches(labels):
        complaints.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    check_labels(labels, "spec.template.labels", complaints)
    pod = template.get("spec") or {}
    check_pod_spec(pod, "spec.template.spec", complaints)
    policy = pod.get("restartPolicy")
    if policy not in (None, "Always"):
        complaints.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        complaints.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        )


def _check_strategy(strategy: JsonObject, complaints: Complaints) -> None:
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        complaints.unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
        return
    place = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            complaints.forbidden(place, "may not be specified when strategy `type` is 'Recreate'")
        return
    rolling = rolling or {}
    for key in ("maxUnavailable", "maxSurge"):
        _check_share(f"{place}.{key}", rolling.get(key, 0), complaints)
    if (
        _percent_or_number(rolling.get("maxUnavailable", 0))
        == 0
        == _percent_or_number(rolling.get("maxSurge", 0))
    ):
        complaints.invalid(
            f"{place}.maxUnavailable",
            rolling.get("maxUnavailable", 0),
            "may not be 0 when `maxSurge` is 0",
        )


def _check_share(place: str, value: Any, complaints: Complaints) -> None:
    if isinstance(value, int):
        complaints.at_least_zero(place, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        complaints.invalid(
            place,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', "
            " or '93%', regex used for validation is '[0-9]+%')",
        )


def _percent_or_number(value: Any) -> int:
    digits = str(value).rstrip("%")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 1


def check_job(value: JsonObject, complaints: Complaints) -> None:
    """Counts, deadlines and template of a Job."""
    _check_job_spec(value.get("spec") or {}, "spec", complaints)


def _check_job_spec(spec: JsonObject, place: str, complaints: Complaints) -> None:
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        complaints.at_least_zero(f"{place}.{key}", spec.get(key))
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    check_labels(labels, f"{place}.template.labels", complaints)
    pod = template.get("spec") or {}
    check_pod_spec(pod, f"{place}.template.spec", complaints)
    policy = pod.get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        complaints.unsupported(
            f"{place}.template.spec.restartPolicy", policy, ("OnFailure", "Never")
        )


def check_job_update(value: JsonObject, old: JsonObject, complaints: Complaints) -> None:
    """What a Job runs stays."""
    new_spec, old_spec = value.get("spec") or {}, old.get("spec") or {}
    for key in ("selector", "template", "completionMode"):
        if new_spec.get(key) != old_spec.get(key):
            if key == "template" and old_spec.get("suspend"):
                continue
            complaints.invalid(f"spec.{key}", new_spec.get(key), IMMUTABLE)
    if new_spec.get("completions") != old_spec.get("completions"):
        complaints.invalid("spec.completions", new_spec.get("completions"), IMMUTABLE)


def check_cron_job(value: JsonObject, complaints: Complaints) -> None:
    """Schedule, policy and template of a CronJob."""
    spec = value.get("spec") or {}
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    _check_job_spec(job, "spec.jobTemplate.spec", complaints)
    if not spec.get("schedule"):
        complaints.required("spec.schedule")
    policy = spec.get("concurrencyPolicy")
    complaints.one_of("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))


def check_budget(value: JsonObject, complaints: Complaints) -> None:
    """A disruption budget has one limit, not two."""
    spec = value.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        complaints.invalid("spec", {}, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            _check_share(f"spec.{key}", spec[key], complaints)
    if spec.get("selector"):
        _check_label_selector(spec["selector"], "spec.selector", complaints)
