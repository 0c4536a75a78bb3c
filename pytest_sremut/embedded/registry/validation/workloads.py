"""Rules of Deployments, ReplicaSets, DaemonSets, Jobs and disruption budgets."""

from __future__ import annotations

import re
from typing import Any

from pytest_sremut.embedded.meta.fielderrors import FieldErrors
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


def check_deployment(value: JsonObject, errors: FieldErrors) -> None:
    """Replicas, selector, template, strategy and deadlines of a Deployment."""
    spec = value.get("spec") or {}
    errors.at_least_zero("spec.replicas", spec.get("replicas"))
    _check_selector(spec, "deployment", errors)
    _check_template(spec, errors)
    _check_strategy(spec.get("strategy") or {}, errors)
    errors.at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors.at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    errors.at_least_zero("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def check_replica_set(value: JsonObject, errors: FieldErrors) -> None:
    """Replicas, selector and template of a ReplicaSet or StatefulSet."""
    spec = value.get("spec") or {}
    errors.at_least_zero("spec.replicas", spec.get("replicas"))
    errors.at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    kind = "statefulset" if value.get("kind") == "StatefulSet" else "deployment"
    _check_selector(spec, kind, errors)
    _check_template(spec, errors)


def check_daemon_set(value: JsonObject, errors: FieldErrors) -> None:
    """Selector and template of a DaemonSet."""
    spec = value.get("spec") or {}
    _check_selector(spec, "daemonset", errors)
    _check_template(spec, errors)


def check_selector_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """A selector, once there, stays."""
    after = (value.get("spec") or {}).get("selector")
    if after != (old.get("spec") or {}).get("selector"):
        errors.invalid("spec.selector", after, IMMUTABLE)


def _check_selector(spec: JsonObject, kind: str, errors: FieldErrors) -> None:
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
        return
    _check_label_selector(selector, "spec.selector", errors)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _check_label_selector(selector: JsonObject, place: str, errors: FieldErrors) -> None:
    for key, item in (selector.get("matchLabels") or {}).items():
        errors.each_invalid(f"{place}.matchLabels", key, qualified_name(key))
        errors.each_invalid(f"{place}.matchLabels", item, label_value(item))
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        where = f"{place}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            errors.required(
                f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            errors.forbidden(
                f"{where}.values",
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
        elif operator not in OPERATORS:
            errors.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = expression.get("key", "")
        errors.each_invalid(f"{where}.key", key, qualified_name(key))


def _check_template(spec: JsonObject, errors: FieldErrors) -> None:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if selector and not selector_of(selector).matches(labels):
        errors.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    check_labels(labels, "spec.template.labels", errors)
    pod = template.get("spec") or {}
    check_pod_spec(pod, "spec.template.spec", errors)
    policy = pod.get("restartPolicy")
    if policy not in (None, "Always"):
        errors.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        errors.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        )


def _check_strategy(strategy: JsonObject, errors: FieldErrors) -> None:
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        errors.unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
        return
    place = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            errors.forbidden(place, "may not be specified when strategy `type` is 'Recreate'")
        return
    rolling = rolling or {}
    for key in ("maxUnavailable", "maxSurge"):
        _check_share(f"{place}.{key}", rolling.get(key, 0), errors)
    if (
        _percent_or_number(rolling.get("maxUnavailable", 0))
        == 0
        == _percent_or_number(rolling.get("maxSurge", 0))
    ):
        errors.invalid(
            f"{place}.maxUnavailable",
            rolling.get("maxUnavailable", 0),
            "may not be 0 when `maxSurge` is 0",
        )


def _check_share(place: str, value: Any, errors: FieldErrors) -> None:
    if isinstance(value, int):
        errors.at_least_zero(place, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        errors.invalid(
            place,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', "
            " or '93%', regex used for validation is '[0-9]+%')",
        )


def _percent_or_number(value: Any) -> int:
    digits = str(value).rstrip("%")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 1


def check_job(value: JsonObject, errors: FieldErrors) -> None:
    """Counts, deadlines and template of a Job."""
    _check_job_spec(value.get("spec") or {}, "spec", errors)


def _check_job_spec(spec: JsonObject, place: str, errors: FieldErrors) -> None:
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        errors.at_least_zero(f"{place}.{key}", spec.get(key))
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    check_labels(labels, f"{place}.template.labels", errors)
    pod = template.get("spec") or {}
    check_pod_spec(pod, f"{place}.template.spec", errors)
    policy = pod.get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        errors.unsupported(f"{place}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))


def check_job_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """What a Job runs stays."""
    new_spec, old_spec = value.get("spec") or {}, old.get("spec") or {}
    for key in ("selector", "template", "completionMode"):
        if new_spec.get(key) != old_spec.get(key):
            if key == "template" and old_spec.get("suspend"):
                continue
            errors.invalid(f"spec.{key}", new_spec.get(key), IMMUTABLE)
    if new_spec.get("completions") != old_spec.get("completions"):
        errors.invalid("spec.completions", new_spec.get("completions"), IMMUTABLE)


def check_cron_job(value: JsonObject, errors: FieldErrors) -> None:
    """Schedule, policy and template of a CronJob."""
    spec = value.get("spec") or {}
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    _check_job_spec(job, "spec.jobTemplate.spec", errors)
    if not spec.get("schedule"):
        errors.required("spec.schedule")
    policy = spec.get("concurrencyPolicy")
    errors.one_of("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))


def check_budget(value: JsonObject, errors: FieldErrors) -> None:
    """A disruption budget has one limit, not two."""
    spec = value.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        errors.invalid("spec", {}, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            _check_share(f"spec.{key}", spec[key], errors)
    if spec.get("selector"):
        _check_label_selector(spec["selector"], "spec.selector", errors)
