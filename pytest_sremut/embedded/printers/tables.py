"""Server-side printing: ``Table`` and ``PartialObjectMetadata``.

Rules kept here:

* columns, their priorities and the texts in the cells are as recorded; descriptions are short ones
  of our own;
* a kind without columns of its own is printed by name and age;
* a table never fails on an odd object: what is not there prints as it does there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.printers.definitions import COLUMNS, Column
from pytest_sremut.embedded.printers.objects import PRINTERS
from pytest_sremut.embedded.printers.pods import pod_conditions, print_pod
from pytest_sremut.embedded.printers.values import age

__all__ = ["partial", "partial_list", "table"]

META = "meta.k8s.io/v1"


def partial(value: JsonObject) -> JsonObject:
    """Only the metadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": value["metadata"]}


def partial_list(items: Iterable[JsonObject], metadata: JsonObject) -> JsonObject:
    """Only the metadata of objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META,
        "metadata": metadata,
        "items": [partial(item) for item in items],
    }


def table(
    resource: Resource,
    items: Iterable[JsonObject],
    metadata: JsonObject,
    now: datetime,
    *,
    include: str = "Metadata",
    columns: bool = True,
) -> JsonObject:
    """Objects of `resource` as a ``Table``.

    Args:
        include: what is beside the cells: ``Metadata``, ``Object`` or ``None``.
        columns: whether to define the columns (not again in a watch).
    """
    result: JsonObject = {"kind": "Table", "apiVersion": META, "metadata": metadata}
    definitions = COLUMNS.get(resource.stored_as or resource.key, COLUMNS[""])
    result["columnDefinitions"] = [_definition(column) for column in definitions] if columns else []
    result["rows"] = [_row(resource, item, now, include) for item in items]
    return result


def _definition(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or column.name,
        "priority": column.priority,
    }


def _row(resource: Resource, value: JsonObject, now: datetime, include: str) -> JsonObject:
    key = resource.stored_as or resource.key
    conditions: list[JsonObject] = []
    if key == "pods":
        cells = print_pod(value, now)
        conditions = pod_conditions(value)
    elif key in PRINTERS:
        cells = PRINTERS[key](value, now)
    else:
        cells = [value["metadata"].get("name", ""), age(value, now)]
    shown: Any = None
    if include == "Metadata":
        shown = partial(value)
    elif include == "Object":
        shown = value
    row: JsonObject = {"cells": cells}
    if conditions:
        row["conditions"] = conditions
    row["object"] = shown
    return row
