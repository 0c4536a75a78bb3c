"""Request bodies: bytes to objects, with the server's sentences about them.

Rules kept here:

* JSON and YAML are read strictly (no NaN, no duplicate keys unnoticed, bounded nesting);
* whatever is wrong with a body is one 400, 415 or 422 `ApiStatus`, never another exception;
* ``fieldValidation`` decides what becomes of unknown and duplicate fields: ``Strict`` refuses,
  ``Warn`` (the default) warns, ``Ignore`` is silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_sremut.embedded.apiserver import protobuf
from pytest_sremut.embedded.apiserver.syntax import (
    Decoded,
    SyntaxProblemError,
    load_json,
    load_yaml,
)
from pytest_sremut.embedded.meta.errors import ApiStatus, bad_request, unsupported_media_type
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.meta.schema import Conformed, MismatchError, Type, conform, type_of

__all__ = [
    "VALIDATION_MODES",
    "Decoded",
    "Notices",
    "conform_as",
    "decode_object",
    "media_type",
    "parse_delete_options",
    "parse_json",
    "parse_yaml",
]

MAX_BODY = 3 * 1024 * 1024
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: " + ACCEPTED
)
VALIDATION_MODES = ("Ignore", "Warn", "Strict")
PROTOBUF_HELP = (
    "this cluster cannot read this protobuf body; kubectl create sends protobuf for objects that "
    "it makes up itself: use "
    "`kubectl create ... --dry-run=client -o yaml | kubectl apply -f -`"
)


@dataclass(slots=True)
class Notices:
    """What is to be said about a body that was accepted: unknown and duplicate fields."""

    mode: str = "Warn"
    warnings: list[str] = field(default_factory=list)

    def note(self, sentences: list[str]) -> list[str]:
        """Keep `sentences` as warnings, or hand them back as errors under ``Strict``."""
        if self.mode == "Strict":
            return sentences
        if self.mode == "Warn":
            self.warnings += sentences
        return []


def media_type(content_type: str) -> str:
    """The bare media type of a ``Content-Type``; JSON when there is none."""
    return content_type.partition(";")[0].strip().lower() or "application/json"


def parse_json(body: bytes) -> Decoded:
    """Read JSON.

    Raises:
        ApiStatus: 400.
    """
    try:
        return load_json(body)
    except SyntaxProblemError as problem:
        raise bad_request(f"error decoding JSON: {problem}") from None


def parse_yaml(body: bytes) -> Decoded:
    """Read one YAML document.

    Raises:
        ApiStatus: 400.
    """
    try:
        return load_yaml(body)
    except SyntaxProblemError as problem:
        raise bad_request(f"error decoding YAML: {problem}") from None


def decode_object(
    table: Resource, body: bytes, content_type: str, notices: Notices, *, kind: str = ""
) -> JsonObject:
    """Read an object of `table` from a request body.

    Args:
        kind: kind of the body when it is not the resource's own (``Scale``, ``Eviction``).

    Raises:
        ApiStatus: 400 or 415.
    """
    wanted = kind or table.kind
    media = media_type(content_type)
    try:
        if media in ("application/json", "text/json"):
            decoded = load_json(body)
        elif media in ("application/yaml", "text/yaml"):
            decoded = load_yaml(body)
        elif media == PROTOBUF:
            decoded = _load_protobuf(body)
        else:
            raise unsupported_media_type(_UNKNOWN_FORMAT)
    except SyntaxProblemError as problem:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {wanted}): couldn't get "
            f"version/kind; json parse error: {problem} ({_show(body)})"
        ) from None
    if kind:
        api_version, type_ = "", type_of("", kind)
    else:
        api_version, type_ = table.api_version, type_of(table.api_version, wanted)
    return _typed(decoded, type_, wanted, api_version, notices)


def parse_delete_options(body: bytes, content_type: str) -> JsonObject:
    """Read the ``DeleteOptions`` in the body of a delete.

    Raises:
        ApiStatus: 400 or 415.
    """
    media = media_type(content_type)
    try:
        if media in ("application/json", "text/json"):
            value = load_json(body).value
        elif media in ("application/yaml", "text/yaml"):
            value = load_yaml(body).value
        elif media == PROTOBUF:
            value = _load_protobuf(body).value
        else:
            raise unsupported_media_type(_UNKNOWN_FORMAT)
    except SyntaxProblemError as problem:
        raise bad_request(f"couldn't get version/kind; json parse error: {problem}") from None
    if isinstance(value, dict):
        kind, version = value.get("kind"), value.get("apiVersion")
        if isinstance(kind, str) and kind not in ("", "DeleteOptions"):
            raise bad_request(
                f'no kind "{kind}" is registered for version "{version}" in scheme '
                '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
            )
    return conform_as(type_of("", "DeleteOptions"), "DeleteOptions", "v1", value).value


def conform_as(type_: Type, kind: str, version: str, value: Any) -> Conformed:
    """`conform`, with the sentence that the server puts before the error."""
    try:
        return conform(type_, value)
    except MismatchError as problem:
        raise _unhandled(kind, version, kind, str(problem)) from None


def _typed(
    decoded: Decoded, type_: Type, kind: str, api_version: str, notices: Notices
) -> JsonObject:
    value = decoded.value
    version = api_version.rpartition("/")[2] or "v1"
    if isinstance(value, dict):
        found_kind, found_version = value.get("kind"), value.get("apiVersion")
        if (
            isinstance(found_version, str)
            and api_version
            and found_version not in ("", api_version)
        ):
            raise bad_request(
                f"the API version in the data ({found_version}) does not match the expected API "
                f"version ({api_version})"
            )
        if isinstance(found_kind, str) and found_kind not in ("", kind):
            shown = f"v1.{found_kind}"
            internal = (
                f"core.{kind}" if "/" not in api_version else f"{_package(api_version)}.{kind}"
            )
            raise _unhandled(
                found_kind,
                version,
                kind,
                f"converting ({shown}) to ({internal}): unknown conversion",
            )
    conformed = conform_as(type_, kind, version, value)
    sentences = [f'duplicate field "{name}"' for name in decoded.duplicates]
    sentences += [f'unknown field "{name}"' for name in conformed.unknown]
    errors = notices.note(sentences)
    if errors:
        raise _unhandled(kind, version, kind, f"strict decoding error: {', '.join(errors)}")
    return conformed.value


def _package(api_version: str) -> str:
    return api_version.partition("/")[0].partition(".")[0]


def _unhandled(found: str, version: str, kind: str, why: str) -> ApiStatus:
    return bad_request(f'{found} in version "{version}" cannot be handled as a {kind}: {why}')


def _load_protobuf(body: bytes) -> Decoded:
    try:
        return Decoded(value=protobuf.read(body), duplicates=[])
    except protobuf.UnreadableError as error:
        raise unsupported_media_type(f"{PROTOBUF_HELP} ({error})") from None


def _show(body: bytes) -> str:
    """The body as the server shows it: text when it looks like JSON, else hexadecimal."""
    if not body:
        return "<empty>"
    if body[:1] == b"{":
        text = body.decode("utf-8", "replace")
        return text if len(text) <= 1024 else text[:1024] + "..."
    shown = body[:1024].hex()
    return shown if len(body) <= 1024 else shown + "..."
