"""Reviews: questions about who may do what. Asked, answered, never stored."""

from __future__ import annotations

from pytest_sremut.embedded.apiserver.answers import Response
from pytest_sremut.embedded.apiserver.authorization import Attributes, Authorizer, Tokens, User
from pytest_sremut.embedded.apiserver.decode import decode_object
from pytest_sremut.embedded.apiserver.negotiation import negotiate
from pytest_sremut.embedded.apiserver.options import write_options
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["review"]


def review(
    registry: Registry,
    request: Request,
    route: Route,
    user: User,
    *,
    authorizer: Authorizer,
    tokens: Tokens,
) -> Response:
    """Answer a POST of a review about `user` or about whom it names.

    Raises:
        ApiStatus: 400, 406, 415 or 422.
    """
    form = negotiate(request)
    options = write_options(request, "CreateOptions")
    content_type = request.headers.get("content-type", "")
    body = decode_object(route.table, request.body, content_type, options.notices)
    body = {"kind": route.table.kind, "apiVersion": route.table.api_version, **body}
    body.setdefault("metadata", {})
    spec = body.get("spec") or {}
    match route.table.kind:
        case "SelfSubjectReview":
            info: JsonObject = {"username": user.name, "groups": list(user.groups)}
            body["metadata"] = {"creationTimestamp": timestamp(registry.now())}
            body["status"] = {"userInfo": info}
        case "SelfSubjectRulesReview":
            body["status"] = _rules(authorizer, user, spec.get("namespace", ""))
        case "TokenReview":
            body["status"] = _token(tokens, spec.get("token", ""))
        case "SelfSubjectAccessReview":
            body["status"] = _access(authorizer, user, spec)
        case _:
            about = User(name=spec.get("user", ""), groups=tuple(spec.get("groups") or ()))
            body["status"] = _access(authorizer, about, spec)
    return Response(status=201, body=body, media=form.media)


def _token(tokens: Tokens, token: str) -> JsonObject:
    """Whose a token is; the empty one is nobody's."""
    try:
        user = tokens.user({"authorization": f"Bearer {token}"}) if token.strip() else None
    except ApiStatus:
        user = None
    if user is None:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": {"username": user.name, "groups": list(user.groups)}}


def _access(authorizer: Authorizer, user: User, spec: JsonObject) -> JsonObject:
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        path = (spec.get("nonResourceAttributes") or {}).get("path", "")
        return {"allowed": authorizer.may_read(user, path)}
    attributes = Attributes(
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
    return {"allowed": authorizer.allows(user, attributes)}


def _rules(authorizer: Authorizer, user: User, namespace: str) -> JsonObject:
    return {
        "resourceRules": authorizer.rules(user, namespace),
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if user.is_admin else [],
        "incomplete": False,
    }
