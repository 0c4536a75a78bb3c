"""create, update, patch and apply.

Rules kept here:

* a body becomes an object of its type before anything else looks at it;
* the name and namespace in the path decide; a body that says otherwise is refused;
* all four kinds of patch end in the same update, with the same preconditions and validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_sremut.embedded.apiserver.answers import Response
from pytest_sremut.embedded.apiserver.decode import (
    Notices,
    conform_as,
    decode_object,
    media_type,
    parse_json,
    parse_yaml,
)
from pytest_sremut.embedded.apiserver.negotiation import Form, negotiate
from pytest_sremut.embedded.apiserver.options import WriteOptions, write_options
from pytest_sremut.embedded.apiserver.reading import shape_of, storage_of, warnings_of
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.meta import managedfields
from pytest_sremut.embedded.meta.apply import apply_object
from pytest_sremut.embedded.meta.errors import (
    ApiStatus,
    Cause,
    bad_request,
    invalid,
    not_found,
    unsupported_media_type,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode, timestamp
from pytest_sremut.embedded.meta.patch import apply_merge_patch
from pytest_sremut.embedded.meta.resources import RESOURCES, Resource
from pytest_sremut.embedded.meta.schema import MismatchError, Type, conform, type_of
from pytest_sremut.embedded.meta.strategic import apply_strategic_patch
from pytest_sremut.embedded.registry.eventforms import to_core
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["create", "patch", "patched", "update"]

# A PUT of one of these may create it.
CREATED_BY_UPDATE = frozenset(("endpoints", "events", "limitranges", "leases.coordination.k8s.io"))
APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")


def create(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a POST to a collection.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    options = write_options(request, "CreateOptions")
    table = route.table
    content_type = request.headers.get("content-type", "")
    body = decode_object(table, request.body, content_type, options.notices)
    value = _stored_form(table, body)
    result = registry.create(
        storage_of(table),
        route.namespace,
        value,
        dry_run=options.dry_run,
        finish=_recorder(registry, table, options),
    )
    return _written(registry, form, table, options, result, status=201)


def update(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a PUT of an object, or of its status.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    options = write_options(request, "UpdateOptions")
    table = route.table
    content_type = request.headers.get("content-type", "")
    value = _stored_form(table, decode_object(table, request.body, content_type, options.notices))
    value = _placed(route, value)
    key = storage_of(table)
    status = 200
    if registry.get(key, route.namespace, route.name) is None and key in CREATED_BY_UPDATE:
        status = 201
        result = registry.create(
            key,
            route.namespace,
            value,
            dry_run=options.dry_run,
            finish=_recorder(registry, table, options),
        )
    else:
        result = registry.update(
            key,
            value,
            subresource=route.subresource,
            dry_run=options.dry_run,
            external=True,
            finish=_recorder(registry, table, options, route.subresource),
        )
    return _written(registry, form, table, options, result, status=status)


def patch(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a PATCH of an object, or of its status.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    table = route.table
    key = storage_of(table)
    applying = _media(request) in APPLY
    options = write_options(request, "PatchOptions", apply=applying)
    old = registry.get(key, route.namespace, route.name)
    status = 200
    if applying:
        result, status = _apply(registry, request, route, options, old)
    else:
        if old is None:
            raise not_found(table.key, route.name)
        type_ = type_of(RESOURCES[key].api_version, table.kind)
        value = patched(request, type_, table, old, options.notices)
        result = registry.update(
            key,
            _placed(route, value),
            subresource=route.subresource,
            dry_run=options.dry_run,
            external=True,
            finish=_recorder(registry, table, options, route.subresource),
        )
    return _written(registry, form, table, options, result, status=status)


def _written(
    registry: Registry,
    form: Form,
    table: Resource,
    options: WriteOptions,
    result: JsonObject,
    *,
    status: int,
) -> Response:
    """The answer to a write: the object as it is now, with every warning about the request."""
    return Response(
        status=status,
        body=form.one(table, shape_of(table)(result), registry.now()),
        media=form.media,
        warnings=(*warnings_of(table), *options.notices.warnings),
    )


def patched(
    request: Request, type_: Type, table: Resource, old: JsonObject, notices: Notices
) -> JsonObject:
    """`old`, an object of `type_`, after the patch in the body of a request.

    Raises:
        ApiStatus: 400, 415 or 422.
    """
    media = _media(request)
    if media == "application/json-patch+json":
        # Lazy: a cluster's start needs no jsonpatch.
        from pytest_sremut.embedded.meta.json_patch import apply_json_patch

        result: Any = apply_json_patch(old, parse_json(request.body).value)
    elif media == "application/merge-patch+json":
        result = apply_merge_patch(old, _patch_object(request))
    elif media == "application/strategic-merge-patch+json":
        result = apply_strategic_patch(type_, old, _patch_object(request))
    else:
        raise _unknown_patch()
    try:
        conformed = conform(type_, result)
    except MismatchError as problem:
        shown = encode(result).decode("utf-8", "replace")
        if len(shown) > 1024:
            shown = shown[:1024] + "..."
        cause = Cause(field="patch", message=f"Invalid value: {shown!r}: {problem}")
        raise invalid("", "", [cause]) from None
    errors = notices.note([f'unknown field "{name}"' for name in conformed.unknown])
    if errors:
        raise bad_request(
            f'{table.kind} in version "{table.version}" cannot be handled as a {table.kind}: '
            f"strict decoding error: {', '.join(errors)}"
        )
    return conformed.value


def _media(request: Request) -> str:
    return media_type(request.headers.get("content-type", "") or "unknown")


def _unknown_patch() -> ApiStatus:
    status = unsupported_media_type("415: Unsupported Media Type")
    status.details = {}
    return status


def _patch_object(request: Request) -> JsonObject:
    value = parse_json(request.body).value
    if not isinstance(value, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal a patch that is no object into Go value "
            "of type map[string]interface {}"
        )
    return value


def _apply(
    registry: Registry,
    request: Request,
    route: Route,
    options: WriteOptions,
    old: JsonObject | None,
) -> tuple[JsonObject, int]:
    table = route.table
    applied = _applied_object(request, route, options)
    type_ = type_of(table.api_version, table.kind)
    live = old if old is not None else _empty(route)
    result = apply_object(
        type_,
        live,
        applied,
        manager=options.manager,
        force=options.force,
        time=timestamp(registry.now()),
    )
    if applied["metadata"].get("resourceVersion"):
        result = {**result, "metadata": dict(result["metadata"])}
        result["metadata"]["resourceVersion"] = applied["metadata"]["resourceVersion"]
    key = storage_of(table)
    if old is None:
        created = registry.create(key, route.namespace, result, dry_run=options.dry_run)
        return created, 201
    updated = registry.update(
        key, result, subresource=route.subresource, dry_run=options.dry_run, external=True
    )
    return updated, 200


def _applied_object(request: Request, route: Route, options: WriteOptions) -> JsonObject:
    table = route.table
    value = parse_yaml(request.body).value
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML: the body of an apply patch must be an object")
    if value.get("apiVersion") != table.api_version or value.get("kind") != table.kind:
        raise bad_request(
            f"invalid object type: {value.get('apiVersion')}, Kind={value.get('kind')}, expected "
            f"{table.api_version}, Kind={table.kind}"
        )
    conformed = conform_as(type_of(table.api_version, table.kind), table.kind, table.version, value)
    errors = [f'unknown field "{name}"' for name in conformed.unknown]
    if options.notices.note(errors):
        raise bad_request(
            f"failed to create typed patch object ({route.namespace}/{route.name}; "
            f"{table.api_version}, Kind={table.kind}): "
            + ", ".join(f".{name}: field not declared in schema" for name in conformed.unknown)
        )
    applied = conformed.value
    if (applied.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return _placed(route, applied)


def _empty(route: Route) -> JsonObject:
    metadata = {"name": route.name}
    if route.namespace:
        metadata["namespace"] = route.namespace
    return {
        "kind": route.table.kind,
        "apiVersion": route.table.api_version,
        "metadata": metadata,
    }


def _placed(route: Route, value: JsonObject) -> JsonObject:
    """`value` with the name and namespace of the path; its own must agree."""
    metadata = {**(value.get("metadata") or {})}
    found = metadata.get("name") or route.name
    if found != route.name:
        raise bad_request(
            f"the name of the object ({found}) does not match the name on the URL ({route.name})"
        )
    metadata["name"] = route.name
    if route.table.namespaced:
        namespace = metadata.get("namespace") or route.namespace
        if namespace != route.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        metadata["namespace"] = route.namespace
    return {**value, "metadata": metadata}


def _stored_form(table: Resource, value: JsonObject) -> JsonObject:
    return to_core(value) if table.stored_as else value


def _recorder(
    registry: Registry, table: Resource, options: WriteOptions, subresource: str = ""
) -> Callable[[JsonObject | None, JsonObject], None]:
    """Notes who changed what, on the object about to be written."""
    stored = RESOURCES[storage_of(table)]
    type_ = type_of(stored.api_version, stored.kind)

    def finish(old: JsonObject | None, new: JsonObject) -> None:
        managedfields.record_update(
            type_,
            old,
            new,
            manager=options.manager,
            time=timestamp(registry.now()),
            subresource=subresource,
        )

    return finish
