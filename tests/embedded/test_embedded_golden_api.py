"""The API's pure answers against those recorded from Kubernetes 1.36.2: no controller, no kubelet.

What only controllers or kubelets could have put there is seeded from the recording, or left out of
the comparison by name (`CONTROLLED`, `ELSEWHERE`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import golden
import pytest

from pytest_sremut.embedded.apiserver.answers import Response
from pytest_sremut.embedded.apiserver.api import Api
from pytest_sremut.embedded.apiserver.authorization import Tokens
from pytest_sremut.embedded.apiserver.negotiation import write
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.resources import by_kind
from pytest_sremut.embedded.printers.pods import pod_status
from pytest_sremut.embedded.registry.registry import Registry

ADMIN = "admin-token"

# What controllers write into objects that the API alone would not.
CONTROLLED = {
    "02-deployment": (".status", ".metadata.annotations", ".metadata.generation"),
    "03-service": (),
    "04-pods": (".status",),
    "05-errors": (".metadata.annotations", ".status"),
}

# Exchanges that need more than the API, or tell nothing of it.
ELSEWHERE = {
    "02-deployment": {
        "005", "006", "008", "009",  # what controllers made: seeded from here instead
    },
    "03-service": {
        "089",  # a slice made by the controller
        "091",  # Endpoints made by the controller
        "094",  # scales a Deployment made outside of the recording
    },
    "04-pods": {
        "042", "043", "044", "045", "046", "047", "050", "051",  # logs: the kubelet's
        "053", "054", "055",  # state after the kubelet
        "069",  # scales a Deployment made outside of the recording
    },
    "05-errors": {
        "064", "065",  # authentication: below
        "069", "072", "075", "078",  # objects deleted before
        *(f"{number:03d}" for number in range(86, 120)),  # selectors and pages: below
        "133", "134", "135",
    },
}  # fmt: skip


class Server:
    """Our API with a translator between the recorded cluster's values and ours."""

    def __init__(self, *namespaces: str, token: str = "") -> None:
        self.registry = Registry(now=lambda: datetime.now(UTC), service_cidr="10.43.0.0/16")
        self.registry.bootstrap()
        for name in namespaces:
            self.registry.create("namespaces", "", {"metadata": {"name": name}})
            account = {"metadata": {"name": "default"}}
            self.registry.create("serviceaccounts", name, account)
        self.api = Api(self.registry, tokens=Tokens(token))
        self.translator = golden.Translator()

    def seed(self, value: golden.Json, *, api_version: str = "", kind: str = "") -> None:
        """Put a recorded object into the store as it stands."""
        found = {"kind": kind, "apiVersion": api_version, **json.loads(json.dumps(value))}
        table = by_kind(found["apiVersion"], found["kind"])
        assert table is not None
        recorded = json.loads(json.dumps(found))
        stored = self.registry.store.put(table.key, found)
        self.translator.learn(recorded, stored)

    def send(self, exchange: golden.Exchange) -> tuple[Response, golden.Json]:
        path, _, query = self.translator.path(exchange.path).partition("?")
        body = exchange.body
        raw = exchange.raw_body
        if isinstance(body, dict | list):
            raw = json.dumps(self.translator.body(body)).encode()
        request = Request(
            method=exchange.method,
            path=path,
            query=tuple(parse_qsl(query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in exchange.headers.items()},
            body=raw,
        )
        answer = self.api.handle(request)
        assert isinstance(answer, Response), f"{exchange.name}: {answer}"
        ours: Any
        if isinstance(answer.body, bytes):
            ours = answer.body.decode()
        elif isinstance(exchange.answer, str):
            ours = write(answer.body, answer.media).decode()
        else:
            ours = json.loads(write(answer.body, "application/json"))
        self.translator.learn(exchange.answer, ours)
        return answer, ours

    def check(self, exchange: golden.Exchange, *, ignoring: tuple[str, ...] = ()) -> list[str]:
        """Where our answer differs from the recorded one."""
        answer, ours = self.send(exchange)
        if answer.status != exchange.status:
            return [f"{exchange.name}: {exchange.status}, ours {answer.status}: {ours}"]
        found = golden.differences(golden.normalise(exchange.answer), golden.normalise(ours))
        found = [line for line in found if not line.startswith(ignoring or ("\0",))]
        warned = exchange.answer_headers.get("Warning", "")
        shown = ", ".join(f'299 - "{text}"' for text in answer.warnings).replace(
            'field "', 'field \\"'
        )
        if bool(warned) != bool(shown):
            found.append(f"warning {warned!r}, ours {shown!r}")
        return [f"{exchange.name}: {line}" for line in found]


def replay(folder: str, server: Server) -> list[str]:
    found = []
    for exchange in golden.exchanges(folder):
        if exchange.name[:3] in ELSEWHERE[folder] or "-table-" in exchange.name:
            continue
        if exchange.name[:3] == "017" and folder == "02-deployment":
            continue
        found += server.check(exchange, ignoring=CONTROLLED[folder])
    return found


def deployment(name: str) -> golden.Json:
    container = {
        "name": "web",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "sh",
            "-c",
            "mkdir -p /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www",
        ],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 3, "containers": [container]},
            },
        },
    }


def test_errors_and_writes() -> None:
    golden.require("05-errors")
    server = Server("golden-err")
    for name in ("d-orphan", "d-background", "d-foreground", "d-default"):
        server.registry.create("deployments.apps", "golden-err", deployment(name))
    assert replay("05-errors", server) == []


def test_services() -> None:
    golden.require("03-service")
    assert replay("03-service", Server("golden-svc")) == []


def test_deployments() -> None:
    golden.require("02-deployment")
    assert replay("02-deployment", Server("golden-deploy")) == []


def test_pods_and_jobs() -> None:
    golden.require("04-pods")
    server = Server("golden-pods")
    web = golden.exchange("04-pods", 8).answer
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        del web["metadata"][key]
    web["metadata"]["generation"] = 1
    server.seed(web)
    forced = golden.exchange("04-pods", 17).answer
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        del forced["metadata"][key]
    forced["metadata"]["generation"] = 1
    server.seed(forced)
    relabelled = golden.exchange("04-pods", 35).answer
    relabelled["metadata"]["labels"]["app"] = "web"
    server.seed(relabelled)
    client = json.loads(json.dumps(golden.exchange("04-pods", 1).answer))
    client["metadata"]["name"] = "client"
    client["spec"]["containers"][0]["command"] = ["sh"]
    server.seed(client)
    found = []
    for exchange in golden.exchanges("04-pods"):
        number = exchange.name[:3]
        if number in ELSEWHERE["04-pods"]:
            continue
        if number == "015":  # the kubelet stopped it in the meantime
            uid = web["metadata"]["uid"]
            server.registry.remove("pods", "golden-pods", web["metadata"]["name"], uid=uid)
        if number == "021":  # the scheduler bound it in the meantime
            _run(server, "fin", phase="Running")
        if number == "022":  # the kubelet stopped it; the finalizer holds the object
            fin = server.registry.get("pods", "golden-pods", "fin")
            assert fin is not None
            server.registry.remove("pods", "golden-pods", "fin", uid=fin["metadata"]["uid"])
        if number == "052":
            _run(server, "ok", phase="Succeeded")
        found += server.check(exchange, ignoring=CONTROLLED["04-pods"])
    # The sentence about the immutable fields ends in a diff of Go structures: not ours to print.
    expected = [line for line in found if "037-pod-immutable" in line]
    assert found == expected
    assert all("pod updates may not change fields other than" in line for line in expected)


def _run(server: Server, name: str, *, phase: str) -> None:
    def bind(value: golden.Json) -> None:
        value["spec"]["nodeName"] = "node-1"

    def start(value: golden.Json) -> None:
        value["status"]["phase"] = phase

    server.registry.mutate("pods", "golden-pods", name, bind)
    server.registry.mutate("pods", "golden-pods", name, start, subresource="status")


@pytest.mark.parametrize(
    ("kind", "lists", "table"),
    [
        ("Deployment", 4, 10),
        ("ReplicaSet", 5, 11),
        ("Pod", 6, 12),
        ("Service", 7, 13),
        ("Endpoints", 8, 14),
        ("EndpointSlice", 9, 15),
    ],
)
def test_tables(kind: str, lists: int, table: int) -> None:
    golden.require("02-deployment")
    recorded = golden.exchange("02-deployment", lists).answer
    items = recorded.get("items", [recorded])
    version = recorded["apiVersion"]
    server = Server("golden-deploy")
    for item in items:
        server.seed(item, api_version=version, kind=kind)
    exchange = golden.exchange("02-deployment", table)
    _at_the_time(server, exchange)
    # Deployments were read once more in between: their revision differs, nothing else.
    assert server.check(exchange) == []


def test_table_of_events_has_the_recorded_columns() -> None:
    golden.require("02-deployment")
    server = Server("golden-deploy")
    _, ours = server.send(golden.exchange("02-deployment", 16))
    recorded = golden.exchange("02-deployment", 16).answer
    assert golden.normalise(ours["columnDefinitions"]) == golden.normalise(
        recorded["columnDefinitions"]
    )


def _at_the_time(server: Server, exchange: golden.Exchange) -> None:
    """Set the clock to the recorded moment: the age column says how long after the creation."""
    row = exchange.answer["rows"][0]
    created = datetime.fromisoformat(row["object"]["metadata"]["creationTimestamp"])
    ages = [cell for cell in row["cells"] if isinstance(cell, str) and cell.endswith("s")]
    seconds = next(int(cell[:-1]) for cell in ages if cell[:-1].isdigit())
    server.registry.now = lambda: datetime.fromtimestamp(created.timestamp() + seconds + 0.5, UTC)


@pytest.mark.parametrize(("folder", "number", "states"), [("04-pods", 55, 54), ("08-faults", 3, 2)])
def test_status_texts_of_pods(folder: str, number: int, states: int) -> None:
    """The STATUS column of pods in trouble, from the recorded objects of about that time."""
    path = next(golden.require(folder).glob(f"{states:03d}-*.state.json"))
    state = json.loads(path.read_text(encoding="utf-8"))
    table = golden.exchange(folder, number).answer
    wanted = {row["cells"][0]: row["cells"][2] for row in table["rows"]}
    pods = [answer for answer in _bodies(state) if answer.get("kind") == "Pod"]
    assert pods
    same = [pod for pod in pods if wanted.get(pod["metadata"]["name"]) == pod_status(pod)]
    moved = {
        pod["metadata"]["name"]: (wanted.get(pod["metadata"]["name"]), pod_status(pod))
        for pod in pods
        if pod not in same and pod["metadata"]["name"] in wanted
    }
    # Pods that crash or start go through several texts while the two were recorded.
    passing = {
        "CrashLoopBackOff",
        "Error",
        "Running",
        "OOMKilled",
        "Completed",
        "ContainerCreating",
        "Init:0/1",
        "Init:Error",
        "Init:CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "PodInitializing",
        "Pending",
    }
    assert all(set(pair) <= passing for pair in moved.values()), moved
    assert len(same) >= len(moved)


def _bodies(value: golden.Json) -> list[golden.Json]:
    if isinstance(value, dict):
        found = [value] if "kind" in value else []
        return found + [item for part in value.values() for item in _bodies(part)]
    if isinstance(value, list):
        return [item for part in value for item in _bodies(part)]
    return []


def test_pages_and_selectors_of_config_maps() -> None:
    golden.require("05-errors")
    server = Server("golden-err")
    names = ["a", "gen-qz8vp", "kube-root-ca.crt", "unk", "unk3", "x"]
    paged = [f"page-{number}" for number in range(5)]
    for name in names + paged:
        labels = {"pg": "1"} if name in paged else {}
        body = {"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}
        server.registry.create("configmaps", "golden-err", body)

    def listed(exchange: golden.Exchange) -> tuple[list[str], golden.Json]:
        answer, ours = server.send(exchange)
        assert answer.status == exchange.status
        return [item["metadata"]["name"] for item in ours["items"]], ours["metadata"]

    first = golden.exchange("05-errors", 111)
    found, metadata = listed(first)
    assert found == first.answer["items"]
    late = {"metadata": {"name": "page-9", "labels": {"pg": "1"}}, "data": {"k": "v"}}
    server.registry.create("configmaps", "golden-err", late)
    for number in (112, 113):
        exchange = golden.exchange("05-errors", number)
        path, _, _ = exchange.path.partition("&continue=")
        following = golden.Exchange(
            name=exchange.name,
            method="GET",
            path=f"{path}&continue={metadata['continue']}",
            headers=exchange.headers,
            body=None,
            status=exchange.status,
            answer_headers={},
            answer=exchange.answer,
        )
        version = metadata["resourceVersion"]
        found, metadata = listed(following)
        assert found == exchange.answer["items"], "an object made between the pages is not shown"
        assert metadata["resourceVersion"] == version
    unlabelled = golden.exchange("05-errors", 114)
    found, metadata = listed(unlabelled)
    assert found == unlabelled.answer["items"]
    assert metadata["remainingItemCount"] == unlabelled.answer["metadata"]["remainingItemCount"]
    everything = golden.exchange("05-errors", 116)
    assert listed(everything)[0] == everything.answer["items"]


def test_pods_by_labels_and_fields() -> None:
    golden.require("05-errors")
    server = Server("golden-err")
    details = {
        "d-orphan-758d69777c-m4vqr": ({"app": "d-orphan"}, "Always", "Running"),
        "sel-0": ({"app": "x", "tier": "a"}, "Never", "Succeeded"),
        "sel-1": ({"app": "x", "tier": "b"}, "Never", "Running"),
        "sel-2": ({"app": "y"}, "Never", "Running"),
    }
    for name, (labels, policy, phase) in details.items():
        server.seed(
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": name, "namespace": "golden-err", "labels": labels},
                "spec": {"nodeName": "node-1", "restartPolicy": policy},
                "status": {"phase": phase},
            }
        )
    for number in [*range(86, 102), 103, 104, 108]:
        exchange = golden.exchange("05-errors", number)
        answer, ours = server.send(exchange)
        assert answer.status == exchange.status, exchange.name
        found = [item["metadata"]["name"] for item in ours["items"]]
        assert found == exchange.answer["items"], exchange.name


def test_strangers() -> None:
    golden.require("05-errors")
    server = Server("golden-err", token=ADMIN)
    found = []
    for number, authorization in ((64, ""), (65, "Bearer wrong"), (66, f"Bearer {ADMIN}")):
        exchange = golden.exchange("05-errors", number)
        if authorization:
            exchange.headers["Authorization"] = authorization
        found += server.check(exchange)
    assert found == []


def test_too_large_versions() -> None:
    golden.require("05-errors")
    server = Server("golden-err")
    assert [
        line for number in (117, 119) for line in server.check(golden.exchange("05-errors", number))
    ] == []
