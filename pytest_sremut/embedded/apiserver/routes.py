"""From a path and a method to a resource and a verb.

Rules kept here:

* a path names a resource only in the one way that the real server serves it: cluster-wide resources
  never below a namespace, single namespaced objects never outside one;
* unknown groups answer plain text, unknown versions and resources a ``Status``, as recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pytest_sremut.embedded.apiserver.requests import Request, Verb
from pytest_sremut.embedded.meta.errors import method_not_allowed, resource_missing
from pytest_sremut.embedded.meta.resources import GROUPS, Resource, by_path

__all__ = ["Route", "UnknownPathError", "route"]

_SUB_METHODS = {
    "status": {"GET": "get", "PUT": "update", "PATCH": "patch"},
    "scale": {"GET": "get", "PUT": "update", "PATCH": "patch"},
    "finalize": {"PUT": "update"},
    "binding": {"POST": "create"},
    "eviction": {"POST": "create"},
    "token": {"POST": "create"},
    "log": {"GET": "get"},
    "exec": {"GET": "get", "POST": "create"},
    "attach": {"GET": "get", "POST": "create"},
    "portforward": {"GET": "get", "POST": "create"},
}


class UnknownPathError(Exception):
    """Nothing is served there: plain text 404."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request is about.

    Attributes:
        namespace: empty for all namespaces and for cluster-wide resources.
        name: empty for collections.
        subresource: empty for the object itself.
    """

    table: Resource
    verb: Verb
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def route(request: Request) -> Route:
    """Read the path of a request below ``/api/`` or ``/apis/``.

    Raises:
        UnknownPathError: the group is not served.
        ApiStatus: 404 or 405.
    """
    parts = [unquote(part) for part in request.path.split("/") if part]
    group, version, rest = _group_version(parts)
    watching = rest[:1] == ["watch"]
    if watching:
        rest = rest[1:]
    table, namespace, rest = _resource(group, version, rest)
    name = rest[0] if rest else ""
    subresource = "/".join(rest[1:])
    if subresource and subresource not in table.subresources:
        raise resource_missing()
    if name and table.namespaced and not namespace:
        raise resource_missing()
    verb = _verb(request, table, namespace, name, subresource)
    if watching:
        if verb not in ("get", "list"):
            raise method_not_allowed()
        verb = "watch"
    return Route(table=table, verb=verb, namespace=namespace, name=name, subresource=subresource)


def _group_version(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[0] == "api":
        return "", parts[1], parts[2:]
    if parts[1] not in GROUPS:
        raise UnknownPathError
    return parts[1], parts[2], parts[3:]


def _resource(group: str, version: str, rest: list[str]) -> tuple[Resource, str, list[str]]:
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    table = by_path(group, version, rest[0]) if rest else None
    if table is None or (namespace and not table.namespaced):
        raise resource_missing()
    return table, namespace, rest[1:]


def _verb(request: Request, table: Resource, namespace: str, name: str, subresource: str) -> Verb:
    method = "GET" if request.method == "HEAD" else request.method
    verb: str | None
    if subresource:
        verb = _SUB_METHODS.get(subresource, {}).get(method)
    elif name:
        verb = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    else:
        verb = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}.get(method)
        if table.namespaced and not namespace and verb not in ("list", None):
            verb = None
    if verb is None or (not subresource and verb not in table.verbs):
        raise method_not_allowed()
    if verb == "list" and request.flag("watch"):
        return "watch"
    return verb  # type: ignore[return-value]
