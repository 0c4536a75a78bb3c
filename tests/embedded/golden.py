"""The golden corpus: exchanges recorded from a real Kubernetes, replayed against ours.

Rules kept here:

* what differs from cluster to cluster by nature (uids, resource versions, times, addresses,
  generated names, `managedFields`) is normalised away, and the descriptions of table columns, which
  are prose; everything else must be equal;
* values that the recorded cluster handed out and later requests send back are translated to what
  ours handed out in the same place (`Translator`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "k8s-golden" / "v1.36.2"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\b10\.(4[23]|96|97|98|99|1[01]\d|244)\.\d{1,3}\.\d{1,3}\b")
_VERSION = re.compile(r"((?:in record \(|current: ))\d+")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
# Version 1.36 answers these for us to fill in; their values are the cluster's own.
_OWN_VALUES = {
    "resourceVersion": "<rv>",
    "continue": "<continue>",
    "nodePort": "<node-port>",
    "healthCheckNodePort": "<node-port>",
}
_TRANSLATED = frozenset(("uid", "resourceVersion", "clusterIP", "name", "nodePort", "podIP"))

Json = Any


def require(folder: str = "") -> Path:
    """The corpus, or a folder of it; skips the test without."""
    path = CORPUS / folder
    if not path.is_dir():
        pytest.skip("the golden corpus is not here")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One recorded request and its answer."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: Json
    status: int
    answer_headers: dict[str, str]
    answer: Json

    @property
    def raw_body(self) -> bytes:
        """The body as it was sent: text as it is, anything else as JSON."""
        if self.body is None:
            return b""
        if isinstance(self.body, str):
            return self.body.encode()
        return json.dumps(self.body).encode()


def exchanges(folder: str) -> Iterator[Exchange]:
    """The exchanges of a folder, in order."""
    for path in sorted(require(folder).glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("type") == "exchange":
            yield read(path.stem, found)


def exchange(folder: str, number: int) -> Exchange:
    """One exchange of a folder by its number."""
    (path,) = require(folder).glob(f"{number:03d}-*.json")
    return read(path.stem, json.loads(path.read_text(encoding="utf-8")))


def read(name: str, found: dict[str, Json]) -> Exchange:
    """An exchange from its file."""
    request, response = found["request"], found["response"]
    return Exchange(
        name=name,
        method=request["method"],
        path=request["path"],
        headers=request.get("headers") or {},
        body=request.get("body"),
        status=response["status"],
        answer_headers=response.get("headers") or {},
        answer=response.get("body"),
    )


def normalise(value: Json) -> Json:
    """`value` without what differs from cluster to cluster by nature."""
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, list):
        return [normalise(item) for item in value]
    return text(value) if isinstance(value, str) else value


def _object(value: dict[str, Json]) -> dict[str, Json]:
    result = {}
    for key, item in value.items():
        if key == "managedFields" or (key == "description" and "priority" in value):
            continue
        if key in _OWN_VALUES and isinstance(item, str | int):
            result[key] = _OWN_VALUES[key]
        elif key == "name" and "generateName" in value:
            result[key] = f"{value['generateName']}<generated>"
        else:
            result[key] = normalise(item)
    return result


def text(value: str) -> str:
    """Text without uids, times, addresses and generated names."""
    value = _UUID.sub("<uid>", value)
    value = _TIME.sub("<time>", value)
    value = _ADDRESS.sub("<address>", value)
    value = _VERSION.sub(r"\1<rv>", value)
    return _TOKEN_VOLUME.sub("kube-api-access-<generated>", value)


class Translator:
    """What ours calls the things that the recorded cluster handed out."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def learn(self, recorded: Json, ours: Json, key: str = "") -> None:
        """Compare two answers place by place and remember how values are called."""
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for name in recorded.keys() & ours.keys():
                if name == "name" and "generateName" not in recorded:
                    continue
                self.learn(recorded[name], ours[name], name)
        elif isinstance(recorded, list) and isinstance(ours, list):
            for left, right in zip(recorded, ours, strict=False):
                self.learn(left, right, key)
        elif isinstance(recorded, str) and isinstance(ours, str) and key in _TRANSLATED:
            if key == "resourceVersion":
                self._versions[recorded] = ours
            elif len(recorded) > 4:
                self._values[recorded] = ours

    def body(self, value: Json, key: str = "") -> Json:
        """A recorded body as it must be sent to ours."""
        if isinstance(value, dict):
            return {name: self.body(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.body(item, key) for item in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion":
            return self._versions.get(value, value)
        return self._values.get(value, value)

    def path(self, value: str) -> str:
        """A recorded path and query as it must be sent to ours."""
        for old, new in self._values.items():
            value = value.replace(old, new)
        return re.sub(
            r"(resourceVersion=)(\d+)",
            lambda match: match[1] + self._versions.get(match[2], match[2]),
            value,
        )


def differences(recorded: Json, ours: Json, place: str = "") -> list[str]:
    """Where two normalised values differ, one line per place."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        found = []
        for key in recorded.keys() | ours.keys():
            where = f"{place}.{key}"
            if key not in ours:
                found.append(f"{where}: missing, recorded {json.dumps(recorded[key])[:300]}")
            elif key not in recorded:
                found.append(f"{where}: not recorded, ours {json.dumps(ours[key])[:300]}")
            else:
                found += differences(recorded[key], ours[key], where)
        return sorted(found)
    if isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        return [
            line
            for index, (left, right) in enumerate(zip(recorded, ours, strict=True))
            for line in differences(left, right, f"{place}[{index}]")
        ]
    if recorded == ours and type(recorded) is type(ours):
        return []
    return [f"{place}: recorded {json.dumps(recorded)[:600]}, ours {json.dumps(ours)[:600]}"]
