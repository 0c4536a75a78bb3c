"""A container's environment and arguments, from the pod's spec and the objects it names. Pure.

Rules: later entries win; ``$(NAME)`` refers to what is already there, ``$$`` is one dollar sign,
an unknown reference stays as it is written; what cannot be found is a ConfigError in the words of
the kubelet.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

PATH = "/.sremut/bin"
API_SERVICE = "kubernetes"

_REFERENCE = re.compile(r"\$(\$|\([^()]+\))")
_MAP_KEY = re.compile(r"\Ametadata\.(labels|annotations)\['(.+)'\]\Z")
_VARIABLE = re.compile(r"\A[-._a-zA-Z][-._a-zA-Z0-9]*\Z")


class ConfigError(Exception):
    """Something that the container's configuration names is not there."""


class Reader(Protocol):
    """What is needed of the registry."""

    def get(self, resource: str, namespace: str, name: str) -> JsonObject | None: ...

    def list(self, resource: str, namespace: str = "") -> list[JsonObject]: ...


def environment(
    registry: Reader, pod: JsonObject, container: JsonObject, *, pod_ip: str, host_ip: str
) -> dict[str, str]:
    """The environment of one container; raises ConfigError."""
    namespace = pod["metadata"]["namespace"]
    spec = pod["spec"]
    env = {"PATH": PATH, "HOSTNAME": hostname(pod), "HOME": "/root"}
    env.update(service_variables(registry, namespace, links=spec.get("enableServiceLinks", True)))
    for source in container.get("envFrom") or []:
        env.update(_env_from(registry, namespace, source))
    for entry in container.get("env") or []:
        name = entry["name"]
        if entry.get("valueFrom"):
            value = _value_from(
                registry, pod, container, entry["valueFrom"], pod_ip=pod_ip, host_ip=host_ip
            )
            if value is not None:
                env[name] = value
        else:
            env[name] = expand(entry.get("value") or "", env)
    return env


def hostname(pod: JsonObject) -> str:
    name: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return name[:63].rstrip("-.")


def arguments(container: JsonObject, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The container's command and args, expanded."""
    command = [expand(word, env) for word in container.get("command") or []]
    return command, [expand(word, env) for word in container.get("args") or []]


def expand(text: str, env: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        inner = match.group(1)
        if inner == "$":
            return "$"
        return env.get(inner[1:-1], match.group(0))

    return _REFERENCE.sub(replace, text)


def service_variables(registry: Reader, namespace: str, *, links: bool) -> dict[str, str]:
    """``WEB_SERVICE_HOST`` and its like, for the API always, for the namespace's with `links`."""
    services = []
    api = registry.get("services", "default", API_SERVICE)
    if api is not None:
        services.append(api)
    if links:
        services += registry.list("services", namespace)
    env: dict[str, str] = {}
    for service in services:
        address = service["spec"].get("clusterIP") or "None"
        ports = service["spec"].get("ports") or []
        if address != "None" and ports:
            env.update(_service(service["metadata"]["name"], address, ports))
    return env


def field_value(pod: JsonObject, path: str, *, pod_ip: str, host_ip: str) -> str:
    """A downward API field; raises ConfigError for one that there is not."""
    metadata, spec = pod["metadata"], pod["spec"]
    match = _MAP_KEY.match(path)
    if match:
        return str((metadata.get(match.group(1)) or {}).get(match.group(2), ""))
    fields: dict[str, Callable[[], Any]] = {
        "metadata.name": lambda: metadata["name"],
        "metadata.namespace": lambda: metadata["namespace"],
        "metadata.uid": lambda: metadata["uid"],
        "metadata.labels": lambda: _map_text(metadata.get("labels")),
        "metadata.annotations": lambda: _map_text(metadata.get("annotations")),
        "spec.nodeName": lambda: spec.get("nodeName", ""),
        "spec.serviceAccountName": lambda: spec.get("serviceAccountName", ""),
        "status.hostIP": lambda: host_ip,
        "status.hostIPs": lambda: host_ip,
        "status.podIP": lambda: pod_ip,
        "status.podIPs": lambda: pod_ip,
    }
    if path not in fields:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(fields[path]())


def config_data(
    registry: Reader, kind: str, namespace: str, name: str, *, optional: bool
) -> dict[str, bytes] | None:
    """Data of a ConfigMap or Secret (`kind` in lower case); None if absent and optional."""
    found = registry.get("configmaps" if kind == "configmap" else "secrets", namespace, name)
    if found is None:
        if optional:
            return None
        raise ConfigError(f'{kind} "{name}" not found')
    if kind == "secret":
        return {key: _decoded(value) for key, value in (found.get("data") or {}).items()}
    data = {key: str(value).encode() for key, value in (found.get("data") or {}).items()}
    for key, value in (found.get("binaryData") or {}).items():
        data[key] = _decoded(value)
    return data


def _env_from(registry: Reader, namespace: str, source: JsonObject) -> dict[str, str]:
    kind = "configmap" if source.get("configMapRef") else "secret"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    optional = bool(reference.get("optional"))
    data = config_data(registry, kind, namespace, reference.get("name", ""), optional=optional)
    prefix = source.get("prefix") or ""
    return {
        prefix + key: value.decode(errors="replace")
        for key, value in sorted((data or {}).items())
        if _VARIABLE.match(prefix + key)
    }


def _value_from(
    registry: Reader,
    pod: JsonObject,
    container: JsonObject,
    source: JsonObject,
    *,
    pod_ip: str,
    host_ip: str,
) -> str | None:
    if source.get("fieldRef"):
        return field_value(pod, source["fieldRef"]["fieldPath"], pod_ip=pod_ip, host_ip=host_ip)
    if source.get("resourceFieldRef"):
        return _resource(container, source["resourceFieldRef"])
    for key, kind, shown in (
        ("configMapKeyRef", "configmap", "ConfigMap"),
        ("secretKeyRef", "secret", "Secret"),
    ):
        reference = source.get(key)
        if reference is None:
            continue
        namespace = pod["metadata"]["namespace"]
        optional = bool(reference.get("optional"))
        name = reference.get("name", "")
        data = config_data(registry, kind, namespace, name, optional=optional)
        if data is None:
            return None
        wanted = reference.get("key", "")
        if wanted in data:
            return data[wanted].decode(errors="replace")
        if optional:
            return None
        raise ConfigError(f"couldn't find key {wanted} in {shown} {namespace}/{name}")
    return ""


def _resource(container: JsonObject, reference: JsonObject) -> str:
    group, _, name = reference.get("resource", "").partition(".")
    found = ((container.get("resources") or {}).get(group) or {}).get(name)
    return str(found) if found is not None else "0"


def _service(name: str, address: str, ports: Iterable[JsonObject]) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    ports = list(ports)
    first = ports[0]
    env = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(first["port"]),
        f"{prefix}_PORT": f"{first.get('protocol', 'TCP').lower()}://{address}:{first['port']}",
    }
    for port in ports:
        number, protocol = port["port"], port.get("protocol", "TCP")
        if port.get("name"):
            env[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(number)
        base = f"{prefix}_PORT_{number}_{protocol}"
        env[base] = f"{protocol.lower()}://{address}:{number}"
        env[f"{base}_PROTO"] = protocol.lower()
        env[f"{base}_PORT"] = str(number)
        env[f"{base}_ADDR"] = address
    return env


def _map_text(values: Mapping[str, str] | None) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted((values or {}).items()))


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError:
        return str(value).encode()
