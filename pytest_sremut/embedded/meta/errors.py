"""Failures that the API answers: Kubernetes ``Status`` objects as exceptions.

Rules kept here:

* one exception type, `ApiStatus`; the constructors below are the only places that word a message,
  so that every layer (registry, patch, HTTP) answers with the sentences of the real API server;
* ``details`` is left out, empty or filled exactly as the real server does for that reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ApiStatus",
    "Cause",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "method_not_allowed",
    "not_acceptable",
    "not_found",
    "not_implemented",
    "resource_missing",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of an invalid object: where (`field`), what (`reason`) and the sentence."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def body(self) -> dict[str, Any]:
        """The cause as it is written in ``details.causes``."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiStatus(Exception):  # noqa: N818 - it is a Status, and not every Status is an error of ours
    """A request that the API answers with a failure ``Status``.

    Args:
        code: HTTP status.
        reason: machine-readable reason (``NotFound``, ``Conflict``, ...); empty where the real
            server gives none.
        message: the sentence for humans.
        details: ``details`` of the Status; ``None`` leaves the key out.
        headers: extra HTTP headers of the answer.
        continue_token: where an expired list can go on, inconsistently.

    Attributes:
        media: media type to answer in; whoever knows what the client accepts sets it.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.continue_token = continue_token
        self.media = "application/json"

    def body(self) -> dict[str, Any]:
        """The ``Status`` object to send."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _target(resource: str, name: str) -> dict[str, Any]:
    """``details`` that name an object of `resource` (``deployments.apps``)."""
    plural, _, group = resource.partition(".")
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = plural
    return details


def not_found(resource: str, name: str) -> ApiStatus:
    """404: no object `name` of `resource`."""
    return ApiStatus(
        404, "NotFound", f'{resource} "{name}" not found', details=_target(resource, name)
    )


def resource_missing() -> ApiStatus:
    """404: the path names no resource that is served."""
    message = "the server could not find the requested resource"
    return ApiStatus(404, "NotFound", message, details={})


def already_exists(resource: str, name: str) -> ApiStatus:
    """409: there is an object of that name."""
    message = f'{resource} "{name}" already exists'
    return ApiStatus(409, "AlreadyExists", message, details=_target(resource, name))


def conflict(resource: str, name: str, why: str) -> ApiStatus:
    """409: the write does not fit what is stored; `why` ends the sentence."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiStatus(409, "Conflict", message, details=_target(resource, name))


def bad_request(message: str) -> ApiStatus:
    """400: the request itself is malformed."""
    return ApiStatus(400, "BadRequest", message)


def invalid(kind: str, name: str, causes: Iterable[Cause]) -> ApiStatus:
    """422: `kind` (``Deployment.apps``) `name` breaks the rules in `causes` (at least one)."""
    listed = list(causes)
    sentences = [f"{cause.field}: {cause.message}" for cause in listed]
    joined = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details = _target(kind, name)
    details["causes"] = [cause.body() for cause in listed]
    return ApiStatus(422, "Invalid", f'{kind} "{name}" is invalid: {joined}', details=details)


def forbidden(
    resource: str, name: str, why: str, *, causes: Iterable[Cause] | None = None
) -> ApiStatus:
    """403: `why` ends the sentence ``pods "x" is forbidden: ...``."""
    details = _target(resource, name)
    if causes is not None:
        details["causes"] = [cause.body() for cause in causes]
    subject = f'{resource} "{name}" is forbidden' if name else f"{resource} is forbidden"
    return ApiStatus(403, "Forbidden", f"{subject}: {why}", details=details)


def unauthorized() -> ApiStatus:
    """401: the bearer token is not one of ours."""
    return ApiStatus(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiStatus:
    """405: the path is served, not with this method."""
    message = "the server does not allow this method on the requested resource"
    return ApiStatus(405, "MethodNotAllowed", message, details={})


def not_acceptable(media_types: str) -> ApiStatus:
    """406: none of the media types that the client accepts is served."""
    message = f"406: Not Acceptable\n\nAvailable representations: {media_types}"
    return ApiStatus(406, "NotAcceptable", message, details={})


def unsupported_media_type(message: str) -> ApiStatus:
    """415: the body is in a format that is not read."""
    return ApiStatus(415, "UnsupportedMediaType", message)


def expired(message: str, *, continue_token: str = "") -> ApiStatus:
    """410: a resource version or continue token is older than what is remembered."""
    return ApiStatus(410, "Expired", message, continue_token=continue_token)


def too_many_requests(message: str, *, details: dict[str, Any]) -> ApiStatus:
    """429: the caller should try again later (eviction blocked by a budget)."""
    return ApiStatus(429, "TooManyRequests", message, details=details)


def internal(message: str) -> ApiStatus:
    """500 as the real server words it for requests that it cannot carry out."""
    return ApiStatus(500, "InternalError", f"Internal error occurred: {message}", details={})


def not_implemented(message: str) -> ApiStatus:
    """501: this cluster leaves the feature out, and says so."""
    return ApiStatus(501, "NotImplemented", message, details={})


def throttled() -> ApiStatus:
    """429: the user has asked too often; a client waits for the seconds that it is told."""
    return ApiStatus(
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
        details={"retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )
