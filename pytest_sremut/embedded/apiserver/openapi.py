"""OpenAPI: what kubectl needs of it for validation, apply, diff and explain.

Rules kept here:

* schemas are made from the same types that decode bodies, with the merge keys of lists;
* every writing operation names its kind and takes ``fieldValidation``, by which kubectl knows that
  the server validates;
* one document per group and version, built when first asked for, named by the digest of its text.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from pytest_sremut.embedded.apiserver.discovery import VERSION
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode
from pytest_sremut.embedded.meta.resources import GROUPS, RESOURCES, Resource
from pytest_sremut.embedded.meta.schema import Field, Type, type_of, types

__all__ = ["index", "swagger", "v3_document"]

PREFIX = "io.k8s.api."
PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_SCALARS: dict[str, JsonObject] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


@cache
def index() -> JsonObject:
    """``/openapi/v3``: where the documents are."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(path)}"}
            for path in _documents()
        }
    }


@cache
def v3_document(path: str) -> bytes | None:
    """The document of ``api/v1`` or ``apis/GROUP/VERSION``, encoded; ``None`` when not served."""
    group_version = _documents().get(path)
    if group_version is None:
        return None
    tables = [
        table for table in RESOURCES.values() if (table.group, table.version) == group_version
    ]
    schemas: dict[str, JsonObject] = {}
    operations: JsonObject = {}
    for table in tables:
        type_ = type_of(table.api_version, table.kind)
        _collect(type_, schemas)
        schemas[PREFIX + type_.name]["x-kubernetes-group-version-kind"] = [_gvk(table)]
        operations |= _operations(table, type_)
    return encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION},
            "paths": operations,
            "components": {"schemas": schemas},
        }
    )


@cache
def swagger() -> JsonObject:
    """``/openapi/v2``: a valid document without operations; clients of today read version 3."""
    return {"swagger": "2.0", "info": {"title": "Kubernetes", "version": VERSION}, "paths": {}}


def _documents() -> dict[str, tuple[str, str]]:
    named = {f"apis/{group}/{version}": (group, version) for group, version in GROUPS.items()}
    return {"api/v1": ("", "v1"), **named}


def _digest(path: str) -> str:
    return hashlib.sha256(v3_document(path) or b"").hexdigest().upper()


def _gvk(table: Resource) -> dict[str, str]:
    return {"group": table.group, "version": table.version, "kind": table.kind}


def _collect(type_: Type, schemas: dict[str, JsonObject]) -> None:
    name = PREFIX + type_.name
    if name in schemas:
        return
    properties: JsonObject = {}
    schemas[name] = {"type": "object", "properties": properties}
    for field in type_.fields.values():
        properties[field.name] = _property(field, schemas)


def _property(field: Field, schemas: dict[str, JsonObject]) -> JsonObject:
    nested = types().get(field.base)
    if nested is not None:
        _collect(nested, schemas)
        inner: JsonObject = {"allOf": [{"$ref": f"#/components/schemas/{PREFIX}{nested.name}"}]}
    else:
        inner = dict(_SCALARS[field.base])
    for shape in reversed(field.shape):
        if shape == "list":
            inner = {"type": "array", "items": inner}
        else:
            inner = {"type": "object", "additionalProperties": inner}
    if field.keys:
        inner |= {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(field.keys),
            "x-kubernetes-patch-merge-key": field.keys[0],
            "x-kubernetes-patch-strategy": "merge",
        }
    elif field.unique:
        inner |= {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    elif field.shape[:1] == ("list",):
        inner["x-kubernetes-list-type"] = "atomic"
    return inner


def _operations(table: Resource, type_: Type) -> JsonObject:
    base = f"/apis/{table.group}/{table.version}" if table.group else f"/api/{table.version}"
    if table.namespaced:
        base += "/namespaces/{namespace}"
    reference = {"$ref": f"#/components/schemas/{PREFIX}{type_.name}"}
    collection, single = f"{base}/{table.plural}", f"{base}/{table.plural}/{{name}}"
    result: JsonObject = {collection: {}, single: {}}
    if "create" in table.verbs:
        result[collection]["post"] = _operation(table, "post", ("*/*",), reference)
    if "update" in table.verbs:
        result[single]["put"] = _operation(table, "put", ("*/*",), reference)
    if "patch" in table.verbs:
        result[single]["patch"] = _operation(table, "patch", PATCHES, {"type": "object"})
    if "get" in table.verbs:
        result[single]["get"] = {
            "responses": {"200": _content(("application/json",), reference)},
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": _gvk(table),
        }
    return result


def _operation(
    table: Resource, action: str, media: tuple[str, ...], reference: JsonObject
) -> JsonObject:
    names = ["dryRun", "fieldManager", "fieldValidation"] + (["force"] if action == "patch" else [])
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in names
        ],
        "requestBody": {**_content(media, reference), "required": True},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(table),
    }


def _content(media: tuple[str, ...], schema: JsonObject) -> dict[str, Any]:
    return {"description": "OK", "content": {name: {"schema": schema} for name in media}}
