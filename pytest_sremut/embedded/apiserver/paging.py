"""Pages of lists, continue tokens, and lists of the past.

Rules kept here:

* all pages of a list are of one revision: what its first page said;
* a token is the real server's: the revision and the place to go on from, in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sremut.embedded.apiserver.options import list_number
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.watch import Selection
from pytest_sremut.embedded.meta.errors import ApiStatus, Cause, bad_request, expired, invalid
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry
from pytest_sremut.embedded.registry.store import TooOldError

__all__ = ["Page", "check_not_in_future", "page_of"]

TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list."""

    items: Sequence[JsonObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


def page_of(registry: Registry, request: Request, selection: Selection, *, selects: bool) -> Page:
    """The page of a list that a request asks for.

    Args:
        selects: whether selectors are in play; then nobody counts what remains.

    Raises:
        ApiStatus: 400, 410, 422, 504.
    """
    limit = request.integer("limit") or 0
    token = request.first("continue")
    wanted = list_number(request, "resourceVersion")
    match = request.first("resourceVersionMatch")
    _check_match(request, match)
    start = ""
    revision = registry.revision
    if token:
        if wanted:
            raise bad_request("specifying resource version is not allowed when using continue")
        asked, start = _decode_continue(token, selection)
        revision = revision if asked < 0 else asked
    elif match == "Exact":
        revision = wanted or revision
    else:
        check_not_in_future(registry, wanted)
        if wanted == 0:
            limit = 0  # answered from the watch cache, which knows no pages
    if match == "Exact":
        check_not_in_future(registry, wanted)
    objects = _objects_at(registry, selection, revision, start, exact=match == "Exact")
    found = [value for value in objects if selection.matches(value)]
    if start:
        found = [value for value in found if _place(value, selection) >= start]
    if limit <= 0 or len(found) <= limit:
        return Page(items=found, revision=revision)
    last = _place(found[limit - 1], selection)
    return Page(
        items=found[:limit],
        revision=revision,
        continue_token=_encode_continue(revision, last + "\0"),
        remaining=None if selects else len(found) - limit,
    )


def _objects_at(
    registry: Registry, selection: Selection, revision: int, start: str, *, exact: bool
) -> list[JsonObject]:
    try:
        return registry.store.list_at(selection.storage, selection.namespace, revision)
    except TooOldError:
        if exact:
            raise expired("The resourceVersion for the provided list is too old.") from None
        raise expired(TOO_OLD_CONTINUE, continue_token=_encode_continue(-1, start)) from None


def _check_match(request: Request, match: str) -> None:
    if not match:
        return
    message = ""
    reason = "FieldValueForbidden"
    if match not in ("Exact", "NotOlderThan"):
        reason = "FieldValueNotSupported"
        message = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
    elif request.first("continue"):
        message = "Forbidden: resourceVersionMatch is forbidden with continue"
    elif not request.first("resourceVersion") and not request.flag("sendInitialEvents"):
        message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and request.first("resourceVersion") == "0":
        message = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if message:
        cause = Cause(field="resourceVersionMatch", reason=reason, message=message)
        raise invalid("ListOptions.meta.k8s.io", "", [cause])


def check_not_in_future(registry: Registry, wanted: int | None) -> None:
    """Refuse a resource version that has not been reached.

    Raises:
        ApiStatus: 504, as the real server answers after waiting for it.
    """
    current = registry.revision
    if wanted is None or wanted <= current:
        return
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    raise ApiStatus(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def _place(value: JsonObject, selection: Selection) -> str:
    """The place of an object in the order of a list, as written in continue tokens."""
    metadata = value["metadata"]
    if selection.namespace or not selection.table.namespaced:
        return f"/{metadata['name']}"
    return f"/{metadata.get('namespace', '')}/{metadata['name']}"


def _encode_continue(revision: int, start: str) -> str:
    text = json.dumps(
        {"v": "meta.k8s.io/v1", "rv": revision, "start": start}, separators=(",", ":")
    )
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_continue(token: str, selection: Selection) -> tuple[int, str]:
    problem = ""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: illegal base64 data"
        ) from None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        shown = raw[:1].decode("latin-1")
        found = None
        problem = f"invalid character '{shown}' looking for beginning of value"
    if isinstance(found, dict):
        version, revision, start = found.get("v"), found.get("rv"), found.get("start")
        if version != "meta.k8s.io/v1":
            problem = f'server does not recognize this encoded version "{version}"'
        elif not isinstance(revision, int) or isinstance(revision, bool) or revision == 0:
            problem = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        elif not isinstance(start, str) or not start:
            problem = "encoded start key empty or invalid"
        else:
            # The place may come without its leading slash; two namespaces never compare.
            del selection
            return revision, start if start.startswith("/") else f"/{start}"
    raise bad_request(
        f"invalid continue token: continue key is not valid: {problem or 'not an object'}"
    )
