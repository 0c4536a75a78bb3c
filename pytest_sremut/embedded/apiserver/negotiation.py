"""What a client accepts, and objects in that form.

Rules kept here:

* JSON and YAML are written; protobuf is passed over, so clients that prefer it take JSON;
* ``as=Table`` and ``as=PartialObjectMetadata`` are asked for in ``Accept`` and honoured for single
  objects, lists and watches alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.errors import not_acceptable
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.printers.tables import partial, partial_list, table

__all__ = ["Form", "negotiate", "write"]

AVAILABLE = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
JSON = "application/json"
YAML = "application/yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of an answer: media type, and what objects are shown as."""

    media: str = JSON
    shown_as: str = ""
    include: str = "Metadata"

    def one(self, resource: Resource, value: JsonObject, now: datetime) -> JsonObject:
        """A single object in this form."""
        if self.shown_as == "Table":
            metadata = {"resourceVersion": value["metadata"].get("resourceVersion", "")}
            return table(resource, [value], metadata, now, include=self.include)
        if self.shown_as.startswith("Partial"):
            return partial(value)
        return value

    def many(
        self, resource: Resource, items: Sequence[JsonObject], metadata: JsonObject, now: datetime
    ) -> JsonObject:
        """A list of objects in this form; items of a plain list carry no kind, as recorded."""
        if self.shown_as == "Table":
            return table(resource, items, metadata, now, include=self.include)
        if self.shown_as.startswith("Partial"):
            return partial_list(items, metadata)
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": [
                {key: item[key] for key in item if key not in ("kind", "apiVersion")}
                for item in items
            ],
        }

    def event(
        self, resource: Resource, value: JsonObject, now: datetime, *, first: bool
    ) -> JsonObject:
        """An object of a watch in this form; only the first table defines the columns."""
        if self.shown_as == "Table":
            metadata = {"resourceVersion": value["metadata"].get("resourceVersion", "")}
            return table(resource, [value], metadata, now, include=self.include, columns=first)
        if self.shown_as.startswith("Partial"):
            return partial(value)
        return value


def negotiate(request: Request) -> Form:
    """The form that a client accepts.

    Raises:
        ApiStatus: 406, none that is served.
    """
    include = request.first("includeObject") or "Metadata"
    accept = request.headers.get("accept", "") or "*/*"
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        values = dict(word.partition("=")[::2] for word in parameters)
        if media in (JSON, "application/*", "*/*"):
            chosen = JSON
        elif media in (YAML, "text/yaml"):
            chosen = YAML
        else:
            continue
        shown_as = values.get("as", "")
        known = shown_as in ("", "Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        if not known or (shown_as and values.get("g") != "meta.k8s.io"):
            continue
        if shown_as and values.get("v") not in ("v1", "v1beta1"):
            continue
        return Form(media=chosen, shown_as=shown_as, include=include)
    raise not_acceptable(AVAILABLE)


class _Dumper(yaml.SafeDumper):
    """YAML 1.1 readers take ``y`` and ``n`` for booleans: quote them, as the real encoder does."""


_AMBIGUOUS = re.compile(r"[yYnN]\Z")


def _string(dumper: yaml.SafeDumper, value: str) -> Any:
    style = '"' if _AMBIGUOUS.match(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _string)


def write(value: Any, media: str) -> bytes:
    """`value` encoded as JSON or YAML."""
    if media == YAML:
        text = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=10_000)
        return str(text).encode("utf-8", "replace")
    return encode(value)
