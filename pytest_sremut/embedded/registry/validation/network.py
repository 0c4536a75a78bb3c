"""Rules of Services, Endpoints and EndpointSlices."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from pytest_sremut.embedded.meta.fielderrors import FieldErrors
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.names import (
    dns_label,
    dns_subdomain,
    label_value,
    port_name,
    qualified_name,
)

__all__ = [
    "check_endpoints",
    "check_service",
    "check_service_update",
    "check_slice",
    "check_slice_update",
]

PROTOCOLS = ("SCTP", "TCP", "UDP")
SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def check_service(value: JsonObject, errors: FieldErrors) -> None:
    """Ports, selector, type and addresses of a Service."""
    spec = value.get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        errors.required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.invalid(
            "spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"
        )
    if kind == "ExternalName":
        _check_external_name(spec, errors)
    names: set[str] = set()
    for index, port in enumerate(ports):
        _check_service_port(f"spec.ports[{index}]", port, len(ports) > 1, names, errors)
    for key, item in (spec.get("selector") or {}).items():
        errors.each_invalid("spec.selector", key, qualified_name(key))
        errors.each_invalid("spec.selector", item, label_value(item))
    errors.one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    address = spec.get("clusterIP")
    if address and address != "None" and not _is_ip(address):
        errors.invalid("spec.clusterIPs[0]", [address], NOT_AN_ADDRESS)
    for index, item in enumerate(spec.get("externalIPs") or []):
        _check_usable(f"spec.externalIPs[{index}]", item, errors)
    errors.one_of("spec.type", kind, SERVICE_TYPES)
    _check_unique_ports(ports, kind, errors)
    _check_policies(spec, kind, errors)


def _check_policies(spec: JsonObject, kind: str, errors: FieldErrors) -> None:
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in ("Cluster", "Local"):
        errors.unsupported("spec.internalTrafficPolicy", policy, ("Cluster", "Local"))
    policy = spec.get("externalTrafficPolicy")
    if policy is not None:
        if kind not in ("NodePort", "LoadBalancer"):
            errors.invalid(
                "spec.externalTrafficPolicy",
                policy,
                "may only be set for externally-accessible services",
            )
        elif policy not in ("Cluster", "Local"):
            errors.unsupported("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))


def _check_external_name(spec: JsonObject, errors: FieldErrors) -> None:
    if spec.get("clusterIP"):
        errors.forbidden("spec.clusterIP", "may not be set when `type` is 'ExternalName'")
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        errors.required("spec.externalName")
    else:
        errors.each_invalid("spec.externalName", name, dns_subdomain(name))


def _check_service_port(
    place: str, port: JsonObject, named: bool, names: set[str], errors: FieldErrors
) -> None:
    name = port.get("name", "")
    if named and not name:
        errors.required(f"{place}.name")
    elif name:
        errors.each_invalid(f"{place}.name", name, dns_label(name))
        if name in names:
            errors.duplicate(f"{place}.name", name)
        names.add(name)
    errors.port(f"{place}.port", port.get("port", 0))
    protocol = port.get("protocol", "")
    errors.one_of(f"{place}.protocol", protocol, PROTOCOLS)
    target = port.get("targetPort")
    if isinstance(target, str):
        errors.each_invalid(f"{place}.targetPort", target, port_name(target))
    elif target is not None:
        errors.port(f"{place}.targetPort", target)


def _check_unique_ports(ports: list[JsonObject], kind: str, errors: FieldErrors) -> None:
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        if port.get("nodePort") and kind not in ("NodePort", "LoadBalancer"):
            errors.forbidden(
                f"spec.ports[{index}].nodePort", f"may not be used when `type` is '{kind}'"
            )
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            errors.duplicate(f"spec.ports[{index}]", {"protocol": key[0], "port": key[1]})
        seen.add(key)


def check_service_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """A cluster IP, once there, stays."""
    new_spec, old_spec = value.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" in (new_spec.get("type"), old_spec.get("type")):
        return
    before, after = old_spec.get("clusterIP"), new_spec.get("clusterIP")
    if before and after != before:
        shown = [after] if after else []
        errors.invalid("spec.clusterIPs[0]", shown, "may not change once set")


def check_endpoints(value: JsonObject, errors: FieldErrors) -> None:
    """Addresses and ports of Endpoints."""
    for index, subset in enumerate(value.get("subsets") or []):
        place = f"subsets[{index}]"
        ready, rest = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not rest:
            errors.required(place, "must specify `addresses` or `notReadyAddresses`")
        for name, addresses in (("addresses", ready), ("notReadyAddresses", rest)):
            for number, address in enumerate(addresses):
                _check_usable(f"{place}.{name}[{number}].ip", address.get("ip", ""), errors)
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            where = f"{place}.ports[{number}]"
            if len(ports) > 1 and not port.get("name"):
                errors.required(f"{where}.name")
            elif port.get("name"):
                errors.each_invalid(f"{where}.name", port["name"], dns_label(port["name"]))
            errors.port(f"{where}.port", port.get("port", 0))
            errors.one_of(f"{where}.protocol", port.get("protocol", ""), PROTOCOLS)


def check_slice(value: JsonObject, errors: FieldErrors) -> None:
    """Address type, endpoints and ports of an EndpointSlice."""
    kind = value.get("addressType", "")
    errors.one_of("addressType", kind, ADDRESS_TYPES)
    for index, endpoint in enumerate(value.get("endpoints") or []):
        place = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            errors.required(place, "must contain at least 1 address")
        for number, address in enumerate(addresses):
            if kind == "FQDN":
                errors.each_invalid(f"{place}[{number}]", address, dns_subdomain(address))
            elif kind in ADDRESS_TYPES:
                _check_usable(f"{place}[{number}]", address, errors)
    _check_slice_ports(value, errors)


def _check_slice_ports(value: JsonObject, errors: FieldErrors) -> None:
    names: set[str] = set()
    for index, port in enumerate(value.get("ports") or []):
        name = port.get("name", "")
        if name in names:
            errors.duplicate(f"ports[{index}].name", name)
        names.add(name)
        if name:
            errors.each_invalid(f"ports[{index}].name", name, dns_label(name))
        if port.get("protocol") not in PROTOCOLS:
            errors.unsupported(f"ports[{index}].protocol", port.get("protocol"), PROTOCOLS)
        if port.get("port") is not None:
            errors.port(f"ports[{index}].port", port["port"])


def check_slice_update(value: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """The address type stays."""
    if value.get("addressType") != old.get("addressType"):
        errors.invalid("addressType", value.get("addressType", ""), "field is immutable")


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_usable(place: str, text: str, errors: FieldErrors) -> None:
    """Addresses that traffic can be sent to: no loopback, link-local or unspecified ones."""
    if not _is_ip(text):
        errors.invalid(place, text, NOT_AN_ADDRESS)
        return
    address = ip_address(text)
    if address.is_unspecified:
        errors.invalid(place, text, "may not be unspecified (0.0.0.0 or ::)")
    if address.is_loopback:
        errors.invalid(place, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        errors.invalid(
            place, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        )
    local: tuple[IPv4Network | IPv6Network, ...] = (
        IPv4Network("224.0.0.0/24"),
        IPv6Network("ff02::/16"),
    )
    if any(address in network for network in local if network.version == address.version):
        errors.invalid(
            place, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        )
