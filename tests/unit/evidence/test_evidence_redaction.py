from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.evidence.redaction import KINDS, REDACTED, redact, redact_bytes, redact_text
from pytest_sremut.ground.durable.text_redaction import looks_secret

GOLDEN = Path(__file__).parents[4] / "shared" / "k8s-golden" / "v1.36.2"
CANARY = "canary-5f3a9c"

METADATA: dict[str, Any] = {
    "name": "user-service",
    "namespace": "social-network",
    "uid": "uid-1",
    "labels": {"service": "user-service"},
    "managedFields": [{"manager": CANARY}],
    "selfLink": f"/{CANARY}",
    "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": CANARY,
        "vendor.example/session-token": CANARY,
        "deployment.kubernetes.io/revision": "3",
    },
    "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u", "secret": CANARY}],
    "clusterSpecific": CANARY,
}
POD_SPEC: dict[str, Any] = {
    "nodeName": "node-1",
    "serviceAccountName": "default",
    "imagePullSecrets": [{"name": CANARY}],
    "containers": [
        {
            "name": "main",
            "image": "app:1",
            "command": ["app", "--password", CANARY],
            "args": [f"--token={CANARY}"],
            "env": [
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "PORT", "value": "9090"},
                {"name": "DB_PASSWORD", "value": CANARY},
                {"name": "API_KEY", "value": CANARY},
                {"name": "GH_TOKEN", "value": CANARY},
                {"name": "URL", "value": f"mongodb://user:{CANARY}@user-mongodb:27017"},
                {"name": "HEADER", "value": f"Authorization: Bearer {CANARY}"},
                {"name": "MIXED", "value": CANARY, "valueFrom": {"secretKeyRef": {"name": "s"}}},
                {
                    "name": "FROM_SECRET",
                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "data": CANARY}},
                },
            ],
            "envFrom": [{"secretRef": {"name": "s", "data": CANARY}}],
            "readinessProbe": {
                "httpGet": {
                    "path": "/healthz",
                    "port": 9090,
                    "httpHeaders": [{"name": "Authorization", "value": CANARY}],
                },
                "exec": {"command": [CANARY]},
                "periodSeconds": 1,
            },
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": CANARY}],
            "securityContext": {"x": CANARY},
        }
    ],
    "volumes": [
        {"name": "v", "secret": {"secretName": "s", "items": [{"key": CANARY}]}},
        {"name": "w", "hostPath": {"path": f"/{CANARY}"}},
        {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": CANARY}}]}},
    ],
}
POD_STATUS = {
    "phase": "Running",
    "podIP": "10.0.0.7",
    "message": f"pull failed: token={CANARY}",
    "containerStatuses": [
        {
            "name": "main",
            "ready": True,
            "state": {"waiting": {"message": f"https://u:{CANARY}@registry/v2 refused"}},
            "other": CANARY,
        }
    ],
    "hidden": CANARY,
}
BODIES: dict[str, dict[str, Any]] = {
    "Service": {"spec": {"selector": {"a": "b"}, "secretThing": CANARY}, "data": CANARY},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.7", "x": CANARY}], "x": CANARY}]},
    "EndpointSlice": {"endpoints": [{"addresses": ["10.0.0.7"], "deprecatedTopology": CANARY}]},
    "Pod": {"spec": POD_SPEC, "status": POD_STATUS},
    "Deployment": {"spec": {"replicas": 1, "template": {"metadata": METADATA, "spec": POD_SPEC}}},
    "ReplicaSet": {"spec": {"replicas": 1, "template": {"metadata": METADATA, "spec": POD_SPEC}}},
    "Job": {"spec": {"completions": 1, "template": {"metadata": METADATA, "spec": POD_SPEC}}},
    "Event": {"reason": "Failed", "message": f"password: {CANARY}", "related": {"x": CANARY}},
    "Node": {"status": {"nodeInfo": {"osImage": "x"}, "images": [CANARY], "addresses": [CANARY]}},
    "Namespace": {"status": {"phase": "Active"}, "spec": {"x": CANARY}},
    "Secret": {"data": {"k": CANARY}, "stringData": {"k": CANARY}, "type": CANARY},
    "ConfigMap": {"data": {"k": CANARY}, "binaryData": {"k": CANARY}},
    "ServiceAccount": {"secrets": [{"name": CANARY}]},
    "Whatever": {"spec": {"x": CANARY}, "status": {"x": CANARY}},
}


@pytest.mark.parametrize("kind", sorted(BODIES))
def test_no_canary_gets_through(kind: str) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": METADATA, **BODIES[kind]}
    before = json.dumps(body)
    kept = redact(kind, body)
    assert CANARY not in json.dumps(kept)
    assert json.dumps(body) == before
    assert kept["kind"] == kind
    assert kept["metadata"]["name"] == "user-service"
    assert kept["metadata"]["uid"] == "uid-1"
    assert kept["metadata"]["labels"] == {"service": "user-service"}


def test_every_kind_of_the_allow_list_is_tried() -> None:
    assert set(BODIES) >= KINDS


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "Whatever"])
def test_of_an_unlisted_kind_only_the_identity_is_kept(kind: str) -> None:
    kept = redact(kind, {"kind": kind, "metadata": METADATA, **BODIES[kind]})
    assert kept == {
        "kind": kind,
        "metadata": {
            "name": "user-service",
            "namespace": "social-network",
            "uid": "uid-1",
            "labels": {"service": "user-service"},
        },
    }


def test_a_pod_keeps_what_a_reader_needs() -> None:
    kept = redact("Pod", {"metadata": METADATA, "spec": POD_SPEC, "status": POD_STATUS})
    (container,) = kept["spec"]["containers"]
    env = {item["name"]: item for item in container["env"]}
    assert env["POD_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert env["PORT"]["value"] == "9090"
    assert env["DB_PASSWORD"]["value"] == REDACTED
    assert env["URL"]["value"] == f"mongodb://{REDACTED}@user-mongodb:27017"
    assert env["FROM_SECRET"] == {
        "name": "FROM_SECRET",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
    }
    assert container["readinessProbe"] == {
        "httpGet": {"path": "/healthz", "port": 9090},
        "periodSeconds": 1,
    }
    assert "command" not in container
    assert kept["spec"]["volumes"][0] == {"name": "v", "secret": {"secretName": "s"}}
    assert kept["status"]["podIP"] == "10.0.0.7"
    assert kept["status"]["containerStatuses"][0]["ready"] is True


def test_a_service_keeps_all_that_its_restoration_needs() -> None:
    body = {
        "metadata": {
            "name": "s",
            "labels": {"a": "b"},
            "annotations": {
                "team.example/owner": "x",
                "kubectl.kubernetes.io/last-applied-configuration": CANARY,
            },
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"service": "s"},
            "ports": [{"name": "9090", "port": 9090, "targetPort": 9090, "protocol": "TCP"}],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        },
    }
    kept = redact("Service", body)
    assert kept["spec"] == body["spec"]
    assert kept["metadata"]["annotations"] == {"team.example/owner": "x"}


def test_a_list_is_redacted_item_by_item() -> None:
    listing = {"kind": "SecretList", "items": [{"metadata": METADATA, "data": {"k": CANARY}}, 7]}
    kept = redact("Secret", listing)
    assert kept["kind"] == "SecretList"
    assert len(kept["items"]) == 1
    assert CANARY not in json.dumps(kept)


shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "containers", "env", "name", "value", "valueFrom",
                 "annotations", "labels", "subsets", "addresses", "template", "items", "ports"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.sampled_from(sorted(BODIES)), st.dictionaries(st.text(max_size=8), shapes) | shapes)
def test_whatever_the_shape_redaction_gives_json(kind: str, body: Any) -> None:
    if isinstance(body, dict):
        kept = redact(kind, body)
        assert json.loads(json.dumps(kept)) == kept
        assert redact(kind, kept).keys() <= kept.keys() | {"items"}


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded corpus is not here")
def test_recorded_services_lose_nothing_but_the_servers_bookkeeping() -> None:
    found = 0
    for path in sorted(GOLDEN.glob("03-service/*-create.json")):
        body = json.loads(path.read_text())["response"]["body"]
        if isinstance(body, dict) and body.get("kind") == "Service":
            kept = redact("Service", body)
            body["metadata"].pop("managedFields", None)
            assert kept == body
            found += 1
    assert found > 3


# -- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}",
        f"authorization: Basic {CANARY}==",
        f'"Authorization": "Digest username=x, response={CANARY}"',
        f"proxy-authorization={CANARY}",
        f"Cookie: session={CANARY}; other={CANARY}",
        f"Set-Cookie: id={CANARY}; HttpOnly",
        f"curl -H 'Authorization: token {CANARY}' http://x",
        f"sent bearer {CANARY} to the server",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{CANARY}",
        f"postgres://admin:{CANARY}@db:5432/x",
        f"https://{CANARY}@host/",
        f"password={CANARY}",
        f"DB_PASSWORD: {CANARY}",
        f'{{"client_secret": "{CANARY}"}}',
        f"api-key = {CANARY}",
        f"?access_token={CANARY}&x=1",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n",
    ],
)
def test_credentials_are_taken_out_of_text(text: str) -> None:
    line = f"2026-11-30T10:00:00Z before {text}\nnext line\n"
    redacted = redact_text(line)
    assert CANARY not in redacted
    assert REDACTED in redacted
    assert redacted.startswith("2026-11-30T10:00:00Z before ")
    assert redact_text(redacted) == redacted
    assert CANARY.encode() not in redact_bytes(line.encode())


@pytest.mark.parametrize(
    "text",
    [
        "  1024 requests in 10.00s, 1.20MB read",
        "  Non-2xx or 3xx responses: 104",
        "Requests/sec:    102.35",
        "Running wrk2 on round #3",
        'MountVolume.SetUp failed for volume "v": secret "s" not found',
        "http://nginx-thrift:8080/wrk2-api/post/compose",
        "user@example.org wrote",
        "basic auth",
        "keyspace: 3",
    ],
)
def test_what_is_no_credential_is_kept(text: str) -> None:
    assert redact_text(text) == text


@given(st.binary(max_size=200))
def test_scrubbing_bytes_is_stable(data: bytes) -> None:
    once = redact_bytes(data)
    assert redact_bytes(once) == once


@given(
    st.lists(
        st.sampled_from(
            ["Authorization", ": ", "=", "Bearer ", "token", "password", '"', "'", " ", "\n", "://",
             "@", "abcdef", "http", "Cookie", "[redacted]", ",", ";", "eyJabcde.", "-----BEGIN "]
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_scrubbing_text_is_stable(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


def test_a_long_log_is_scrubbed_in_reasonable_time() -> None:
    line = "2026-11-30T10:00:00.123456789Z   Thread Stats   Avg      Stdev     99%   +/- Stdev\n"
    log = (line * 20_000).encode()
    assert redact_bytes(log) == log
    hostile = b"token" * 20_000 + b"-----BEGIN PRIVATE KEY-----" * 2_000 + b"a://" * 20_000
    assert REDACTED.encode() in redact_bytes(hostile)


@pytest.mark.parametrize(
    "name", ["DB_PASSWORD", "apiKey", "AUTH_TOKEN", "sessionId", "MY_SECRET_X"]
)
def test_names_that_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["PORT", "POD_IP", "PATH", "KEYSPACE", "SERVICE_NAME", "TIMEOUT"])
def test_names_that_do_not(name: str) -> None:
    assert not looks_secret(name)
