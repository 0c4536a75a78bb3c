"""Protobuf bodies of the objects that kubectl makes up itself (``kubectl create ...``), and of the
release records and deletions of Helm.

Rules kept here:

* only reading: answers are JSON, which every client takes;
* a message is read by a table of its fields; a field that the table does not know and that says
  something makes the whole body unreadable (`UnreadableError`) rather than silently smaller;
* the tables hold what these send for the kinds in `ROOTS`, no more.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp

__all__ = ["MAGIC", "ROOTS", "UnreadableError", "read"]

MAGIC = b"k8s\0"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 40

# number name[:type]; [] is a list, {} a map of strings. Without a type: string.
_TABLES = """
Unknown 1 typeMeta:TypeMeta 2 raw:raw 3 contentEncoding 4 contentType
TypeMeta 1 apiVersion 2 kind
ObjectMeta 1 name 2 generateName 3 namespace 4 selfLink 5 uid 6 resourceVersion 7 generation:int
  8 creationTimestamp:Time 9 deletionTimestamp:Time 10 deletionGracePeriodSeconds:int 11 labels:{}
  12 annotations:{} 13 ownerReferences:[]OwnerReference 14 finalizers:[]
OwnerReference 1 kind 3 name 4 uid 5 apiVersion 6 controller:bool 7 blockOwnerDeletion:bool
LabelSelector 1 matchLabels:{} 2 matchExpressions:[]LabelSelectorRequirement
LabelSelectorRequirement 1 key 2 operator 3 values:[]
DeleteOptions 1 gracePeriodSeconds:int 2 preconditions:Preconditions 3 orphanDependents:bool
  4 propagationPolicy 5 dryRun:[] 6 ignoreStoreReadErrorWithClusterBreakingPotential:bool
Preconditions 1 uid 2 resourceVersion
Namespace 1 metadata:ObjectMeta 2 spec:NamespaceSpec 3 status:NamespaceStatus
NamespaceSpec 1 finalizers:[]
NamespaceStatus 1 phase
ConfigMap 1 metadata:ObjectMeta 2 data:{} 3 binaryData:{}bytes 4 immutable:bool
Secret 1 metadata:ObjectMeta 2 data:{}bytes 3 type 4 stringData:{} 5 immutable:bool
ServiceAccount 1 metadata:ObjectMeta 4 automountServiceAccountToken:bool
Service 1 metadata:ObjectMeta 2 spec:ServiceSpec 3 status:ServiceStatus
ServiceStatus 1 loadBalancer:LoadBalancerStatus
LoadBalancerStatus
ServiceSpec 1 ports:[]ServicePort 2 selector:{} 3 clusterIP 4 type 5 externalIPs:[]
  7 sessionAffinity 8 loadBalancerIP 9 loadBalancerSourceRanges:[] 10 externalName
  11 externalTrafficPolicy 12 healthCheckNodePort:int 13 publishNotReadyAddresses:bool
  17 ipFamilyPolicy 18 clusterIPs:[] 19 ipFamilies:[] 22 internalTrafficPolicy
ServicePort 1 name 2 protocol 3 port:int 4 targetPort:IntOrString 5 nodePort:int 6 appProtocol
Deployment 1 metadata:ObjectMeta 2 spec:DeploymentSpec 3 status:DeploymentStatus
DeploymentStatus 1 observedGeneration:int 2 replicas:int 3 updatedReplicas:int
  4 availableReplicas:int 5 unavailableReplicas:int 7 readyReplicas:int
DeploymentSpec 1 replicas:int 2 selector:LabelSelector 3 template:PodTemplateSpec
  4 strategy:DeploymentStrategy 5 minReadySeconds:int 6 revisionHistoryLimit:int 7 paused:bool
  9 progressDeadlineSeconds:int
DeploymentStrategy 1 type
PodTemplateSpec 1 metadata:ObjectMeta 2 spec:PodSpec
PodSpec 2 containers:[]Container 3 restartPolicy 4 terminationGracePeriodSeconds:int 6 dnsPolicy
  7 nodeSelector:{} 8 serviceAccountName 9 serviceAccount 10 nodeName 11 hostNetwork:bool
  12 hostPID:bool 13 hostIPC:bool 14 securityContext:PodSecurityContext 16 hostname 17 subdomain
  19 schedulerName
PodSecurityContext
Container 1 name 2 image 3 command:[] 4 args:[] 5 workingDir 6 ports:[]ContainerPort 7 env:[]EnvVar
  8 resources:ResourceRequirements 13 terminationMessagePath 14 imagePullPolicy 16 stdin:bool
  17 stdinOnce:bool 18 tty:bool 20 terminationMessagePolicy
ContainerPort 1 name 2 hostPort:int 3 containerPort:int 4 protocol 5 hostIP
EnvVar 1 name 2 value
ResourceRequirements 1 limits:{}Quantity 2 requests:{}Quantity
Job 1 metadata:ObjectMeta 2 spec:JobSpec 3 status:JobStatus
JobSpec 1 parallelism:int 2 completions:int 3 activeDeadlineSeconds:int 4 selector:LabelSelector
  5 manualSelector:bool 6 template:PodTemplateSpec 7 backoffLimit:int 8 ttlSecondsAfterFinished:int
  9 completionMode 10 suspend:bool
JobStatus 4 active:int 5 succeeded:int 6 failed:int
CronJob 1 metadata:ObjectMeta 2 spec:CronJobSpec 3 status:CronJobStatus
CronJobSpec 1 schedule 2 startingDeadlineSeconds:int 3 concurrencyPolicy 4 suspend:bool
  5 jobTemplate:JobTemplateSpec 6 successfulJobsHistoryLimit:int 7 failedJobsHistoryLimit:int
JobTemplateSpec 1 metadata:ObjectMeta 2 spec:JobSpec
CronJobStatus
SelfSubjectAccessReview 1 metadata:ObjectMeta 2 spec:SelfSubjectAccessReviewSpec
  3 status:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec 1 resourceAttributes:ResourceAttributes
  2 nonResourceAttributes:NonResourceAttributes
ResourceAttributes 1 namespace 2 verb 3 group 4 version 5 resource 6 subresource 7 name
NonResourceAttributes 1 path 2 verb
SubjectAccessReviewStatus 1 allowed:bool 2 reason 3 evaluationError 4 denied:bool
SelfSubjectRulesReview 1 metadata:ObjectMeta 2 spec:SelfSubjectRulesReviewSpec
  3 status:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec 1 namespace
SubjectRulesReviewStatus 3 incomplete:bool 4 evaluationError
SelfSubjectReview 1 metadata:ObjectMeta 2 status:SelfSubjectReviewStatus
SelfSubjectReviewStatus 1 userInfo:UserInfo
UserInfo 1 username 2 uid 3 groups:[]
TokenRequest 1 metadata:ObjectMeta 2 spec:TokenRequestSpec 3 status:TokenRequestStatus
TokenRequestSpec 1 audiences:[] 4 expirationSeconds:int
TokenRequestStatus 1 token 2 expirationTimestamp:Time
ResourceQuota 1 metadata:ObjectMeta 2 spec:ResourceQuotaSpec 3 status:ResourceQuotaStatus
ResourceQuotaSpec 1 hard:{}Quantity 2 scopes:[]
ResourceQuotaStatus
Role 1 metadata:ObjectMeta 2 rules:[]PolicyRule
ClusterRole 1 metadata:ObjectMeta 2 rules:[]PolicyRule
PolicyRule 1 verbs:[] 2 apiGroups:[] 3 resources:[] 4 resourceNames:[] 5 nonResourceURLs:[]
RoleBinding 1 metadata:ObjectMeta 2 subjects:[]Subject 3 roleRef:RoleRef
ClusterRoleBinding 1 metadata:ObjectMeta 2 subjects:[]Subject 3 roleRef:RoleRef
Subject 1 kind 2 apiGroup 3 name 4 namespace
RoleRef 1 apiGroup 2 kind 3 name
HorizontalPodAutoscaler 1 metadata:ObjectMeta 2 spec:HorizontalPodAutoscalerSpec
  3 status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec 1 scaleTargetRef:CrossVersionObjectReference 2 minReplicas:int
  3 maxReplicas:int 4 metrics:[]MetricSpec
HorizontalPodAutoscalerStatus 1 observedGeneration:int 3 currentReplicas:int 4 desiredReplicas:int
CrossVersionObjectReference 1 kind 2 name 3 apiVersion
MetricSpec 1 type 4 resource:ResourceMetricSource
ResourceMetricSource 1 name 2 target:MetricTarget
MetricTarget 1 type 2 value:Quantity 3 averageValue:Quantity 4 averageUtilization:int
PodDisruptionBudget 1 metadata:ObjectMeta 2 spec:PodDisruptionBudgetSpec
  3 status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec 1 minAvailable:IntOrString 2 selector:LabelSelector
  3 maxUnavailable:IntOrString 4 unhealthyPodEvictionPolicy
PodDisruptionBudgetStatus 1 observedGeneration:int 3 disruptionsAllowed:int 4 currentHealthy:int
  5 desiredHealthy:int 6 expectedPods:int
PriorityClass 1 metadata:ObjectMeta 2 value:int 3 globalDefault:bool 4 description
  5 preemptionPolicy
"""

ROOTS = frozenset(
    (
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CronJob",
        "DeleteOptions",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Job",
        "Namespace",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Secret",
        "SelfSubjectAccessReview",
        "SelfSubjectReview",
        "SelfSubjectRulesReview",
        "Service",
        "ServiceAccount",
        "TokenRequest",
    )
)
"""Kinds whose bodies can be read."""


class UnreadableError(Exception):
    """The body is no protobuf of ours, or says something that the tables do not know."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    base: str
    shape: str


def _tables() -> dict[str, dict[int, _Field]]:
    found: dict[str, dict[int, _Field]] = {}
    current: dict[int, _Field] = {}
    for line in _TABLES.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            current = {}
            found[words.pop(0)] = current
        for number, word in zip(words[::2], words[1::2], strict=True):
            name, _, kind = word.partition(":")
            shape = kind[:2] if kind[:2] in ("[]", "{}") else ""
            base = kind.removeprefix(shape) or "string"
            current[int(number)] = _Field(name, base, shape)
    return found


_MESSAGES = _tables()


def read(body: bytes) -> JsonObject:
    """The object in a body that begins with `MAGIC`.

    Raises:
        UnreadableError: it cannot be read without loss.
    """
    if not body.startswith(MAGIC):
        raise UnreadableError("it does not begin as Kubernetes protobuf does")
    envelope = _message("Unknown", body[len(MAGIC) :], 0)
    meta = envelope.get("typeMeta") or {}
    kind = meta.get("kind", "")
    if kind not in ROOTS or envelope.get("contentEncoding"):
        raise UnreadableError(f"objects of kind {kind!r} are not read")
    value = _message(kind, envelope.get("raw", b""), 0)
    return {"kind": kind, "apiVersion": meta.get("apiVersion", ""), **value}


def _message(name: str, data: bytes, depth: int) -> JsonObject:
    if depth > MAX_DEPTH:
        raise UnreadableError("it is nested too deeply")
    fields = _MESSAGES[name]
    result: JsonObject = {}
    for number, wire, payload in _parts(data):
        field = fields.get(number)
        if field is None and payload in (0, b""):
            continue  # texts and numbers are sent even when empty
        if field is None:
            raise UnreadableError(f"field {number} of {name} is not known")
        if field.shape == "{}":
            key, value = _entry(field, wire, payload, depth)
            result.setdefault(field.name, {})[key] = value
        elif field.shape == "[]":
            result.setdefault(field.name, []).append(_value(field.base, wire, payload, depth))
        else:
            value = _value(field.base, wire, payload, depth)
            if value not in (None, ""):
                result[field.name] = value
    return result


def _entry(field: _Field, wire: int, payload: Any, depth: int) -> tuple[str, Any]:
    """One entry of a map: a message with the key in 1 and the value in 2."""
    if wire != BYTES:
        raise UnreadableError(f"{field.name} is no map")
    key, value = "", _empty(field.base)
    for number, inner, part in _parts(payload):
        if number == 1:
            key = _value("string", inner, part, depth)
        elif number == 2:
            value = _value(field.base, inner, part, depth + 1)
        else:
            raise UnreadableError(f"field {number} of an entry of {field.name} is not known")
    return key, value


def _empty(base: str) -> Any:
    return "" if base in ("string", "bytes") else None


def _value(base: str, wire: int, payload: Any, depth: int) -> Any:
    if base in ("int", "bool"):
        return _number(base, wire, payload)
    if wire != BYTES:
        raise UnreadableError("a text or message is not written as one")
    match base:
        case "string":
            return _utf8(payload)
        case "bytes":
            return base64.b64encode(payload).decode()
        case "raw":
            return payload
        case "Quantity":
            return _scalar_message(payload).get(1, b"").decode("utf-8", "replace")
        case "Time":
            return _time(_scalar_message(payload))
        case "IntOrString":
            parts = _scalar_message(payload)
            if parts.get(1):
                return parts.get(3, b"").decode("utf-8", "replace")
            return parts.get(2, 0)
    return _message(base, payload, depth + 1)


def _number(base: str, wire: int, payload: Any) -> int | bool:
    if wire != VARINT:
        raise UnreadableError("a number is not written as one")
    if base == "bool":
        return bool(payload)
    return int(payload - 2**64 if payload >= 2**63 else payload)


def _utf8(payload: bytes) -> str:
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError("a text is not UTF-8") from error


def _scalar_message(data: bytes) -> dict[int, Any]:
    return {number: payload for number, _, payload in _parts(data)}


def _time(parts: dict[int, Any]) -> str | None:
    seconds = parts.get(1, 0)
    if not isinstance(seconds, int) or not 0 < seconds < 2**35:
        return None  # the zero time is no time
    return timestamp(datetime.fromtimestamp(seconds, UTC))


def _parts(data: bytes) -> list[tuple[int, int, Any]]:
    """Field number, wire type and payload of every part of a message."""
    found: list[tuple[int, int, Any]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        payload: Any
        if wire == VARINT:
            payload, at = _varint(data, at)
        elif wire == BYTES:
            size, at = _varint(data, at)
            payload, at = data[at : at + size], at + size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            payload, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise UnreadableError(f"wire type {wire} is not known")
        if at > len(data):
            raise UnreadableError("it ends in the middle")
        found.append((number, wire, payload))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise UnreadableError("it ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
