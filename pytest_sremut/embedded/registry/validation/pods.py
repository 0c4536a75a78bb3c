"""Rules of pods, pod templates and claims."""

from __future__ import annotations

import re
from typing import Any

from pytest_sremut.embedded.meta.fielderrors import FieldErrors
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.names import (
    dns_label,
    dns_subdomain,
    label_value,
    port_name,
    qualified_name,
)
from pytest_sremut.embedded.meta.quantity import parse

__all__ = [
    "check_claim",
    "check_claim_update",
    "check_labels",
    "check_pod",
    "check_pod_spec",
    "check_pod_update",
]

RESTART_POLICIES = ("Always", "Never", "OnFailure")
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
UPDATE_SENTENCE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_ENV_NAME = re.compile(r"[ -<>-~]+\Z")


def check_labels(labels: JsonObject, place: str, errors: FieldErrors) -> None:
    """Keys and values of labels."""
    for key, item in labels.items():
        errors.each_invalid(place, key, qualified_name(key))
        errors.each_invalid(place, item, label_value(item))


def check_pod(value: JsonObject, errors: FieldErrors) -> None:
    """A pod's specification."""
    check_pod_spec(value.get("spec") or {}, "spec", errors)


def check_pod_spec(spec: JsonObject, place: str, errors: FieldErrors) -> None:
    """The specification of a pod or a pod template at `place`."""
    volumes = _check_volumes(spec.get("volumes") or [], f"{place}.volumes", errors)
    names: set[str] = set()
    containers = spec.get("containers") or []
    if not containers:
        errors.required(f"{place}.containers")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or []):
            where = f"{place}.{key}[{index}]"
            _check_container(container, where, names, volumes, errors)
    errors.one_of(f"{place}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES)
    errors.one_of(f"{place}.dnsPolicy", spec.get("dnsPolicy"), DNS_POLICIES)
    check_labels(spec.get("nodeSelector") or {}, f"{place}.nodeSelector", errors)
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            errors.each_invalid(f"{place}.{key}", spec[key], dns_label(spec[key]))
    for key in ("serviceAccountName", "nodeName"):
        if spec.get(key):
            errors.each_invalid(f"{place}.{key}", spec[key], dns_subdomain(spec[key]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        errors.invalid(
            f"{place}.activeDeadlineSeconds",
            deadline,
            "must be between 1 and 2147483647, inclusive",
        )
    errors.at_least_zero(
        f"{place}.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds")
    )


def _check_volumes(volumes: list[JsonObject], place: str, errors: FieldErrors) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{place}[{index}]"
        name = volume.get("name", "")
        if not name:
            errors.required(f"{where}.name")
        else:
            errors.each_invalid(f"{where}.name", name, dns_label(name))
        if name in names:
            errors.duplicate(f"{where}.name", name)
        names.add(name)
        sources = [key for key in volume if key != "name"]
        for source in sources[1:]:
            errors.forbidden(f"{where}.{source}", "may not specify more than 1 volume type")
        path = volume.get("hostPath")
        if path is not None and not path.get("path"):
            errors.required(f"{where}.hostPath.path")
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            errors.required(f"{where}.persistentVolumeClaim.claimName")
    return names


def _check_container(
    container: JsonObject, place: str, names: set[str], volumes: set[str], errors: FieldErrors
) -> None:
    name = container.get("name", "")
    if not name:
        errors.required(f"{place}.name")
    else:
        errors.each_invalid(f"{place}.name", name, dns_label(name))
        if name in names:
            errors.duplicate(f"{place}.name", name)
    names.add(name)
    image = container.get("image", "")
    if not image:
        errors.required(f"{place}.image")
    elif image != image.strip():
        errors.invalid(f"{place}.image", image, "must not have leading or trailing whitespace")
    _check_ports(container.get("ports") or [], f"{place}.ports", errors)
    for index, variable in enumerate(container.get("env") or []):
        _check_variable(variable, f"{place}.env[{index}]", errors)
    _check_mounts(container.get("volumeMounts") or [], f"{place}.volumeMounts", volumes, errors)
    for key in PROBES:
        if container.get(key) is not None:
            _check_probe(container[key], f"{place}.{key}", key, errors)
    policy = container.get("imagePullPolicy", "")
    errors.one_of(f"{place}.imagePullPolicy", policy, PULL_POLICIES)
    _check_claims(container.get("resources") or {}, f"{place}.resources", errors)


def _check_ports(ports: list[JsonObject], place: str, errors: FieldErrors) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{place}[{index}]"
        name = port.get("name", "")
        if name:
            errors.each_invalid(f"{where}.name", name, port_name(name))
            if name in names:
                errors.duplicate(f"{where}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            errors.required(f"{where}.containerPort")
        else:
            errors.port(f"{where}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            errors.port(f"{where}.hostPort", port["hostPort"])
        errors.one_of(f"{where}.protocol", port.get("protocol"), PROTOCOLS)


def _check_variable(variable: JsonObject, place: str, errors: FieldErrors) -> None:
    name = variable.get("name", "")
    if not name:
        errors.required(f"{place}.name")
    elif not _ENV_NAME.match(name):
        errors.invalid(
            f"{place}.name",
            name,
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='",
        )
    source = variable.get("valueFrom")
    if source is None:
        return
    if not source:
        errors.invalid(
            f"{place}.valueFrom",
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`",
        )
    if variable.get("value"):
        errors.invalid(f"{place}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        errors.invalid(
            f"{place}.valueFrom", "", "may not have more than one field specified at a time"
        )


def _check_mounts(
    mounts: list[JsonObject], place: str, volumes: set[str], errors: FieldErrors
) -> None:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{place}[{index}]"
        if not mount.get("name"):
            errors.required(f"{where}.name")
        elif mount["name"] not in volumes:
            errors.not_found(f"{where}.name", mount["name"])
        path = mount.get("mountPath", "")
        if not path:
            errors.required(f"{where}.mountPath")
        if path in paths:
            errors.invalid(f"{where}.mountPath", path, "must be unique")
        paths.add(path)


def _check_probe(probe: JsonObject, place: str, kind: str, errors: FieldErrors) -> None:
    handlers = [key for key in HANDLERS if probe.get(key) is not None]
    if not handlers:
        errors.required(place, "must specify a handler type")
    for key in handlers[1:]:
        errors.forbidden(f"{place}.{key}", "may not specify more than 1 handler type")
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        errors.at_least_zero(f"{place}.{key}", probe.get(key))
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.invalid(f"{place}.successThreshold", probe["successThreshold"], "must be 1")
    for key in ("httpGet", "tcpSocket", "grpc"):
        action = probe.get(key)
        if action is None:
            continue
        port = action.get("port", 0)
        if isinstance(port, str):
            errors.each_invalid(f"{place}.{key}.port", port, port_name(port))
        else:
            errors.port(f"{place}.{key}.port", port)
    action = probe.get("exec")
    if action is not None and not action.get("command"):
        errors.required(f"{place}.exec.command")


def _check_claims(resources: JsonObject, place: str, errors: FieldErrors) -> None:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for group, claims in (("limits", limits), ("requests", requests)):
        for name, quantity in claims.items():
            if parse(quantity) < 0:
                errors.invalid(
                    f"{place}.{group}[{name}]",
                    quantity,
                    "must be greater than or equal to 0",
                )
    for name, quantity in requests.items():
        if name in limits and parse(quantity) > parse(limits[name]):
            errors.invalid(
                f"{place}.requests",
                quantity,
                f"must be less than or equal to {name} limit of {limits[name]}",
            )


def check_pod_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Of a pod's specification only a few fields may change."""
    new_spec, old_spec = value.get("spec") or {}, old.get("spec") or {}
    for key in ("containers", "initContainers"):
        if len(new_spec.get(key) or []) != len(old_spec.get(key) or []):
            errors.forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    allowed = clone(new_spec)
    for key in ("containers", "initContainers"):
        before = old_spec.get(key) or []
        for container, old_container in zip(allowed.get(key) or [], before, strict=True):
            container["image"] = old_container.get("image", "")
    for key in ("activeDeadlineSeconds",):
        _restore(allowed, old_spec, key)
    added = new_spec.get("tolerations") or []
    if all(item in added for item in old_spec.get("tolerations") or []):
        _restore(allowed, old_spec, "tolerations")
    if old_spec.get("terminationGracePeriodSeconds", 0) < 0:
        _restore(allowed, old_spec, "terminationGracePeriodSeconds")
    if old_spec.get("schedulingGates") and not new_spec.get("schedulingGates"):
        _restore(allowed, old_spec, "schedulingGates")
    if allowed != old_spec:
        errors.forbidden("spec", UPDATE_SENTENCE)


def _restore(target: JsonObject, source: JsonObject, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def check_claim(value: JsonObject, errors: FieldErrors) -> None:
    """A claim says how it is accessed and how much it wants."""
    spec = value.get("spec") or {}
    modes: Any = spec.get("accessModes") or []
    if not modes:
        errors.required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.unsupported("spec.accessModes", mode, ACCESS_MODES)
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if wanted is None:
        errors.required("spec.resources[storage]")
    elif parse(wanted) <= 0:
        errors.invalid("spec.resources[storage]", wanted, "must be greater than zero")


def check_claim_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """A claim's specification stays, but for its size and the volume it is bound to."""
    new_spec, old_spec = clone(value.get("spec") or {}), old.get("spec") or {}
    for key in ("resources", "volumeAttributesClassName"):
        _restore(new_spec, old_spec, key)
    if not old_spec.get("volumeName"):
        _restore(new_spec, old_spec, "volumeName")
    if new_spec != old_spec:
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims",
        )
