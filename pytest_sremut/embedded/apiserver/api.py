"""The API server without the server: one request in, one answer out.

Rules kept here:

* `Api.handle` never raises: whatever a client sends is answered: object, ``Status`` or text;
* authentication first, then the path, then what the user may do, then the request itself;
* nothing here waits: what goes on after the answer began (watches, logs, commands) is handed back
  as a call for the HTTP layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from pytest_sremut.embedded.apiserver import (
    deleting,
    discovery,
    openapi,
    podcalls,
    reading,
    reviews,
    subresources,
    writing,
)
from pytest_sremut.embedded.apiserver.answers import Answer, Response
from pytest_sremut.embedded.apiserver.authorization import Attributes, Authorizer, Tokens, User
from pytest_sremut.embedded.apiserver.negotiation import negotiate
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route, UnknownPathError, route
from pytest_sremut.embedded.meta.errors import (
    ApiStatus,
    bad_request,
    method_not_allowed,
    resource_missing,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["Api"]

TEXT = "text/plain; charset=utf-8"
PROTO_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_BY_NAME = re.compile(r"metadata\.name==?([^=,!]+)")
_INTO_PODS = frozenset(("exec", "attach", "portforward"))
_REVIEWS = frozenset(("authentication.k8s.io", "authorization.k8s.io"))

Handler = Callable[[Registry, Request, Route], Answer]
_VERBS: Mapping[str, Handler] = {
    "get": reading.get_object,
    "list": reading.list_objects,
    "watch": reading.watch_objects,
    "update": writing.update,
    "patch": writing.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}
_SUBRESOURCES: Mapping[str, Handler] = {
    "scale": subresources.scale,
    "binding": subresources.bind,
    "eviction": subresources.evict,
    "finalize": subresources.finalize,
    "log": podcalls.log_call,
    "exec": podcalls.exec_call,
    "attach": partial(podcalls.exec_call, attach=True),
    "portforward": podcalls.forward_call,
}


class Api:
    """Answers requests about a registry.

    Args:
        registry: the objects.
        tokens: who may ask.
        status: answers ``GET /sremut/v1/NAME`` by name; ``access``, what service accounts asked
            for, is always there.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        tokens: Tokens | None = None,
        status: Mapping[str, Callable[[], JsonObject]] | None = None,
    ) -> None:
        self.registry = registry
        self.tokens = tokens or Tokens()
        self.tokens.attach(registry)
        self.authorizer = Authorizer(registry)
        self._status = {"access": self._access, **(status or {})}

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        try:
            return self._answer(request)
        except UnknownPathError:
            return _text(404, "404 page not found\n")
        except ApiStatus as status:
            return _failure(request, status)

    def _answer(self, request: Request) -> Answer:
        user = self.tokens.user(request.headers)
        parts = [part for part in request.path.split("/") if part]
        if request.method not in METHODS or "\0" in request.path:
            raise bad_request("the request cannot be read")
        served = _is_resource_path(parts)
        if not served:
            return self._document(request, parts, user)
        found = route(request)
        attributes = _attributes(request, found)
        self.authorizer.check(user, attributes)
        if found.subresource in _INTO_PODS and found.verb == "get":
            # A WebSocket begins as a GET; since 1.35 it must be allowed as what it is, too.
            self.authorizer.check(user, replace(attributes, verb="create"))
        return self._dispatch(request, found, user)

    def _access(self) -> JsonObject:
        return {"asked": self.authorizer.asked()}

    def _dispatch(self, request: Request, found: Route, user: User) -> Answer:
        registry = self.registry
        if found.subresource and found.subresource != "status":
            return self._subresource(request, found)
        if found.verb != "create":
            return _VERBS[found.verb](registry, request, found)
        if found.table.group in _REVIEWS:
            return reviews.review(
                registry,
                request,
                found,
                user,
                authorizer=self.authorizer,
                tokens=self.tokens,
            )
        return writing.create(registry, request, found)

    def _subresource(self, request: Request, found: Route) -> Answer:
        if found.subresource == "token":
            return subresources.issue_token(self.registry, request, found, self.tokens.issue)
        if found.subresource not in _SUBRESOURCES:
            raise resource_missing()
        return _SUBRESOURCES[found.subresource](self.registry, request, found)

    def _document(self, request: Request, parts: list[str], user: User) -> Response:
        """Everything that is no resource: discovery, OpenAPI, health, our own status."""
        path = "/" + "/".join(parts)
        if request.method not in ("GET", "HEAD"):
            if self._find(request, parts) is None:
                raise UnknownPathError
            raise method_not_allowed()
        if not self.authorizer.may_read(user, path):
            raise ApiStatus(
                403,
                "Forbidden",
                f'forbidden: User "{user.name}" cannot get path "{path}"',
                details={},
            )
        found = self._find(request, parts)
        if found is None:
            raise UnknownPathError
        return found

    def _find(self, request: Request, parts: list[str]) -> Response | None:
        match parts:
            case []:
                return _found(request, discovery.paths())
            case ["healthz" | "livez" | "readyz", *_]:
                verbose = "[+]ping ok\n" + f"{parts[0]} check passed\n"
                return _text(200, verbose if request.flag("verbose") else "ok")
            case ["version"]:
                return _document(request, discovery.version_info())
            case ["api" | "apis", *_]:
                return _discovery(request, parts)
            case ["openapi", *rest]:
                return _openapi(request, rest)
            case ["sremut", "v1", name] if name in self._status:
                return _document(request, self._status[name]())
        return None


def _discovery(request: Request, parts: list[str]) -> Response | None:
    """What ``/api`` and ``/apis`` say of the resources that are served."""
    match parts:
        case ["api"] | ["apis"]:
            return _discover(request, core=parts == ["api"])
        case ["api", "v1"]:
            return _document(request, discovery.resource_list("", "v1"))
        case ["apis", group]:
            return _document(request, discovery.api_group(group))
        case ["apis", group, version]:
            if discovery.api_group(group) is None:
                return None
            listed = discovery.resource_list(group, version)
            if listed is None:
                raise resource_missing()
            return _document(request, listed)
        case ["api", _]:
            raise resource_missing()
    return None


def _openapi(request: Request, parts: list[str]) -> Response | None:
    match parts:
        case ["v2"]:
            if "protobuf" in request.headers.get("accept", ""):
                return Response(body=b"", media=PROTO_V2)
            return _document(request, openapi.swagger())
        case ["v3"]:
            return _document(request, openapi.index())
        case ["v3", *rest]:
            document = openapi.v3_document("/".join(rest))
            return None if document is None else Response(body=document)
    return None


def _is_resource_path(parts: list[str]) -> bool:
    if parts[:1] == ["api"]:
        return len(parts) > 2
    return parts[:1] == ["apis"] and len(parts) > 3


def _attributes(request: Request, found: Route) -> Attributes:
    name = found.name
    if not name and found.verb in ("list", "watch", "deletecollection"):
        # Selecting by name asks for that one object, whose name a role may name.
        exact = _BY_NAME.fullmatch(request.first("fieldSelector") or "")
        name = exact[1] if exact else ""
    namespace = found.namespace
    if found.table.key == "namespaces":
        namespace = found.name
    return Attributes(
        verb=found.verb,
        group=found.table.group,
        resource=found.table.plural,
        subresource=found.subresource,
        namespace=namespace,
        name=name,
    )


def _discover(request: Request, *, core: bool) -> Response:
    """``/api`` or ``/apis``: aggregated for clients that ask for it."""
    accept = request.headers.get("accept", "")
    for part in accept.split(","):
        words = {word.strip() for word in part.split(";")}
        if {f"g={discovery.AGGREGATED}", "v=v2", "as=APIGroupDiscoveryList"} <= words:
            media = f"application/json;g={discovery.AGGREGATED};v=v2;as=APIGroupDiscoveryList"
            return Response(body=discovery.aggregated(core), media=media)
    document = discovery.api_versions() if core else discovery.api_group_list()
    return _found(request, document)


def _document(request: Request, body: JsonObject | None) -> Response | None:
    return None if body is None else _found(request, body)


def _found(request: Request, body: JsonObject) -> Response:
    return Response(body=body, media=negotiate(request).media)


def _text(status: int, text: str) -> Response:
    return Response(status=status, body=text.encode(), media=TEXT)


def _failure(request: Request, status: ApiStatus) -> Response:
    try:
        media = negotiate(request).media
    except ApiStatus:
        media = "application/json"
    warnings: tuple[str, ...] = ()
    parts = request.path.split("/")
    if "endpoints" in parts[:7] and parts[1:3] == ["api", "v1"]:
        warnings = (reading.ENDPOINTS_WARNING,)
    return Response(
        status=status.code,
        body=status.body(),
        media=media,
        headers=status.headers,
        warnings=warnings,
    )
