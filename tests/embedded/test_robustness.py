"""Nothing that clients do harms the server, and nothing is left of a cluster that is gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import leftovers
import pytest
from conformance.world import World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_cluster import eventually, start

from pytest_sremut.embedded import EmbeddedCluster

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with start(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    found = World(cluster.kubeconfig)
    yield found
    found.close()


WORDS = st.sampled_from(
    ["api", "apis", "v1", "apps", "batch", "namespaces", "default", "pods", "services", "events",
     "deployments", "configmaps", "c", "status", "scale", "log", "exec", "watch", "..", "%00",
     "%2e%2e", "nodes", "node-1", "openapi", "v3", "\u00e9", "endpoints", "eviction", "binding"]
)  # fmt: skip
PARAMETERS = st.sampled_from(
    ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch", "dryRun",
     "resourceVersionMatch", "timeoutSeconds", "sendInitialEvents", "propagationPolicy", "force",
     "fieldManager", "fieldValidation", "gracePeriodSeconds", "tailLines", "allowWatchBookmarks"]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ["", "true", "false", "1", "0", "-1", "99999999999999999999", "a=b", "a in (b", "!x",
         "metadata.name=kept", "All", "Exact", "NotOlderThan", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"]
    ),
    st.text(max_size=12),
)  # fmt: skip
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(["Pod", "Service", "Deployment", "ConfigMap", "Endpoints", "Job", "Nope"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.binary(max_size=40))
    value: Any = draw(NESTED)
    if kind == 1:
        value = {
            "apiVersion": draw(st.sampled_from(["v1", "apps/v1", "batch/v1", ""])),
            "kind": draw(KINDS),
            "metadata": draw(NESTED),
            "spec": draw(NESTED),
        }
    elif kind == 2:
        value = [{"op": draw(st.sampled_from(["add", "remove", "test", "copy", "x"])),
                  "path": draw(st.text(max_size=10)), "value": value}]  # fmt: skip
    return json.dumps(value).encode()


@st.composite
def paths(draw: st.DrawFn) -> str:
    from urllib.parse import quote

    path = "/" + "/".join(draw(st.lists(WORDS, max_size=7)))
    if draw(st.booleans()):
        path = "/api/v1/namespaces/fuzz/" + "/".join(draw(st.lists(WORDS, min_size=1, max_size=3)))
    query = draw(st.lists(st.tuples(PARAMETERS, VALUES), max_size=3))
    shown = "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
    # Watches and followed logs are ended at once.
    return quote(path, safe="/%") + "?" + shown + "&timeoutSeconds=0&follow=false"


MEDIA = st.sampled_from(
    ["application/json", "application/merge-patch+json", "application/json-patch+json",
     "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain",
     "application/vnd.kubernetes.protobuf", ""]
)  # fmt: skip


@pytest.fixture(scope="module")
def kept(world: World) -> dict[str, Any]:
    world.make("/api/v1/namespaces", {"metadata": {"name": "fuzz"}})
    world.make("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    found: dict[str, Any] = world.make(
        "/api/v1/namespaces/kept/configmaps", {"metadata": {"name": "kept"}, "data": {"a": "b"}}
    )
    return found


@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    path=paths(),
    body=bodies(),
    media=MEDIA,
)
def test_no_request_breaks_the_server(
    world: World, kept: dict[str, Any], method: str, path: str, body: bytes, media: str
) -> None:
    if method == "DELETE" and path.startswith("/api/v1/namespaces?"):
        return
    reply = world.send(method, path, body, {"Content-Type": media})
    assert 200 <= reply.status < 500 or reply.status in (500, 501, 504), (method, path, reply)
    if reply.status == 500:  # what a real server answers 500 to has a recorded sentence
        assert isinstance(reply.body, dict), reply
        assert "Error(" not in str(reply.body.get("message")), reply
    if isinstance(reply.body, dict) and reply.status >= 400 and method != "HEAD":
        assert reply.body.get("kind") == "Status"
        assert reply.body.get("code") == reply.status


def test_the_store_is_sound_after_that(
    cluster: EmbeddedCluster, world: World, kept: dict[str, Any]
) -> None:
    assert cluster.status()["failures"] == []
    found = world.get("/api/v1/namespaces/kept/configmaps/kept")
    assert found["data"] == kept["data"]
    for path in ("/api/v1/pods", "/api/v1/services", "/apis/apps/v1/deployments", "/api/v1/events"):
        for item in world.get(path)["items"]:
            metadata = item["metadata"]
            assert metadata["uid"]
            assert int(metadata["resourceVersion"]) > 0
            one = world.get(f"{path}?fieldSelector=metadata.name%3D"
                            f"{metadata['name']}")  # fmt: skip
            assert metadata["uid"] in {found["metadata"]["uid"] for found in one["items"]}


def test_many_watchers_clients_and_objects(cluster: EmbeddedCluster, world: World) -> None:
    """200 watchers, 10 clients, 500 objects: everybody sees everything, in order."""
    watchers, clients, each = 200, 10, 50
    path = "/api/v1/namespaces/many/configmaps"
    world.make("/api/v1/namespaces", {"metadata": {"name": "many"}})
    version = world.get(path)["metadata"]["resourceVersion"]
    query = f"?watch=true&resourceVersion={version}&timeoutSeconds=120&labelSelector=x%3Dy"
    watching = [world.watch(path + query) for _ in range(watchers)]

    def write(client: int) -> None:
        own = World(cluster.kubeconfig)
        for number in range(each):
            metadata = {"name": f"c-{client}-{number}", "labels": {"x": "y"}}
            own.make(path, {"metadata": metadata})
        own.close()

    try:
        with ThreadPoolExecutor(max_workers=clients) as pool:
            list(pool.map(write, range(clients)))
        assert len(world.get(path + "?labelSelector=x%3Dy")["items"]) == clients * each
        eventually(
            lambda: all(len(watch.lines) >= clients * each for watch in watching),
            "every watcher has seen every object",
        )
        for watch in watching:
            versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in watch.lines]
            assert versions == sorted(versions)
            assert {line["type"] for line in watch.lines} == {"ADDED"}
            assert len(versions) == clients * each
    finally:
        closing = [threading.Thread(target=watch.close) for watch in watching]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
    assert cluster.status()["failures"] == []


def test_nothing_is_left_of_clusters_that_are_gone(tmp_path: Path) -> None:
    start(tmp_path).close()  # imports, caches
    before = leftovers.of(tmp_path)
    for number in range(6):
        leftovers.cycle(tmp_path, number)
    eventually(lambda: leftovers.of(tmp_path) == before, "as before")
