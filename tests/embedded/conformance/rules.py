"""What may differ between two clusters by nature, rule by rule.

`RULES` is the list that the documentation prints; `Side` applies it. There is one `Side` for the
recorded cluster and one for ours: each learns what its own cluster's values stand for, so that
"the address of that Service" can be compared although the addresses differ.
"""

from __future__ import annotations

import json
import re
from typing import Any

Json = Any

RULES: dict[str, str] = {
    "uid": "a uid is compared as the kind and name of the object that it belongs to",
    "version": "resource versions and continue tokens are compared by their presence; whether a "
    "write changed the version is compared where the recorded write did not",
    "time": "points in time are compared by their presence",
    "address": "an address is compared as the pod or Service that it belongs to",
    "generated": "names that a server completes are compared without the completion, and template "
    "hashes as a hash",
    "node-port": "node ports that the server chose are compared by their presence",
    "identity": "container ids, image ids and the registry part of an image's name",
    "managed": "managedFields are left out: the client names itself there",
    "prose": "descriptions of table columns and of API fields are not compared",
    "age": "ages in tables and texts are compared by their presence",
    "order": "items, endpoints and rows whose names are generated have no order; "
    "lines of nslookup neither",
    "slice-generation": "the generation of an EndpointSlice counts how often its controller looked",
    "event-count": "events are compared by object, type, reason, message and source, not by how "
    "often they happened",
    "again": "a recorded state is waited for; a read is repeated for as long as the recording took",
    "crash": "between two runs a container is shown as ended or as backed off, by the moment; "
    "restarts are compared as none or some",
    "trigger-time": "the annotation endpoints.kubernetes.io/last-change-trigger-time comes and "
    "goes with whole seconds",
    "unlimited": "the recorded kubelet read 9007199254740988Ki back where no memory limit was set",
    "certificate": "certificates are compared by their presence",
    "storage-hash": "the hash of a resource's storage version is left out",
    "pull": "why an image could not be pulled is the recorded machine's own story",
    "size": "columns of printed tables are compared word by word, without their widths",
}

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_GENERATED = re.compile(rf"-{_SAFE}{{8,10}}-{_SAFE}{{5}}\b")
_HASHED = re.compile(rf"-(?=[a-z]*\d){_SAFE}{{8,10}}\b")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
_NETWORK = re.compile(r"\b10\.(?:42|43|96|244)\.\d{1,3}\.\d{1,3}\b")
_REVERSE = re.compile(r"\b\d{1,3}\.\d{1,3}\.(?:42|43|96|244)\.10\.in-addr\.arpa")
_VERSIONS = re.compile(r"(resource version: \d+ \(|in record \(|current: |resource version: )\d+")
_REGISTRY = re.compile(r"\b(?:registry\.example|docker\.io)/library/")
_RUNTIME = re.compile(r"\b(?:containerd|sremut)://")
_LONG_ID = re.compile(r"\b[0-9a-f]{64}\b")
_AGO = re.compile(r" \((?:\d+[smhd])+ ago\)")
_EVENT_NAME = re.compile(r"\.[0-9a-f]{16}\b")
_PULL = re.compile(r"(failed to resolve image: ).*", re.DOTALL)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?", re.DOTALL)
_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
_UNLIMITED = {"limits": {"memory": "9007199254740988Ki"}}

UNORDERED = frozenset(("items", "addresses", "notReadyAddresses", "endpoints", "rows"))
_AGES = frozenset(("Age", "Last Seen", "First Seen", "Duration", "LastScheduleTime"))
_FIXED = {
    "10.43.0.10": "<ip of the dns>",
    "10.96.0.10": "<ip of the dns>",
    "10.99.0.1": "<ip outside>",
    "10.200.0.1": "<ip outside>",
    "10.43.0.1": "<ip of the api>",
    "10.96.0.1": "<ip of the api>",
}
_EVENT_FIELDS = ("involvedObject", "type", "reason", "message", "source", "reportingComponent")


class Side:
    """One cluster's own values and what they stand for."""

    def __init__(self) -> None:
        self._known: dict[str, str] = dict(_FIXED)
        self._pattern: re.Pattern[str] | None = None

    # Learning

    def learn(self, value: Json, kind: str = "") -> None:
        """Take note of every object in an answer."""
        if isinstance(value, list):
            for item in value:
                self.learn(item, kind)
        elif isinstance(value, dict):
            kind = value.get("kind", kind) if isinstance(value.get("kind"), str) else kind
            metadata = value.get("metadata")
            if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
                self._object(value, metadata, kind)
            self._endpoint(value)
            for name, item in value.items():
                if isinstance(item, dict | list) and name != "managedFields":
                    self.learn(item, kind.removesuffix("List") if name == "items" else "")

    def _object(self, value: dict[str, Json], metadata: dict[str, Json], kind: str) -> None:
        digest = (metadata.get("labels") or {}).get("pod-template-hash")
        if isinstance(digest, str) and len(digest) > 5:
            self._name(digest, "<hash>")
        for label in ("controller-revision-hash", "controller.kubernetes.io/hash"):
            revision = (metadata.get("labels") or {}).get(label)
            if isinstance(revision, str):
                self._name(revision.rpartition("-")[2], "<hash>")
        name = metadata["name"]
        generated = metadata.get("generateName")
        if isinstance(generated, str) and name.startswith(generated) and name != generated:
            self._name(name, f"{self.text(generated)}<x>")
        called = self.text(name)
        if isinstance(metadata.get("uid"), str):
            self._name(metadata["uid"], f"<uid of {kind} {called}>")
        spec, status = value.get("spec"), value.get("status")
        if isinstance(spec, dict) and isinstance(spec.get("clusterIP"), str):
            self._address(spec["clusterIP"], f"<ip of service {called}>")
        if isinstance(status, dict) and isinstance(status.get("podIP"), str):
            self._address(status["podIP"], f"<ip of pod {called}>")

    def _endpoint(self, value: dict[str, Json]) -> None:
        target = value.get("targetRef")
        if not isinstance(target, dict) or target.get("kind") != "Pod":
            return
        called = self.text(str(target.get("name", "")))
        addresses = [value.get("ip"), *(value.get("addresses") or [])]
        for address in addresses:
            if isinstance(address, str):
                self._address(address, f"<ip of pod {called}>")
        if isinstance(target.get("uid"), str):
            self._name(target["uid"], f"<uid of Pod {called}>")

    def _address(self, address: str, called: str) -> None:
        if _NETWORK.fullmatch(address):
            self._name(address, called)

    def know(self, value: str, called: str) -> None:
        """Say what a value stands for that no answer explains."""
        self._name(value, called)

    def _name(self, value: str, called: str) -> None:
        if self._known.get(value) is None:
            self._known[value] = called
            self._pattern = None

    # Reading

    def text(self, value: str) -> str:
        """A text in which the cluster's own values are replaced by what they stand for."""
        if self._pattern is None:
            longest = sorted(self._known, key=len, reverse=True)
            self._pattern = re.compile(
                r"(?<![\w.])(?:" + "|".join(map(re.escape, longest)) + r")(?![\w])(?!\.\d)"
            )
        value = self._pattern.sub(lambda match: self._known[match[0]], value)
        value = _TIME.sub("<time>", _UUID.sub("<uid>", value))
        value = _HASHED.sub("-<hash>", _GENERATED.sub("-<hash>-<x>", value))
        value = re.sub(rf"-<hash>-{_SAFE}{{5}}\b", "-<hash>-<x>", value)
        value = _NETWORK.sub("<address>", _REVERSE.sub("<reverse>", value))
        value = _VERSIONS.sub(lambda match: re.sub(r"\d+", "<rv>", match[1]) + "<rv>", value)
        value = _LONG_ID.sub("<id>", _REGISTRY.sub("", value))
        value = _CERTIFICATE.sub("<certificates>", _RUNTIME.sub("<runtime>://", value))
        value = _PULL.sub(r"\1<cause>", _EVENT_NAME.sub(".<x>", value))
        return _TOKEN_VOLUME.sub("kube-api-access-<x>", value)

    def canonical(self, value: Json, key: str = "") -> Json:
        """`value` without what may differ by nature."""
        if isinstance(value, dict):
            return self._canonical_object(value)
        if isinstance(value, list):
            items = [self.canonical(item, key) for item in value]
            return sorted(items, key=dumped) if key in UNORDERED else items
        return self.text(value) if isinstance(value, str) else value

    def _canonical_object(self, value: dict[str, Json]) -> Json:  # noqa: C901  # one branch for each kind of object that differs from call to call
        if value.get("kind") == "Table":
            return self._table(value)
        if "involvedObject" in value and "reason" in value:
            shown = {name: value.get(name) for name in _EVENT_FIELDS}
            shown["involvedObject"] = {
                name: item
                for name, item in value["involvedObject"].items()
                if name not in ("resourceVersion", "uid")
            }
            return {name: self.canonical(item) for name, item in shown.items()}
        if "restartCount" in value and isinstance(value.get("state"), dict):
            value = _between_runs(value)
        result = {}
        for name, item in value.items():
            if name in ("managedFields", "storageVersionHash", _TRIGGER):
                continue
            if name == "annotations" and isinstance(item, dict) and not item.keys() - {_TRIGGER}:
                continue
            if name == "resources" and item == _UNLIMITED:
                result[name] = {}
            elif name in ("resourceVersion", "continue") and isinstance(item, str):
                result[name] = f"<{name}>"
            elif name in ("nodePort", "healthCheckNodePort") and isinstance(item, int):
                result[name] = "<node port>"
            elif name in ("containerID", "imageID") and isinstance(item, str) and item:
                result[name] = "<id>"
            elif name == "generation" and "kubernetes.io/service-name" in json.dumps(value):
                result[name] = "<generation>"
            elif name == "name" and isinstance(value.get("generateName"), str):
                result[name] = f"{self.text(value['generateName'])}<x>"
            else:
                result[name] = self.canonical(item, name)
        return result

    def _table(self, value: dict[str, Json]) -> Json:
        columns = value.get("columnDefinitions") or []
        names = [column["name"] for column in columns]
        rows = []
        for row in value.get("rows") or []:
            cells = [
                "<age>" if name in _AGES else _cell(name, self.canonical(cell))
                for name, cell in zip(names, row["cells"], strict=False)
            ]
            rows.append({"cells": cells, "object": self.canonical(row.get("object"))})
        return {
            "kind": "Table",
            "apiVersion": value.get("apiVersion"),
            "metadata": self.canonical(value.get("metadata")),
            "columns": [{k: v for k, v in c.items() if k != "description"} for c in columns],
            "rows": sorted(rows, key=dumped),
        }


def _cell(column: str, cell: Json) -> Json:
    if not isinstance(cell, str):
        return cell
    cell = _AGO.sub("", cell)
    if column == "Restarts" and cell != "0":
        return "<some>"
    return cell.replace("CrashLoopBackOff", "Error") if column == "Status" else cell


def _between_runs(status: dict[str, Json]) -> dict[str, Json]:
    """A container's status by the rule "crash"."""
    state, last = status["state"], status.get("lastState") or {}
    backed_off = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    if not (backed_off or status["restartCount"]):
        return status
    status = {**status, "restartCount": "<some>"}
    ended = last.get("terminated") if backed_off else state.get("terminated")
    if ended:
        status["state"] = {"ended": [ended.get("exitCode"), ended.get("reason")]}
        status["lastState"] = {}
    return status


def dumped(value: Json) -> str:
    """A text by which values can be put in order."""
    return json.dumps(value, sort_keys=True)


def _by_name(items: list[Json]) -> dict[str, Json] | None:
    """What discovery lists, by name; ``None`` for other lists."""
    found: dict[str, Json] = {}
    for item in items:
        if not isinstance(item, dict) or "uid" in item.get("metadata", {}):
            return None
        name = next((item[key] for key in ("resource", "name", "subresource") if key in item), "")
        if not isinstance(name, str) or not name or name in found or "value" in item:
            return None
        found[name] = item
    return found


def differences(recorded: Json, ours: Json, place: str = "") -> list[str]:
    """Where two canonical values differ, one line per place."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        found = []
        for key in sorted(recorded.keys() | ours.keys()):
            where = f"{place}.{key}"
            if key not in ours:
                found.append(f"{where}: missing, recorded {json.dumps(recorded[key])[:400]}")
            elif key not in recorded:
                found.append(f"{where}: not recorded, ours {json.dumps(ours[key])[:400]}")
            else:
                found += differences(recorded[key], ours[key], where)
        return found
    if isinstance(recorded, list) and isinstance(ours, list):
        if len(recorded) == len(ours):
            return [
                line
                for index, (left, right) in enumerate(zip(recorded, ours, strict=True))
                for line in differences(left, right, f"{place}[{index}]")
            ]
        named = [_by_name(recorded), _by_name(ours)]
        if named[0] and named[1]:
            return differences(named[0], named[1], place)
        left, right = map(dumped, recorded), list(map(dumped, ours))
        missing = [item for item in left if not (item in right and not right.remove(item))]
        return [
            *(f"{place}[]: missing, recorded {item[:500]}" for item in missing),
            *(f"{place}[]: not recorded, ours {item[:500]}" for item in right),
        ]
    if recorded == ours and type(recorded) is type(ours):
        return []
    return [f"{place}: recorded {json.dumps(recorded)[:700]}, ours {json.dumps(ours)[:700]}"]
