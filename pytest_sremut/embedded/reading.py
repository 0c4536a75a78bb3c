"""get, list and watch.

Rules kept here:

* a list is what the store held at one revision, also across its pages;
* ``resourceVersion`` means what it means to the real server: absent or 0 is now, ``Exact`` is the
  past (or 410), the future is a 504;
* reads copy nothing: what is sent is what is stored.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import ApiStatus, Cause, bad_request, expired, invalid, not_found
from .eventforms import to_events
from .fieldselectors import parse_field_selector
from .jsonvalue import JsonObject
from .negotiation import Form, negotiate
from .options import list_number
from .registry import Registry
from .requests import Request, Response, WatchCall
from .resources import Resource
from .routes import Route
from .selectors import parse_label_selector
from .store import TooOldError
from .watching import Selection, Watch

__all__ = ["get_object", "list_objects", "selection_of", "shape_of", "warnings_of", "watch_objects"]

DEFAULT_WATCH_SECONDS = 1800
MAX_WATCH_SECONDS = 24 * 3600
TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
ENDPOINTS_WARNING = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def warnings_of(table: Resource) -> tuple[str, ...]:
    """Warnings that every answer about a resource carries."""
    return (ENDPOINTS_WARNING,) if table.key == "endpoints" else ()


def shape_of(table: Resource) -> Callable[[JsonObject], JsonObject]:
    """How stored objects are shown through `table`."""
    return to_events if table.stored_as else _same


def _same(value: JsonObject) -> JsonObject:
    return value


def storage_of(table: Resource) -> str:
    """Key of the resource that holds the objects of `table`."""
    return table.stored_as or table.key


def selection_of(request: Request, route: Route) -> Selection:
    """What the selectors of a request pick out.

    Raises:
        ApiStatus: 400.
    """
    labels = parse_label_selector(request.first("labelSelector"))
    fields = parse_field_selector(storage_of(route.table), request.first("fieldSelector"))
    name = route.name

    def matches(value: JsonObject) -> bool:
        metadata = value["metadata"]
        if name and metadata.get("name") != name:
            return False
        return labels.matches(metadata.get("labels")) and fields(value)

    return Selection(table=route.table, namespace=route.namespace, matches=matches)


def get_object(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a GET of one object.

    Raises:
        ApiStatus: 400, 404, 406, 504.
    """
    form = negotiate(request)
    _not_in_future(registry, list_number(request, "resourceVersion"))
    value = registry.get(storage_of(route.table), route.namespace, route.name)
    if value is None:
        status = not_found(route.table.key, route.name)
        status.media = form.media
        raise status
    shown = form.one(route.table, shape_of(route.table)(value), registry.now())
    return Response(body=shown, media=form.media, warnings=warnings_of(route.table))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """One page of a list."""

    items: Sequence[JsonObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


def list_objects(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a list.

    Raises:
        ApiStatus: 400, 406, 410, 422, 504.
    """
    form = negotiate(request)
    selection = selection_of(request, route)
    selects = bool(request.first("labelSelector") or request.first("fieldSelector"))
    page = _page(registry, request, selection, selects=selects)
    return _listed(registry, form, selection, page)


def _listed(registry: Registry, form: Form, selection: Selection, page: _Page) -> Response:
    metadata: JsonObject = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    shape = shape_of(selection.table)
    items = page.items if shape is _same else [shape(item) for item in page.items]
    body = form.many(selection.table, items, metadata, registry.now())
    return Response(body=body, media=form.media, warnings=warnings_of(selection.table))


def _page(registry: Registry, request: Request, selection: Selection, *, selects: bool) -> _Page:
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
        _not_in_future(registry, wanted)
        if wanted == 0:
            limit = 0  # answered from the watch cache, which knows no pages
    if match == "Exact":
        _not_in_future(registry, wanted)
    objects = _objects_at(registry, selection, revision, start, exact=match == "Exact")
    found = [value for value in objects if selection.matches(value)]
    if start:
        found = [value for value in found if _place(value, selection) >= start]
    if limit <= 0 or len(found) <= limit:
        return _Page(items=found, revision=revision)
    last = _place(found[limit - 1], selection)
    return _Page(
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


def _not_in_future(registry: Registry, wanted: int | None) -> None:
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
    """Where an object stands in the order of a list, as written in continue tokens."""
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


def watch_objects(registry: Registry, request: Request, route: Route) -> WatchCall:
    """Answer a watch.

    Raises:
        ApiStatus: 400, 406, 422, 500 (a bad resourceVersion, as recorded).
    """
    form = negotiate(request)
    selection = selection_of(request, route)
    text = request.first("resourceVersion")
    if text and (not (text.isascii() and text.isdigit()) or len(text) > 19):
        raise ApiStatus(
            500,
            "",
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax",
        )
    initial = _initial_events(request)
    revision = int(text) if text else 0
    timeout = request.integer("timeoutSeconds")
    # A client that says when the initial events are over decides whether there are any.
    past = revision == 0 if initial is None else initial
    watch = Watch(
        store=registry.store,
        selection=selection,
        form=form,
        now=registry.now,
        shape=shape_of(route.table),
        since=None if past else (revision or registry.revision),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_end=bool(initial) and request.flag("allowWatchBookmarks"),
    )
    seconds = timeout if timeout and timeout > 0 else DEFAULT_WATCH_SECONDS
    return WatchCall(
        watch=watch,
        timeout=float(min(seconds, MAX_WATCH_SECONDS)),
        warnings=warnings_of(route.table),
    )


def _initial_events(request: Request) -> bool | None:
    text = request.first("sendInitialEvents")
    match = request.first("resourceVersionMatch")
    if not text:
        if match:
            cause = Cause(
                field="resourceVersionMatch",
                reason="FieldValueForbidden",
                message="Forbidden: resourceVersionMatch is forbidden for watch unless "
                "sendInitialEvents is provided",
            )
            raise invalid("ListOptions.meta.k8s.io", "", [cause])
        return None
    if match != "NotOlderThan":
        cause = Cause(
            field="resourceVersionMatch",
            reason="FieldValueForbidden",
            message="Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
            "NotOlderThan",
        )
        raise invalid("ListOptions.meta.k8s.io", "", [cause])
    return request.flag("sendInitialEvents")
