"""get, list and watch.

Rules kept here:

* a list is what the store held at one revision, also across its pages;
* ``resourceVersion`` means what it means to the real server: absent or 0 is now, ``Exact`` is the
  past (or 410), the future is a 504;
* reads copy nothing: what is sent is what is stored.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_sremut.embedded.apiserver.answers import Response, WatchCall
from pytest_sremut.embedded.apiserver.negotiation import Form, negotiate
from pytest_sremut.embedded.apiserver.options import list_number
from pytest_sremut.embedded.apiserver.paging import Page, check_not_in_future, page_of
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.apiserver.watch import Selection, Watch
from pytest_sremut.embedded.meta.errors import ApiStatus, Cause, invalid, not_found
from pytest_sremut.embedded.meta.fieldselectors import parse_field_selector
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.meta.selectors import parse_label_selector
from pytest_sremut.embedded.registry.eventforms import to_events
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["get_object", "list_objects", "selection_of", "shape_of", "warnings_of", "watch_objects"]

DEFAULT_WATCH_SECONDS = 1800
MAX_WATCH_SECONDS = 24 * 3600
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
    check_not_in_future(registry, list_number(request, "resourceVersion"))
    value = registry.get(storage_of(route.table), route.namespace, route.name)
    if value is None:
        status = not_found(route.table.key, route.name)
        status.media = form.media
        raise status
    shown = form.one(route.table, shape_of(route.table)(value), registry.now())
    return Response(body=shown, media=form.media, warnings=warnings_of(route.table))


def list_objects(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a list.

    Raises:
        ApiStatus: 400, 406, 410, 422, 504.
    """
    form = negotiate(request)
    selection = selection_of(request, route)
    selects = bool(request.first("labelSelector") or request.first("fieldSelector"))
    page = page_of(registry, request, selection, selects=selects)
    return _listed(registry, form, selection, page)


def _listed(registry: Registry, form: Form, selection: Selection, page: Page) -> Response:
    metadata: JsonObject = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    shape = shape_of(selection.table)
    items = page.items if shape is _same else [shape(item) for item in page.items]
    body = form.many(selection.table, items, metadata, registry.now())
    return Response(body=body, media=form.media, warnings=warnings_of(selection.table))


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
