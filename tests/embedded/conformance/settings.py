"""What a recording assumes but does not contain: objects and actions from outside of it.

Rules kept here: bodies are those of the recorded objects where there are any; everything made here
is named, and made before the step that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .recorded import CORPUS
from .translation import Translator
from .world import World

Json = Any
Action = Callable[[World, Translator], None]

SLEEPER = ["sh", "-c", 'trap "exit 0" TERM; sleep 36000 & wait']
SERVER = "mkdir -p /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"
SLOW_SERVER = (
    "mkdir -p /www; hostname > /www/index.html; httpd -p 8080 -h /www; "
    'trap "sleep 4; exit 0" TERM; while :; do sleep 0.2; done'
)
_FILLED_IN = (
    "nodeName", "tolerations", "serviceAccount", "serviceAccountName", "priority",
    "enableServiceLinks", "preemptionPolicy", "schedulerName", "dnsPolicy", "securityContext",
)  # fmt: skip
_RECORDED_WRITES = 3
CORE = "/api/v1/namespaces"
APPS = "/apis/apps/v1/namespaces"


def deployment(name: str, *, replicas: int = 1, command: str = SERVER, grace: int = 3) -> Json:
    container = {
        "name": "web",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": grace, "containers": [container]},
            },
        },
    }


def pod(name: str, command: list[str], labels: Json, policy: str = "Always") -> Json:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": command,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


def service(name: str, app: str, target: int = 8080) -> Json:
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": target}
    return {"metadata": {"name": name}, "spec": {"selector": {"app": app}, "ports": [port]}}


def manifest(recorded: Json) -> Json:
    """The body that a recorded object was created from, without what the server filled in."""
    metadata, spec = recorded["metadata"], json.loads(json.dumps(recorded["spec"]))
    keep = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    if "containers" in spec:
        if spec.get("nodeName") != "nope":
            spec.pop("nodeName", None)
        spec = {
            key: value
            for key, value in spec.items()
            if key not in _FILLED_IN or (key == "nodeName" and value == "nope")
        }
        own = [v for v in spec.pop("volumes", []) if not v["name"].startswith("kube-api-access")]
        if own:
            spec["volumes"] = own
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            mounts = [
                mount
                for mount in container.pop("volumeMounts", [])
                if not mount["name"].startswith("kube-api-access")
            ]
            if mounts:
                container["volumeMounts"] = mounts
    return {"metadata": keep, "spec": spec}


def namespace(world: World, name: str) -> None:
    """A namespace in which pods can be created."""
    world.make("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"{CORE}/{name}"
    world.until(lambda: world.get(f"{path}/serviceaccounts/default"), f"{name} has its account")
    world.until(lambda: world.get(f"{path}/configmaps/kube-root-ca.crt"), f"{name} has its CA")


def client(world: World, name: str) -> None:
    world.make(f"{CORE}/{name}/pods", pod("client", SLEEPER, {"role": "client"}))
    world.ready(name, "role=client")


def _deployments(world: World, _: Translator) -> None:
    namespace(world, "golden-deploy")


def _services(world: World, _: Translator) -> None:
    namespace(world, "golden-svc")
    world.make(f"{APPS}/golden-svc/deployments", deployment("web", replicas=2))
    client(world, "golden-svc")
    world.ready("golden-svc", "app=web", 2)


def _pods(world: World, _: Translator) -> None:
    space = "golden-pods"
    namespace(world, space)
    body = deployment("web", replicas=2, command=SLOW_SERVER, grace=8)
    world.make(f"{APPS}/{space}/deployments", body)
    world.make(f"{CORE}/{space}/services", service("web", "web"))
    client(world, space)


def _errors(world: World, _: Translator) -> None:
    space = "golden-err"
    namespace(world, space)
    for name in ("d-orphan", "d-background", "d-foreground", "d-default"):
        world.make(f"{APPS}/{space}/deployments", deployment(name))
    for name in ("d-orphan", "d-background", "d-foreground", "d-default"):
        world.ready(space, f"app={name}")


def _selected(world: World, _: Translator) -> None:
    space = f"{CORE}/golden-err/pods"
    waits = ["sh", "-c", 'trap "exit 0" TERM; sleep 3600 & wait']
    world.make(space, pod("sel-0", ["sh", "-c", "exit 0"], {"app": "x", "tier": "a"}, "Never"))
    world.make(space, pod("sel-1", waits, {"app": "x", "tier": "b"}, "Never"))
    world.make(space, pod("sel-2", waits, {"app": "y"}, "Never"))
    for name, phase in (("sel-0", "Succeeded"), ("sel-1", "Running"), ("sel-2", "Running")):
        world.until(
            lambda name=name, phase=phase: world.get(f"{space}/{name}")["status"]["phase"] == phase,
            f"{name} is {phase}",
        )


def _paged(world: World, _: Translator) -> None:
    for number in range(5):
        _page(world, number)


def _page(world: World, number: int) -> None:
    metadata = {"name": f"page-{number}", "labels": {"pg": "1"}}
    world.make(f"{CORE}/golden-err/configmaps", {"metadata": metadata, "data": {"k": "v"}})


def _late_page(world: World, _: Translator) -> None:
    _page(world, 9)


def _written(world: World, _: Translator) -> None:
    """The writes that made the recorded cluster's history long."""
    path = f"{CORE}/golden-err/configmaps/a"
    for number in range(_RECORDED_WRITES):
        data = json.dumps({"data": {"i": str(number)}}).encode()
        world.send("PATCH", path, data, {"Content-Type": "application/merge-patch+json"})


def _run_server(world: World, _: Translator) -> None:
    world.run(
        "golden-pods",
        "slow",
        "mkdir -p /www; httpd -f -p 8080 -h /www >/dev/null 2>&1 </dev/null & echo $! > /server",
    )


def _stop_server(world: World, _: Translator) -> None:
    world.run("golden-pods", "slow", "kill $(cat /server)")


def _kubectl(world: World, _: Translator) -> None:
    namespace(world, "golden-kubectl")


def _connections(world: World, translator: Translator) -> None:
    space = "golden-conn"
    namespace(world, space)
    world.make(f"{APPS}/{space}/deployments", deployment("web"))
    for body in (
        service("ok", "web"),
        service("zero", "none"),
        service("closed", "web", 65535),
        service("gone", "web"),
    ):
        world.make(f"{CORE}/{space}/services", body)
    client(world, space)
    world.ready(space, "app=web")
    gone = world.get(f"{CORE}/{space}/services/gone")
    # The recording has no answer in which this address would be found.
    recorded = json.loads(
        (CORPUS / "07-connect-timing" / "009-node-gone.json").read_text(encoding="utf-8")
    )
    address = recorded["target"].partition(":")[0]
    translator.learn({"clusterIP": address}, {"clusterIP": gone["spec"]["clusterIP"]})
    world.send("DELETE", f"{CORE}/{space}/services/gone")


def _faults(world: World, _: Translator) -> None:
    space = "golden-faults"
    namespace(world, space)
    (path,) = (CORPUS / "08-faults").glob("002-*.state.json")
    objects = json.loads(path.read_text(encoding="utf-8"))["objects"]
    bodies = [answer["body"] for answer in objects.values()]
    for item in (item for body in bodies for item in body.get("items", [])):
        world.make(f"{CORE}/{space}/persistentvolumeclaims", manifest(item))
    for body in bodies:
        if body["kind"] == "Pod" and body["metadata"]["name"] != "bad-image":
            world.make(f"{CORE}/{space}/pods", manifest(body))
    world.make(f"{CORE}/{space}/pods", pod("client", SLEEPER, {"role": "client"}))


def _without_faults(world: World, _: Translator) -> None:
    """The pods in trouble are gone before the quota comes."""
    path = f"{CORE}/golden-faults/pods"
    for item in world.get(path)["items"]:
        if item["metadata"]["name"] != "client":
            world.send("DELETE", f"{path}/{item['metadata']['name']}?gracePeriodSeconds=0")


def _without_quota(world: World, _: Translator) -> None:
    space = "golden-faults"
    world.send("DELETE", f"{CORE}/{space}/resourcequotas/q")
    world.send("DELETE", f"{APPS}/{space}/deployments/quota")
    world.ready(space, "app=quota", 0)
    world.until(
        lambda: not world.get(f"{CORE}/{space}/pods?labelSelector=app=quota")["items"],
        "the pods of quota are gone",
    )


def _mended(world: World, _: Translator) -> None:
    """The readiness probe is put right again."""
    probe = {"tcpSocket": {"port": 8080}}
    body = {
        "spec": {"template": {"spec": {"containers": [{"name": "web", "readinessProbe": probe}]}}}
    }
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    path = f"{APPS}/golden-faults/deployments/web"
    world.send("PATCH", path, json.dumps(body).encode(), headers)
    world.until(
        lambda: (
            world.get(path)["status"].get("observedGeneration") == 3
            and world.get(path)["status"]["replicas"] == 2
        ),
        "the rollout is undone",
    )


def _web_settled(world: World) -> list[Json]:
    """The pods of web, when its rollout is through."""

    def through() -> bool:
        found = world.get(f"{APPS}/golden-faults/deployments/web")
        status = found["status"]
        return bool(
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("updatedReplicas") == status.get("availableReplicas") == 2
            and not status.get("terminatingReplicas")
        )

    world.until(through, "web is rolled out")
    pods: list[Json] = world.get(f"{CORE}/golden-faults/pods?labelSelector=app=web")["items"]
    return sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])


def _web_address(world: World, translator: Translator) -> None:
    address = _web_settled(world)[0]["status"]["podIP"]
    translator.pair("10.42.0.94", address, "<ip of pod web-<hash>-<x>>")


def _first_evicted(world: World, translator: Translator) -> None:
    translator.pair("web-66cd64c74-jcnnk", _web_settled(world)[0]["metadata"]["name"])


def _next_evicted(world: World, translator: Translator) -> None:
    path = f"{CORE}/golden-faults/pods?labelSelector=app=web"
    pods = [pod for pod in world.get(path)["items"] if "deletionTimestamp" not in pod["metadata"]]
    newest = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
    translator.pair("web-66cd64c74-27fnw", newest["metadata"]["name"])
    name = newest["metadata"]["name"]
    world.until(
        lambda: any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in world.get(f"{CORE}/golden-faults/pods/{name}")["status"]["conditions"]
        ),
        f"{name} is ready",
    )


def _without_stray(world: World, translator: Translator) -> None:
    """The pod that left its ReplicaSet is taken away."""
    name = translator.text("web-57c94fb97f-929qh")
    world.send("DELETE", f"{CORE}/golden-pods/pods/{name}?gracePeriodSeconds=0")


def _with_web(world: World, _: Translator) -> None:
    space = "golden-faults"
    for name in ("lr",):
        world.send("DELETE", f"{CORE}/{space}/pods/{name}")
    world.send("DELETE", f"{CORE}/{space}/limitranges/l")
    world.make(f"{APPS}/{space}/deployments", deployment("web", replicas=2))
    world.ready(space, "app=web", 2)
    world.make(f"{CORE}/{space}/services", service("web", "web"))
    world.quiet(0.5, 5)


def _headless_db(world: World, _: Translator) -> None:
    body = service("db", "db")
    body["spec"]["clusterIP"] = "None"
    world.make(f"{CORE}/golden-faults/services", body)


def _cordoned(world: World, _: Translator) -> None:
    world.make(f"{CORE}/golden-faults/pods", pod("cordoned", SLEEPER, {}))


def _tainted(world: World, _: Translator) -> None:
    world.make(f"{CORE}/golden-faults/pods", pod("tainted", SLEEPER, {}))


def _expired(world: World, _: Translator) -> None:
    namespace(world, "golden-expired")
    for number in range(3):
        world.make(f"{CORE}/golden-expired/configmaps", {"metadata": {"name": f"c{number}"}})
    # More events than any server of ours remembers: what a compaction is to the recorded one.
    path = f"{CORE}/golden-expired/configmaps/kube-root-ca.crt"
    headers = {"Content-Type": "application/merge-patch+json"}
    for number in range(world.get("/sremut/v1/status").get("history", 20_000) + 10):
        data = json.dumps({"metadata": {"annotations": {"turn": str(number)}}}).encode()
        world.send("PATCH", path, data, headers)
    data = json.dumps({"metadata": {"annotations": {"turn": None}}}).encode()
    world.send("PATCH", path, data, headers)


NAMESPACES = {
    "02-deployment": "golden-deploy",
    "03-service": "golden-svc",
    "04-pods": "golden-pods",
    "05-errors": "golden-err",
    "06-kubectl": "golden-kubectl",
    "07-connect-timing": "golden-conn",
    "08-faults": "golden-faults",
    "09-expired": "golden-expired",
}

# Before which step of which scenario something is done that the recording does not contain.
ACTIONS: dict[str, dict[int, Action]] = {
    "02-deployment": {1: _deployments},
    "03-service": {1: _services},
    "04-pods": {1: _pods, 29: _run_server, 38: _without_stray, 31: _stop_server},
    "05-errors": {1: _errors, 86: _selected, 111: _paged, 112: _late_page, 133: _written},
    "06-kubectl": {1: _kubectl},
    "07-connect-timing": {1: _connections},
    "08-faults": {
        1: _faults,
        5: _without_faults,
        10: _without_quota,
        14: _with_web,
        16: _mended,
        19: _web_address,
        22: _headless_db,
        31: _first_evicted,
        33: _next_evicted,
        36: _cordoned,
        39: _tainted,
    },
    "09-expired": {1: _expired},
}
