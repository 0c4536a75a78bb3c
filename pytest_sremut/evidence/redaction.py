"""What of a cluster's objects may be kept as evidence: an allow-list per kind, nothing by default.

Never kept: Secret values, tokens, environment values that come from a Secret or look secret or
generated, commands and arguments, probe headers, `managedFields`, last-applied configurations. Of a
kind that is not listed only its identity is kept. Credentials in texts that are kept are redacted.
`redact_value` does this for whatever a grader returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_sremut.ground.durable.text_redaction import (
    REDACTED,
    looks_random,
    looks_secret,
    redact_bytes,
    redact_json,
    redact_text,
)

__all__ = ["KINDS", "REDACTED", "redact", "redact_bytes", "redact_text", "redact_value"]

Rule = Callable[[Any], Any]


def redact(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an object that may be kept; a fresh value, JSON-ready.

    Args:
        kind: Of the object, since items of a list do not carry it.
        body: As the server sent it, or a list of that kind (`kind: <Kind>List` with `items`).
    """
    if isinstance(body.get("items"), list) and "spec" not in body:
        items = [redact(kind, item) for item in body["items"] if isinstance(item, Mapping)]
        return {"kind": f"{kind}List", "items": items}
    rule = _KINDS.get(kind, _UNKNOWN)
    kept: dict[str, Any] = rule(body)
    return {"kind": kind, **kept}


def redact_value(value: Any) -> Any:
    """A fresh JSON value: objects of a cluster in it reduced as ours are, all else redacted."""
    return redact_json(value, reduce=_reduced)


def _reduced(kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(body.get("items"), list):
        return redact(kind.removesuffix("List"), body)
    return redact(kind, body)


# -- rules -----------------------------------------------------------------------------------


def _keep(value: Any) -> Any:
    """Scalars, and whatever they are nested in; every text redacted."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {str(key): _keep(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_keep(item) for item in value]
    return value


def _only(*plain: str, **nested: Rule) -> Rule:
    """Of a mapping, these keys: `plain` as they are, `nested` by a rule. Of a list, each item."""

    def apply(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [apply(item) for item in value]
        if not isinstance(value, Mapping):
            return None
        kept: dict[str, Any] = {}
        for key, item in value.items():
            rule = nested.get(key) or (_keep if key in plain else None)
            if rule is not None:
                kept[key] = rule(item)
        return kept

    return apply


def _annotations(allowed: Callable[[str], bool]) -> Rule:
    def apply(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return {}
        return {
            key: redact_text(item) if not looks_secret(key) else REDACTED
            for key, item in value.items()
            if isinstance(key, str) and isinstance(item, str) and allowed(key)
        }

    return apply


_KNOWN_ANNOTATIONS: Final = frozenset(
    {
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "endpoints.kubernetes.io/over-capacity",
        "kubectl.kubernetes.io/restartedAt",
    }
)
_LAST_APPLIED: Final = re.compile(r".*last-applied-configuration", re.IGNORECASE)


def _metadata(annotations: Rule) -> Rule:
    return _only(
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        labels=_labels,
        annotations=annotations,
        ownerReferences=_only(
            "apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"
        ),
    )


def _labels(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): REDACTED if looks_secret(str(key)) else _keep(value[key]) for key in value}


_META: Final = _metadata(_annotations(_KNOWN_ANNOTATIONS.__contains__))
# A Service is what is captured and restored, so its annotations are kept like its other fields.
_SERVICE_META: Final = _metadata(_annotations(lambda key: not _LAST_APPLIED.fullmatch(key)))


def _environment(value: Any) -> Any:
    if not isinstance(value, list):
        return []
    return [_variable(item) for item in value if isinstance(item, Mapping)]


def _variable(item: Mapping[str, Any]) -> dict[str, Any]:
    name = str(item.get("name", ""))
    kept: dict[str, Any] = {"name": name}
    if isinstance(item.get("valueFrom"), Mapping):
        kept["valueFrom"] = _VALUE_FROM(item["valueFrom"])
        # A server never sends both; whoever does may have resolved the reference.
        return {**kept, "value": REDACTED} if "value" in item else kept
    if "value" in item:
        text = item["value"]
        secret = not isinstance(text, str) or looks_secret(name) or looks_random(text)
        kept["value"] = REDACTED if secret else redact_text(text)
    return kept


_NAMED_KEY: Final = _only("name", "key", "optional")
_VALUE_FROM: Final = _only(
    secretKeyRef=_NAMED_KEY,
    configMapKeyRef=_NAMED_KEY,
    fieldRef=_only("apiVersion", "fieldPath"),
    resourceFieldRef=_only("containerName", "resource", "divisor"),
)
_PROBE: Final = _only(
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "successThreshold",
    "failureThreshold",
    httpGet=_only("path", "port", "scheme"),
    tcpSocket=_only("port"),
)
_CONTAINER: Final = _only(
    "name",
    "image",
    "imagePullPolicy",
    "ports",
    "resources",
    "workingDir",
    env=_environment,
    envFrom=_only("prefix", secretRef=_only("name"), configMapRef=_only("name")),
    readinessProbe=_PROBE,
    livenessProbe=_PROBE,
    startupProbe=_PROBE,
    volumeMounts=_only("name", "mountPath", "readOnly"),
)
_VOLUME: Final = _only(
    "name",
    "emptyDir",
    configMap=_only("name", "optional"),
    secret=_only("secretName", "optional"),
    persistentVolumeClaim=_only("claimName", "readOnly"),
)
_POD_SPEC: Final = _only(
    "nodeName",
    "nodeSelector",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "serviceAccountName",
    "dnsPolicy",
    "hostNetwork",
    "hostAliases",
    "readinessGates",
    "schedulerName",
    "priority",
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    volumes=_VOLUME,
)
_CONTAINER_STATUS: Final = _only(
    "name",
    "ready",
    "restartCount",
    "image",
    "imageID",
    "containerID",
    "started",
    "state",
    "lastState",
)
_POD_STATUS: Final = _only(
    "phase",
    "conditions",
    "podIP",
    "podIPs",
    "hostIP",
    "startTime",
    "qosClass",
    "reason",
    "message",
    containerStatuses=_CONTAINER_STATUS,
    initContainerStatuses=_CONTAINER_STATUS,
)
_TEMPLATE: Final = _only(metadata=_META, spec=_POD_SPEC)
_SCALE_STATUS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
    "observedGeneration",
    "conditions",
    "collisionCount",
)
_REFERENCE: Final = _only(
    "apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath"
)
_SERVICE_SPEC: Final = _only(
    "type",
    "selector",
    "ports",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
    "sessionAffinityConfig",
    "internalTrafficPolicy",
    "externalTrafficPolicy",
    "trafficDistribution",
    "publishNotReadyAddresses",
    "healthCheckNodePort",
    "allocateLoadBalancerNodePorts",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
)
_ADDRESS: Final = _only("ip", "hostname", "nodeName", targetRef=_REFERENCE)

_KINDS: Final[Mapping[str, Rule]] = {
    "Service": _only("apiVersion", "status", metadata=_SERVICE_META, spec=_SERVICE_SPEC),
    "Endpoints": _only(
        "apiVersion",
        metadata=_META,
        subsets=_only("ports", addresses=_ADDRESS, notReadyAddresses=_ADDRESS),
    ),
    "EndpointSlice": _only(
        "apiVersion",
        "addressType",
        "ports",
        metadata=_META,
        endpoints=_only(
            "addresses", "conditions", "hostname", "nodeName", "zone", "hints", targetRef=_REFERENCE
        ),
    ),
    "Pod": _only("apiVersion", metadata=_META, spec=_POD_SPEC, status=_POD_STATUS),
    "Deployment": _only(
        "apiVersion",
        metadata=_META,
        spec=_only(
            "replicas",
            "selector",
            "strategy",
            "paused",
            "minReadySeconds",
            "revisionHistoryLimit",
            "progressDeadlineSeconds",
            template=_TEMPLATE,
        ),
        status=_only(*_SCALE_STATUS),
    ),
    "ReplicaSet": _only(
        "apiVersion",
        metadata=_META,
        spec=_only("replicas", "selector", "minReadySeconds", template=_TEMPLATE),
        status=_only(*_SCALE_STATUS),
    ),
    "Job": _only(
        "apiVersion",
        metadata=_META,
        spec=_only(
            "parallelism",
            "completions",
            "backoffLimit",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
            "completionMode",
            "suspend",
            "selector",
            template=_TEMPLATE,
        ),
        status=_only(
            "active",
            "succeeded",
            "failed",
            "ready",
            "startTime",
            "completionTime",
            "conditions",
        ),
    ),
    "Event": _only(
        "apiVersion",
        "type",
        "reason",
        "message",
        "count",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "source",
        "reportingComponent",
        metadata=_META,
        involvedObject=_REFERENCE,
    ),
    "Node": _only(
        "apiVersion",
        metadata=_META,
        spec=_only("unschedulable", "taints"),
        status=_only("conditions", "nodeInfo", "capacity", "allocatable"),
    ),
    "Namespace": _only("apiVersion", metadata=_META, status=_only("phase", "conditions")),
}

KINDS: Final = frozenset(_KINDS)
"""Kinds of which more than the identity is kept."""

_UNKNOWN: Final = _only("apiVersion", metadata=_only("name", "namespace", "uid", labels=_labels))
