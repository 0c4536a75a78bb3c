from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import api_kit
import pytest

from pytest_sremut.embedded.apiserver.answers import (
    ExecCall,
    ForwardCall,
    LogCall,
    Response,
    WatchCall,
)
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.resources import GROUPS, RESOURCES

NS = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"


@pytest.fixture
def caller() -> api_kit.Caller:
    return api_kit.Caller()


# Documents


def test_discovery_tells_every_resource_in_both_forms(caller: api_kit.Caller) -> None:
    listed = {
        (group, entry["name"])
        for group, version in {"": "v1", **GROUPS}.items()
        for entry in caller.get(f"/apis/{group}/{version}" if group else "/api/v1")["resources"]
    }
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    aggregated = set()
    for path in ("/api", "/apis"):
        for item in caller.get(path, accept=accept)["items"]:
            group = item["metadata"].get("name", "")
            for resource in item["versions"][0]["resources"]:
                aggregated.add((group, resource["resource"]))
                for sub in resource.get("subresources", []):
                    aggregated.add((group, f"{resource['resource']}/{sub['subresource']}"))
    assert listed == aggregated
    assert {(table.group, table.plural) for table in RESOURCES.values()} <= listed


def test_openapi_documents_are_whole(caller: api_kit.Caller) -> None:
    index = caller.get("/openapi/v3")["paths"]
    assert set(index) == {"api/v1", *(f"apis/{name}/{version}" for name, version in GROUPS.items())}
    for entry in index.values():
        status, text = caller.answer("GET", entry["serverRelativeURL"])
        assert status == 200
        document = json.loads(text)
        schemas = document["components"]["schemas"]
        assert all(reference in schemas for reference in _references(document))
        patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
        for operation in patches:
            assert "fieldValidation" in [item["name"] for item in operation["parameters"]]
    status, text = caller.answer("GET", "/openapi/v2", accept="application/x-protobuf")
    assert (status, text) == (200, "")
    assert caller.get("/openapi/v2")["swagger"] == "2.0"


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200), ("GET", "/version", 200), ("GET", "/healthz", 200),
        ("GET", "/readyz?verbose", 200), ("GET", "/livez", 200), ("POST", "/version", 405),
        ("GET", "/nope", 404), ("POST", "/nope", 404), ("GET", "/apis/nope", 404),
        ("GET", "/apis/apps/v9", 404), ("GET", "/api/v2", 404), ("GET", "/api/v1/widgets", 404),
        ("GET", f"{NS}/nodes", 404), ("GET", "/api/v1/pods/x", 404), ("POST", "/api/v1/pods", 405),
        ("GET", f"{NS}/pods/x/nope", 404), ("PUT", f"{NS}/pods", 405), ("HEAD", NS, 200),
        ("DELETE", "/api/v1/namespaces", 405), ("GET", "/openapi/v3/apis/nope/v1", 404),
        ("GET", f"{APPS}/deployments/x/scale", 404), ("BREW", "/version", 400),
        ("GET", "/sremut/v1/status", 404), ("GET", "/api/v1/", 200), ("GET", "//api//v1", 200),
    ],
)  # fmt: skip
def test_paths(caller: api_kit.Caller, method: str, path: str, status: int) -> None:
    assert caller.answer(method, path)[0] == status


# Reading


def test_lists_and_their_forms(caller: api_kit.Caller) -> None:
    caller.post(f"{NS}/pods", api_kit.pod())
    plain = caller.get(f"{NS}/pods")
    assert plain["kind"] == "PodList"
    assert "kind" not in plain["items"][0]
    table = caller.get(f"{NS}/pods", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert caller.get(f"{NS}/pods/p", accept=accept)["kind"] == "PartialObjectMetadata"
    status, text = caller.answer("GET", f"{NS}/pods/p", accept="application/yaml")
    assert status == 200
    assert caller.last is not None
    assert caller.last.media == "application/yaml"
    assert text["kind"] == "Pod"
    assert caller.answer("GET", f"{NS}/pods", accept="text/html")[0] == 406
    protobuf = "application/vnd.kubernetes.protobuf,application/json"
    assert caller.get(f"{NS}/pods", accept=protobuf)["kind"] == "PodList"


def test_every_kind_prints_as_a_table(caller: api_kit.Caller) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for table in RESOURCES.values():
        if "list" not in table.verbs:
            continue
        base = f"/apis/{table.group}/{table.version}" if table.group else "/api/v1"
        namespace = "default" if table.namespaced else ""
        value = {"metadata": {"name": "x"}, "kind": table.kind, "apiVersion": table.api_version}
        if namespace:
            value["metadata"]["namespace"] = namespace
        caller.registry.store.put(table.stored_as or table.key, value)
        found = caller.get(f"{base}/{table.plural}", accept=accept)
        for row in found["rows"]:
            assert len(row["cells"]) == len(found["columnDefinitions"]), table.key


def test_pages_are_of_one_revision(caller: api_kit.Caller) -> None:
    for name in "abcde":
        caller.post(f"{NS}/configmaps", {"metadata": {"name": name}})
    first = caller.get(f"{NS}/configmaps?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    caller.post(f"{NS}/configmaps", {"metadata": {"name": "bb"}})
    token = first["metadata"]["continue"]
    rest = caller.get(f"{NS}/configmaps?limit=9&continue={token}")
    names = [item["metadata"]["name"] for item in first["items"] + rest["items"]]
    assert names == ["a", "b", "c", "d", "e"]
    everywhere = caller.get("/api/v1/configmaps?limit=1")
    following = caller.get(
        f"/api/v1/configmaps?limit=1&continue={everywhere['metadata']['continue']}"
    )
    assert following["items"][0]["metadata"]["name"] == "b"


def test_the_forgotten_past_of_a_list_is_410() -> None:
    registry = api_kit.make_registry()
    caller = api_kit.Caller(registry)
    for name in "abc":
        caller.post(f"{NS}/configmaps", {"metadata": {"name": name}})
    token = caller.get(f"{NS}/configmaps?limit=1")["metadata"]["continue"]
    for number in range(20_001):
        registry.store.put("configmaps", {"metadata": {"name": "z", "namespace": "x", "n": number}})
    status, body = caller.answer("GET", f"{NS}/configmaps?limit=1&continue={token}")
    assert (status, body["reason"]) == (410, "Expired")
    rest = caller.get(f"{NS}/configmaps?continue={body['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]
    target = f"{NS}/configmaps?resourceVersion=3&resourceVersionMatch=Exact"
    status, body = caller.answer("GET", target)
    assert (status, body["message"]) == (
        410, "The resourceVersion for the provided list is too old.",
    )  # fmt: skip
    frames = watch_frames(caller, f"{NS}/configmaps?watch=1&resourceVersion=3")
    assert frames[0]["type"] == "ERROR"
    assert frames[0]["object"]["code"] == 410


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=x", 400), ("limit=-1", 200), ("resourceVersion=x", 400), ("continue=xxx", 400),
        ("continue=e30", 400), ("resourceVersion=99999999", 504), ("labelSelector=a%20b", 400),
        ("fieldSelector=a", 400), ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Nope", 422), ("limit=99999999999999999999", 400),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422), ("continue=%00%ff", 400),
        ("resourceVersion=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", 400),
    ],
)  # fmt: skip
def test_list_options(caller: api_kit.Caller, query: str, status: int) -> None:
    assert caller.answer("GET", f"{NS}/configmaps?{query}")[0] == status


# Watching


def watch_frames(caller: api_kit.Caller, target: str, **headers: str) -> list[Any]:
    """Open a watch and answer what it sends at once; later frames are appended."""
    path, _, query = target.partition("?")
    request = Request(method="GET", path=path, query=tuple(parse_qsl(query)), headers=dict(headers))
    call = caller.api.handle(request)
    assert isinstance(call, WatchCall), call
    frames: list[Any] = []
    call.watch.open(lambda frame: frames.append(json.loads(frame)))
    return frames


def test_a_watch_tells_past_and_present(caller: api_kit.Caller) -> None:
    made = caller.post(f"{NS}/configmaps", {"metadata": {"name": "a", "labels": {"w": "1"}}})
    since = int(made["metadata"]["resourceVersion"]) - 1
    target = f"{NS}/configmaps?watch=true&labelSelector=w%3D1"
    resumed = watch_frames(caller, f"{target}&resourceVersion={since}")
    fresh = watch_frames(caller, target)
    single = watch_frames(
        caller, f"/api/v1/watch/namespaces/default/configmaps/a?resourceVersion={since}"
    )
    name = f"{NS}/configmaps/a"
    caller.patch(name, {"data": {"k": "v"}})
    caller.patch(name, {"data": {"k": "v"}})
    caller.patch(name, {"metadata": {"labels": {"w": "2"}}})
    caller.patch(name, {"metadata": {"labels": {"w": "1"}}})
    caller.answer("DELETE", name)
    kinds = ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert [frame["type"] for frame in resumed] == kinds
    assert [frame["type"] for frame in fresh] == kinds
    assert [frame["type"] for frame in single] == [
        "ADDED",
        "MODIFIED",
        "MODIFIED",
        "MODIFIED",
        "DELETED",
    ]
    assert resumed[0]["object"]["kind"] == "ConfigMap"
    left = resumed[2]["object"]["metadata"]
    assert left["labels"] == {"w": "1"}
    assert int(left["resourceVersion"]) > int(resumed[1]["object"]["metadata"]["resourceVersion"])
    late = watch_frames(caller, f"{target}&resourceVersion={since}")
    assert [frame["type"] for frame in late] == kinds


def test_initial_events_end_in_a_bookmark(caller: api_kit.Caller) -> None:
    caller.post(f"{NS}/configmaps", {"metadata": {"name": "a"}})
    query = (
        "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    )
    frames = watch_frames(caller, f"{NS}/configmaps?{query}")
    assert [frame["type"] for frame in frames] == ["ADDED", "BOOKMARK"]
    bookmark = frames[1]["object"]["metadata"]
    assert bookmark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["resourceVersion"] == str(caller.registry.revision)


def test_a_watch_of_tables_defines_its_columns_once(caller: api_kit.Caller) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    frames = watch_frames(caller, f"{NS}/pods?watch=1", accept=accept)
    for name in "ab":
        caller.post(f"{NS}/pods", api_kit.pod(name))
    assert [bool(frame["object"]["columnDefinitions"]) for frame in frames] == [True, False]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=abc", 500), ("timeoutSeconds=x", 400),
        ("resourceVersionMatch=Exact", 422), ("sendInitialEvents=true", 422),
        ("labelSelector=%3D", 400),
    ],
)  # fmt: skip
def test_watch_options(caller: api_kit.Caller, query: str, status: int) -> None:
    assert caller.answer("GET", f"{NS}/configmaps?watch=true&{query}")[0] == status


# Writing


def test_dry_runs_and_warnings(caller: api_kit.Caller) -> None:
    body = {"metadata": {"name": "a"}, "nope": 1}
    caller.post(f"{NS}/configmaps?dryRun=All", body)
    assert caller.last is not None
    assert caller.last.warnings == ('unknown field "nope"',)
    assert caller.answer("GET", f"{NS}/configmaps/a")[0] == 404
    assert caller.answer("POST", f"{NS}/configmaps?fieldValidation=Strict", body)[0] == 400
    caller.post(f"{NS}/configmaps?fieldValidation=Ignore", body)
    assert caller.last.warnings == ()
    duplicate = b'{"metadata": {"name": "b"}, "data": {"k": "1", "k": "2"}}'
    assert caller.answer("POST", f"{NS}/configmaps?fieldValidation=Strict", duplicate)[0] == 400
    assert caller.answer("DELETE", f"{NS}/configmaps/a?dryRun=All")[0] == 200
    assert caller.answer("GET", f"{NS}/configmaps/a")[0] == 200


def test_yaml_bodies(caller: api_kit.Caller) -> None:
    text = b"metadata:\n  name: a\n  annotations: {when: 2026-11-30, n: '1'}\ndata: {k: v}\n"
    media = {"content_type": "application/yaml"}
    status, body = caller.answer("POST", f"{NS}/configmaps", text, **media)
    assert status == 201
    assert body["metadata"]["annotations"]["when"] == "2026-11-30"
    for bad in (
        b"a: &x [1]\nb: *x\n",
        b"a: [",
        b"\xff\xfe",
        b"!!python/object:os.system {}",
        b"? [a]\n: b\n",
    ):
        status, _ = caller.answer("POST", f"{NS}/configmaps", bad, **media)
        assert status == 400, bad


def test_strings_of_secrets_become_data(caller: api_kit.Caller) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "1"}}
    made = caller.post(f"{NS}/secrets", body)
    assert made["data"] == {"a": "MQ=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


def test_scales(caller: api_kit.Caller) -> None:
    caller.post(f"{APPS}/deployments", api_kit.deployment(replicas=1))
    target = f"{APPS}/deployments/web/scale"
    scale = caller.get(target)
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    caller.patch(target, {"spec": {"replicas": 3}})
    scale = caller.get(target)
    scale["spec"]["replicas"] = 2
    assert caller.answer("PUT", target, scale)[0] == 200
    assert caller.answer("PUT", target, scale)[0] == 409
    for replicas, status in ((-1, 422), ("x", 422)):
        media = {"content_type": "application/merge-patch+json"}
        body = {"spec": {"replicas": replicas}}
        assert caller.answer("PATCH", target, body, **media)[0] == status
    assert caller.get(f"{APPS}/deployments/web")["spec"]["replicas"] == 2
    assert caller.get(f"{APPS}/deployments/web")["metadata"]["generation"] == 3


def test_bindings_and_evictions(caller: api_kit.Caller) -> None:
    caller.post(f"{NS}/pods", api_kit.pod())
    target = {"target": {"kind": "Node", "name": "node-1"}}
    caller.post(f"{NS}/pods/p/binding", target)
    assert caller.answer("POST", f"{NS}/pods/p/binding", target)[0] == 409
    assert caller.get(f"{NS}/pods/p")["spec"]["nodeName"] == "node-1"
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    caller.patch(f"{NS}/pods/p/status", status)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}}
    caller.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    code, body = caller.answer("POST", f"{NS}/pods/p/eviction", eviction)
    assert code == 429
    assert body["details"]["causes"][0]["message"] == (
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    )
    caller.answer("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b")
    body = caller.post(f"{NS}/pods/p/eviction", eviction)
    assert (body["status"], body["code"]) == ("Success", 201)
    assert "deletionTimestamp" in caller.get(f"{NS}/pods/p")["metadata"]


def test_namespaces_are_finalized(caller: api_kit.Caller) -> None:
    caller.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    caller.answer("DELETE", "/api/v1/namespaces/n")
    body = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    assert caller.answer("PUT", "/api/v1/namespaces/n/finalize", body)[0] == 200
    assert caller.answer("GET", "/api/v1/namespaces/n")[0] == 404


def test_collections_are_deleted_by_selector(caller: api_kit.Caller) -> None:
    for name in "abc":
        labels = {"x": "y"} if name != "c" else {}
        caller.post(f"{NS}/configmaps", {"metadata": {"name": name, "labels": labels}})
    status, body = caller.answer("DELETE", f"{NS}/configmaps?labelSelector=x%3Dy")
    assert status == 200
    assert [item["metadata"]["name"] for item in body["items"]] == ["a", "b"]
    assert len(caller.get(f"{NS}/configmaps")["items"]) == 1


def test_a_put_creates_what_may_be_created_so(caller: api_kit.Caller) -> None:
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
    body = {"metadata": {"name": "e"}, "subsets": subsets}
    assert caller.answer("PUT", f"{NS}/endpoints/e", body)[0] == 201
    assert caller.answer("PUT", f"{NS}/configmaps/e", {"metadata": {"name": "e"}})[0] == 404


def test_events_in_both_forms(caller: api_kit.Caller) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    body = {"metadata": {"name": "e"}, "regarding": about, "note": "n", "reason": "R"}
    made = caller.post("/apis/events.k8s.io/v1/namespaces/default/events", body)
    assert made["note"] == "n"
    core = caller.get(f"{NS}/events/e")
    assert (core["message"], core["involvedObject"]) == ("n", about)
    frames = watch_frames(caller, "/apis/events.k8s.io/v1/namespaces/default/events?watch=1")
    assert frames[0]["object"]["apiVersion"] == "events.k8s.io/v1"


# Who asks


def test_tokens_roles_and_reviews() -> None:
    caller = api_kit.Caller(token="secret")
    admin = {"authorization": "Bearer secret"}
    assert caller.answer("GET", "/api/v1/pods")[0] == 403
    assert caller.answer("GET", "/healthz")[0] == 200
    assert caller.answer("GET", "/api/v1/pods", authorization="Bearer wrong")[0] == 401
    assert caller.answer("GET", "/api/v1/pods", **admin)[0] == 200
    status, body = caller.answer("POST", f"{NS}/serviceaccounts/default/token", {}, **admin)
    assert status == 201
    account = {"authorization": f"Bearer {body['status']['token']}"}
    assert caller.answer("GET", f"{NS}/pods", **account)[0] == 403
    role = {
        "metadata": {"name": "r"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    caller.post(f"{rbac}/roles", role, **admin)
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    caller.post(f"{rbac}/rolebindings", binding, **admin)
    assert caller.answer("GET", f"{NS}/pods", **account)[0] == 200
    assert caller.answer("DELETE", f"{NS}/pods", **account)[0] == 403
    assert caller.answer("GET", "/api/v1/pods", **account)[0] == 403
    reviews = "/apis/authorization.k8s.io/v1"
    for verb, allowed in (("list", True), ("delete", False)):
        spec = {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": "pods"}}
        answer = caller.post(f"{reviews}/selfsubjectaccessreviews", {"spec": spec}, **account)
        assert answer["status"]["allowed"] is allowed
        about = {**spec, "user": "system:serviceaccount:default:default"}
        answer = caller.post(f"{reviews}/subjectaccessreviews", {"spec": about}, **admin)
        assert answer["status"]["allowed"] is allowed
    rules = caller.post(
        f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, **account
    )
    assert rules["status"]["resourceRules"] == role["rules"]
    who = caller.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **admin)
    assert who["status"]["userInfo"]["username"] == "kubernetes-admin"
    impersonate = {"impersonate-user": "somebody"}
    assert caller.answer("GET", "/api/v1/pods", **admin, **impersonate)[0] == 403
    assert caller.answer("GET", "/api/v1/pods", **account, **impersonate)[0] == 403


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant(caller: api_kit.Caller, *rules: dict[str, Any], cluster: bool = False) -> None:
    """Give the default account of the namespace default these rules, and no others."""
    where = RBAC if cluster else f"{RBAC}/namespaces/default"
    kind = "ClusterRole" if cluster else "Role"
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    admin = {"authorization": "Bearer secret"}
    plural = f"{kind.lower()}s"
    caller.post(f"{where}/{plural}", {"metadata": {"name": "g"}, "rules": list(rules)}, **admin)
    reference = {"kind": kind, "name": "g", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "g"}, "roleRef": reference, "subjects": [subject]}
    caller.post(f"{where}/{kind.lower()}bindings", binding, **admin)


def rule(resource: str, *verbs: str, **more: Any) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": [""], "resources": [resource], **more}


def account_of(caller: api_kit.Caller, body: Any = None) -> dict[str, str]:
    status, answer = caller.answer(
        "POST", f"{NS}/serviceaccounts/default/token", body or {}, authorization="Bearer secret"
    )
    assert status == 201, answer
    return {"authorization": f"Bearer {answer['status']['token']}"}


def test_a_refusal_reads_as_the_real_one() -> None:
    caller = api_kit.Caller(token="secret")
    account = account_of(caller)
    user = 'User "system:serviceaccount:default:default" cannot'
    for method, target, message, details in (
        ("GET", f"{NS}/pods", f'pods is forbidden: {user} list resource "pods" in API group "" '
         'in the namespace "default"', {"kind": "pods"}),
        ("DELETE", f"{NS}/services/web", f'services "web" is forbidden: {user} delete resource '
         '"services" in API group "" in the namespace "default"',
         {"name": "web", "kind": "services"}),
        ("GET", "/apis/apps/v1/deployments", f"deployments.apps is forbidden: {user} list resource "
         '"deployments" in API group "apps" at the cluster scope',
         {"group": "apps", "kind": "deployments"}),
        ("GET", f"{NS}/pods/p/log", f'pods "p" is forbidden: {user} get resource "pods/log" in API '
         'group "" in the namespace "default"', {"name": "p", "kind": "pods"}),
        ("GET", "/api/v1/namespaces/kube-system", f'namespaces "kube-system" is forbidden: {user} '
         'get resource "namespaces" in API group "" in the namespace "kube-system"',
         {"name": "kube-system", "kind": "namespaces"}),
    ):  # fmt: skip
        status, body = caller.answer(method, target, **account)
        assert (status, body["reason"], body["code"]) == (403, "Forbidden", 403)
        assert (body["message"], body["details"]) == (message, details)


def test_a_cluster_role_may_name_one_object() -> None:
    caller = api_kit.Caller(token="secret")
    grant(caller, rule("namespaces", "get", "list", resourceNames=["kube-system"]), cluster=True)
    account = account_of(caller)
    assert caller.answer("GET", "/api/v1/namespaces/kube-system", **account)[0] == 200
    assert caller.answer("GET", "/api/v1/namespaces/default", **account)[0] == 403
    assert caller.answer("GET", "/api/v1/namespaces", **account)[0] == 403
    by_name = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system"
    assert caller.answer("GET", by_name, **account)[0] == 200
    assert caller.answer("GET", by_name.replace("kube-system", "default"), **account)[0] == 403


def test_a_command_over_a_websocket_must_be_allowed_as_both() -> None:
    """It begins as a GET; since 1.35 that alone does not do."""
    for verbs, refused in ((("get",), "create"), (("create",), "get"), (("get", "create"), "")):
        caller = api_kit.Caller(token="secret")
        caller.post(f"{NS}/pods", api_kit.pod(), authorization="Bearer secret")
        grant(caller, rule("pods/exec", *verbs))
        pairs = (("command", "id"), ("stdout", "true"))
        answer = caller.api.handle(
            Request(method="GET", path=f"{NS}/pods/p/exec", query=pairs, headers=account_of(caller))
        )
        if not refused:
            assert isinstance(answer, ExecCall)
            continue
        assert isinstance(answer, Response)
        assert answer.status == 403
        assert f"cannot {refused} resource" in str(answer.body)


def test_a_token_ends_with_its_time_and_with_its_account() -> None:
    clock = api_kit.Clock()
    caller = api_kit.Caller(api_kit.make_registry(clock), token="secret")
    grant(caller, rule("pods", "list"))
    short, long = (
        account_of(caller, {"spec": {"expirationSeconds": seconds}}) for seconds in (600, 6000)
    )
    assert caller.answer("GET", f"{NS}/pods", **short)[0] == 200
    clock.advance(601)
    assert caller.answer("GET", f"{NS}/pods", **short)[0] == 401
    assert caller.answer("GET", f"{NS}/pods", **long)[0] == 200
    admin = {"authorization": "Bearer secret"}
    caller.answer("DELETE", f"{NS}/serviceaccounts/default", **admin)
    assert caller.answer("GET", f"{NS}/pods", **long)[0] == 401
    caller.post(f"{NS}/serviceaccounts", {"metadata": {"name": "default"}}, **admin)
    assert caller.answer("GET", f"{NS}/pods", **long)[0] == 401  # of the same name, another one
    assert caller.answer("GET", f"{NS}/pods", **account_of(caller))[0] == 200


def test_whose_a_token_is() -> None:
    caller = api_kit.Caller(token="secret")
    admin = {"authorization": "Bearer secret"}
    token = account_of(caller)["authorization"].removeprefix("Bearer ")
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"

    def asked(token: str) -> Any:
        return caller.post(reviews, {"spec": {"token": token}}, **admin)["status"]

    known = asked(token)
    assert known["authenticated"] is True
    assert known["user"]["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccounts:default" in known["user"]["groups"]
    for wrong in ("", "nope"):
        assert asked(wrong) == {"authenticated": False, "user": {}, "error": "invalid bearer token"}


def test_what_service_accounts_asked_for_is_remembered() -> None:
    caller = api_kit.Caller(token="secret")
    admin, account = {"authorization": "Bearer secret"}, account_of(caller)
    grant(caller, rule("pods", "list"))
    for _ in range(2):
        caller.answer("GET", f"{NS}/pods", **account)
        caller.answer("GET", "/apis/apps/v1/deployments", **account)
        caller.answer("GET", "/api/v1/nodes", **admin)
    user = "system:serviceaccount:default:default"
    assert caller.answer("GET", "/sremut/v1/access", **admin)[1]["asked"] == [
        {"user": user, "verb": "list", "group": "", "resource": "pods", "namespace": "default",
         "allowed": True},
        {"user": user, "verb": "list", "group": "apps", "resource": "deployments",
         "namespace": "", "allowed": False},
    ]  # fmt: skip
    assert caller.answer("GET", "/sremut/v1/access", **account)[0] == 403


# Calls into pods


def call(caller: api_kit.Caller, target: str) -> Any:
    path, _, query = target.partition("?")
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    return caller.api.handle(Request(method="GET", path=path, query=pairs))


def test_calls_into_pods(caller: api_kit.Caller) -> None:
    caller.post(f"{NS}/pods", api_kit.pod())
    log = call(caller, f"{NS}/pods/p/log?follow=true&tailLines=5&timestamps=1&limitBytes=9")
    assert isinstance(log, LogCall)
    assert (log.container, log.follow, log.tail_lines, log.limit_bytes) == ("main", True, 5, 9)
    run = call(caller, f"{NS}/pods/p/exec?command=a&command=b+c&stdout=true&stdin=1")
    assert isinstance(run, ExecCall)
    assert (run.argv, run.stdin, run.stdout, run.stderr) == (("a", "b c"), True, True, False)
    ports = call(caller, f"{NS}/pods/p/portforward?ports=80,81&ports=82")
    assert isinstance(ports, ForwardCall)
    assert ports.ports == (80, 81, 82)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("p/log?container=nope", 400), ("nope/log", 404), ("p/log?tailLines=-1", 422),
        ("p/log?tailLines=x", 400), ("two/log", 400), ("p/exec?stdout=1", 400),
        ("p/exec?command=a", 400), ("p/portforward?ports=x", 400),
        ("p/portforward?ports=70000", 400),
    ],
)  # fmt: skip
def test_bad_calls_into_pods(caller: api_kit.Caller, target: str, status: int) -> None:
    caller.post(f"{NS}/pods", api_kit.pod())
    two = api_kit.pod("two")
    two["spec"]["containers"].append({"name": "other", "image": "x"})
    caller.post(f"{NS}/pods", two)
    assert call(caller, f"{NS}/pods/{target}").status == status


def test_pages_over_namespaces_miss_nothing(caller: api_kit.Caller) -> None:
    for namespace in ("a", "a-b", "a0b"):
        caller.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("z", "a"):
            caller.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}})
    everything = caller.get("/api/v1/configmaps")["items"]
    paged: list[Any] = []
    token = ""
    while True:
        page = caller.get(f"/api/v1/configmaps?limit=1&continue={token}")
        paged += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert paged == everything
    assert len(paged) == 6
