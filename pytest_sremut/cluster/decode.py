"""What an answer of the API server says. Pure: bytes in, a statement or a named failure out.

Absence is concluded only from a Status that says NotFound about exactly the object asked for: a
404 of a proxy, of a route or of another object is no statement about it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from pytest_sremut.cluster.port import Absent, Failed, Kind, ObjectRef, Present, WatchEvent
from pytest_sremut.cluster.resources import RESOURCES
from pytest_sremut.cluster.shapes import misfit
from pytest_sremut.cluster.transport import Answer, NoAnswer
from pytest_sremut.errors import ClusterError, ClusterUnavailableError
from pytest_sremut.ground.durable.text_redaction import redact_text

__all__ = [
    "MalformedError",
    "absent",
    "decode_deleted",
    "decode_event",
    "decode_list",
    "decode_object",
    "decode_written",
    "failure",
    "json_of",
    "parse_object",
    "refuse",
]

_EXCERPT: Final = 200


class MalformedError(ValueError):
    """The bytes are not what the API server sends; the message says in which way."""


def parse_object(body: bytes) -> dict[str, Any]:
    """Bytes -> JSON object. Raises MalformedError and nothing else."""
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON ({type(error).__name__}): {_excerpt(body)}") from error
    if not isinstance(value, dict):
        raise MalformedError(f"JSON, but no object: {_excerpt(body)}")
    return value


def decode_object(
    answer: Answer | NoAnswer, ref: ObjectRef, what: str
) -> Present | Absent | Failed:
    """The answer to a GET of one object."""
    if isinstance(answer, NoAnswer):
        return failure(answer, what)
    if answer.status == 404 and absent(answer, ref):
        return Absent(ref=ref)
    if answer.status != 200:
        return failure(answer, what)
    try:
        body = json_of(answer)
        _require_object(body, ref.kind, ref.name)
    except MalformedError as error:
        return _malformed(answer, what, error)
    return Present(body=body, raw=answer.body)


def decode_written(answer: Answer | NoAnswer, kind: Kind, name: str, what: str) -> Present:
    """The answer to a creation or a replacement: the object as it is now.

    Args:
        answer: Of the server.
        kind: Of the object that was sent.
        name: Its name; empty where the server chooses one.
        what: The call, for messages.

    Raises:
        ClusterError: The server refused: nothing happened.
        ClusterUnavailableError: No such answer: whether it happened is unknown.
    """
    body = _acknowledged(answer, what)
    try:
        _require_object(body, kind, name or _name_of(body))
    except MalformedError as error:
        raise _unknown(error, cast(Answer, answer), what) from error
    return Present(body=body, raw=cast(Answer, answer).body)


def decode_deleted(answer: Answer | NoAnswer, ref: ObjectRef, what: str) -> dict[str, Any]:
    """The answer to a deletion: the object, or a Status that says Success. Raises likewise."""
    body = _acknowledged(answer, what)
    if body.get("kind") == "Status" and body.get("status") == "Success":
        return body
    try:
        _require_object(body, ref.kind, ref.name)
    except MalformedError as error:
        raise _unknown(error, cast(Answer, answer), what) from error
    return body


def decode_list(
    answer: Answer | NoAnswer, kind: Kind, what: str
) -> tuple[list[Mapping[str, Any]], str, str] | Failed:
    """One page of a list: items, resourceVersion, continue token."""
    if isinstance(answer, NoAnswer) or answer.status != 200:
        return failure(answer, what)
    try:
        return _page(json_of(answer), kind)
    except MalformedError as error:
        return _malformed(answer, what, error)


def decode_event(line: bytes, kind: Kind, what: str) -> WatchEvent:
    """One line of a watch of that kind; `what` is the call, for messages.

    Raises:
        ClusterError: The server ended the watch (410 has the reason Expired).
        ClusterUnavailableError: The line is not an event.
    """
    try:
        type_, body = _event(line, kind)
    except MalformedError as error:
        raise ClusterUnavailableError(f"{what}: {error}", reason="Malformed") from error
    if type_ != "ERROR":
        return WatchEvent(type=type_, object=body)
    code = body.get("code")
    status = code if isinstance(code, int) else 0
    reason = str(body.get("reason") or "")
    message = f"{what}: ended: {redact_text(str(body.get('message') or reason or status))}"
    if status == 410:
        raise ClusterError(message, status=410, reason="Expired")
    raise ClusterUnavailableError(message, status=status, reason=reason)


def absent(answer: Answer, ref: ObjectRef) -> bool:
    """Whether a 404 says that exactly `ref` does not exist."""
    try:
        status = json_of(answer)
    except MalformedError:
        return False
    details = status.get("details")
    return (
        status.get("kind") == "Status"
        and status.get("reason") == "NotFound"
        and isinstance(details, dict)
        and details.get("name") == ref.name
        and details.get("kind") == RESOURCES[ref.kind].plural
    )


def failure(answer: Answer | NoAnswer, what: str) -> Failed:
    """The `Failed` of an answer that is no success."""
    if isinstance(answer, NoAnswer):
        return Failed(what=what, status=0, reason=answer.reason, message=answer.message)
    status = _status_of(answer)
    if status is None:
        message = f"HTTP {answer.status} {answer.content_type}: {_excerpt(answer.body)}"
        # A success that is no answer to the call is another failure than a bare error page.
        reason = "Malformed" if 200 <= answer.status < 300 else "NoStatus"
        return Failed(what=what, status=answer.status, reason=reason, message=message)
    return Failed(
        what=what,
        status=answer.status,
        reason=str(status.get("reason") or ""),
        message=redact_text(str(status.get("message") or f"HTTP {answer.status}")),
    )


def refuse(answer: Answer | NoAnswer, what: str) -> NoReturn:
    """Raise what a failed write means: refused (nothing happened), or unknown."""
    failed = failure(answer, what)
    message = f"{what}: {failed.message}"
    refused = (
        isinstance(answer, Answer)
        and 400 <= answer.status < 500
        and answer.status not in (408, 429)
        and failed.reason != "NoStatus"
    )
    if refused:
        raise ClusterError(message, status=failed.status, reason=failed.reason)
    detail = message if failed.status else f"{what}: {failed.reason}: {failed.message}"
    raise ClusterUnavailableError(detail, status=failed.status, reason=failed.reason)


def _acknowledged(answer: Answer | NoAnswer, what: str) -> dict[str, Any]:
    if not isinstance(answer, Answer) or not 200 <= answer.status < 300:
        refuse(answer, what)
    try:
        return json_of(answer)
    except MalformedError as error:
        raise _unknown(error, answer, what) from error


def _unknown(error: MalformedError, answer: Answer, what: str) -> ClusterUnavailableError:
    return ClusterUnavailableError(f"{what}: {error}", status=answer.status, reason="Malformed")


def _malformed(answer: Answer, what: str, error: MalformedError) -> Failed:
    return Failed(what=what, status=answer.status, reason="Malformed", message=str(error))


def json_of(answer: Answer) -> dict[str, Any]:
    """The JSON object that an answer says it is. Raises MalformedError."""
    if answer.content_type != "application/json":
        raise MalformedError(
            f"content type {answer.content_type or '(none)'!r}: {_excerpt(answer.body)}"
        )
    return parse_object(answer.body)


def _status_of(answer: Answer) -> dict[str, Any] | None:
    try:
        body = json_of(answer)
    except MalformedError:
        return None
    return body if body.get("kind") == "Status" else None


def _page(body: Mapping[str, Any], kind: Kind) -> tuple[list[Mapping[str, Any]], str, str]:
    if body.get("kind") != f"{kind}List":
        raise MalformedError(f"kind {body.get('kind')!r} instead of {kind}List")
    items = [] if body.get("items") is None else body["items"]
    meta = body.get("metadata")
    if not isinstance(items, list) or not isinstance(meta, dict):
        raise MalformedError("a list without items or metadata")
    for item in items:
        _require_fit(item, kind)
    version, token = meta.get("resourceVersion"), meta.get("continue") or ""
    if not isinstance(version, str) or not isinstance(token, str):
        raise MalformedError("a list whose metadata holds no resourceVersion")
    return items, version, token


def _event(line: bytes, kind: Kind) -> tuple[str, dict[str, Any]]:
    event = parse_object(line)
    type_, body = event.get("type"), event.get("object")
    if not isinstance(type_, str) or not isinstance(body, dict):
        raise MalformedError(f"no event: {_excerpt(line)}")
    if type_ == "ERROR":
        return type_, body
    if type_ not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise MalformedError(f"unknown event type {type_!r}")
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("resourceVersion"), str):
        raise MalformedError("an event whose object has no resourceVersion")
    if type_ != "BOOKMARK":
        _require_fit(body, kind)
    return type_, body


def _require_object(body: Mapping[str, Any], kind: str, name: str) -> None:
    _require_fit(body, kind)
    found = (body.get("kind"), body["metadata"]["name"])
    if found != (kind, name):
        raise MalformedError(f"asked for {kind} {name}, got {found[0]} {found[1]}")


def _require_fit(body: Any, kind: str) -> None:
    if told := misfit(kind, body):
        raise MalformedError(f"no {kind}: {told}")


def _name_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _excerpt(body: bytes) -> str:
    """What a body says that is no object. Of one that may be half an object only its size: no
    rule says what of it may be told."""
    if body.lstrip()[:1] in (b"{", b"["):
        return f"{len(body)} bytes that begin as JSON"
    text = redact_text(body[: 4 * _EXCERPT].decode("utf-8", "replace"))
    return repr(text[:_EXCERPT] + ("..." if len(text) > _EXCERPT else ""))
