"""Whatever a client sends is answered, and never by a failure of ours."""

from __future__ import annotations

import json
from typing import Any

import api_kit
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sremut.embedded.apiserver.answers import Response, WatchCall
from pytest_sremut.embedded.apiserver.negotiation import write
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.jsonvalue import clone
from pytest_sremut.embedded.meta.resources import RESOURCES

# The two answers with code 500 that the real server gives too.
RECORDED_500 = ("resourceVersion: Invalid value", "resourceVersion should not be set on objects")

text = st.text(max_size=6)
names = st.sampled_from(["p", "web", "x", "default", "", "a/b", "%2F", "é", "..", "X" * 300]) | text
parts = (
    st.sampled_from(
        [
            "api",
            "apis",
            "v1",
            "apps",
            "watch",
            "namespaces",
            "default",
            "status",
            "scale",
            "log",
            "exec",
            "binding",
            "eviction",
            "finalize",
            "token",
            "openapi",
            "v3",
        ]
    )
    | st.sampled_from([table.plural for table in RESOURCES.values()])
    | names
)
paths = st.lists(parts, max_size=7).map(lambda found: "/" + "/".join(found))


def _path_of(key: str, name: str, sub: str) -> str:
    table = RESOURCES[key]
    base = f"/apis/{table.group}/{table.version}" if table.group else "/api/v1"
    space = "/namespaces/default" if table.namespaced else ""
    tail = f"/{name}{sub}" if name else ""
    return f"{base}{space}/{table.plural}{tail}"


real_paths = st.builds(
    _path_of,
    st.sampled_from(sorted(RESOURCES)),
    st.sampled_from(["", "p", "web"]),
    st.sampled_from(["", "", "/status", "/scale", "/eviction", "/binding", "/token", "/log"]),
)
parameters = st.sampled_from(
    ["watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector",
     "fieldSelector", "timeoutSeconds", "sendInitialEvents", "allowWatchBookmarks", "dryRun",
     "fieldManager", "fieldValidation", "force", "propagationPolicy", "gracePeriodSeconds",
     "orphanDependents", "command", "stdout", "container", "tailLines", "includeObject"]
)  # fmt: skip
known = ["true", "1", "0", "-1", "All", "Strict", "a=b", "metadata.name=x", "Exact", "Orphan", "x"]
values = st.sampled_from([*known, "99999999999"]) | text
queries = st.lists(st.tuples(parameters, values), max_size=4).map(tuple)
medias = st.sampled_from(
    ["application/json", "application/yaml", "application/merge-patch+json",
     "application/json-patch+json", "application/strategic-merge-patch+json",
     "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf", "text/plain", ""]
)  # fmt: skip
accepts = st.sampled_from(
    ["*/*", "application/json", "application/yaml", "text/html", "",
     "application/json;as=Table;v=v1;g=meta.k8s.io",
     "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
)  # fmt: skip
keys = st.sampled_from(
    ["kind", "apiVersion", "metadata", "name", "namespace", "labels", "annotations", "spec",
     "status", "containers", "image", "ports", "port", "targetPort", "selector", "matchLabels",
     "template", "replicas", "type", "clusterIP", "finalizers", "ownerReferences", "data",
     "resourceVersion", "uid", "managedFields", "subsets", "addresses", "ip", "op", "path", "value",
     "$patch", "volumes", "env", "resources", "limits", "cpu", "strategy", "rollingUpdate"]
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 70000) | text
    | st.sampled_from(["Pod", "Service", "v1", "p", "web", "add", "/spec/x", "delete", "50%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=14,
)  # fmt: skip


def _graft(value: Any, places: list[int], graft: Any) -> Any:
    """Put `graft` somewhere into `value`."""
    result = clone(value)
    node = result
    for place in places:
        children = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        if not children:
            break
        key = children[place % len(children)]
        if not isinstance(node[key], dict | list) or place % 3 == 0:
            node[key] = graft
            break
        node = node[key]
    return result


damaged = st.builds(
    _graft,
    st.sampled_from([api_kit.pod(), api_kit.deployment(), api_kit.service()]),
    st.lists(st.integers(0, 11), min_size=1, max_size=8),
    json_values,
)
bodies = (
    st.binary(max_size=20)
    | json_values.map(lambda value: json.dumps(value).encode())
    | damaged.map(lambda value: json.dumps(value).encode())
)


def check(caller: api_kit.Caller, request: Request) -> None:
    answer = caller.api.handle(request)
    if isinstance(answer, WatchCall):
        frames: list[bytes] = []
        end = answer.watch.open(frames.append)
        if end is not None:
            end()
        for frame in frames:
            json.loads(frame)
        return
    if not isinstance(answer, Response):
        return
    encoded = answer.body if isinstance(answer.body, bytes) else write(answer.body, answer.media)
    if answer.status >= 500 and answer.status != 504:
        assert any(sentence.encode() in encoded for sentence in RECORDED_500), encoded
    if answer.status >= 400 and isinstance(answer.body, dict):
        assert answer.body["kind"] == "Status"
        assert answer.body["code"] == answer.status


def caller() -> api_kit.Caller:
    found = api_kit.Caller()
    found.registry.create("pods", "default", api_kit.pod())
    found.registry.create("deployments.apps", "default", api_kit.deployment())
    found.registry.create("services", "default", api_kit.service())
    return found


SHARED = caller()


@settings(max_examples=300)
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"]),
    paths | real_paths,
    queries,
    medias,
    accepts,
    bodies,
)
def test_any_request_is_answered(
    method: str, path: str, query: Any, media: str, accept: str, body: bytes
) -> None:
    headers = {"content-type": media, "accept": accept}
    request = Request(method=method, path=path, query=query, headers=headers, body=body)
    check(SHARED, request)


@settings(max_examples=300)
@given(st.sampled_from(["pods", "deployments.apps", "services"]), damaged, st.booleans())
def test_damaged_objects_are_refused_or_stored_whole(key: str, value: Any, put: bool) -> None:
    fresh = SHARED
    name = "p" if key == "pods" else "web"
    path = _path_of(key, name if put else "", "")
    raw = json.dumps(value).encode()
    check(fresh, Request(method="PUT" if put else "POST", path=path, body=raw))
    for stored in fresh.registry.list(key):
        write(stored, "application/json")


@settings(max_examples=300)
@given(
    st.sampled_from(["pods", "deployments.apps", "services"]),
    st.sampled_from(["merge-patch", "json-patch", "strategic-merge-patch"]),
    json_values | damaged,
)
def test_any_patch_is_answered(key: str, kind: str, value: Any) -> None:
    name = "p" if key == "pods" else "web"
    request = Request(
        method="PATCH",
        path=_path_of(key, name, ""),
        query=(("dryRun", "All"),),
        headers={"content-type": f"application/{kind}+json"},
        body=json.dumps(value).encode(),
    )
    check(SHARED, request)
    apply = Request(
        method="PATCH",
        path=_path_of(key, name, ""),
        query=(("fieldManager", "fuzz"), ("force", "true"), ("dryRun", "All")),
        headers={"content-type": "application/apply-patch+yaml"},
        body=json.dumps(value).encode(),
    )
    check(SHARED, apply)
