"""States recorded on a real Kubernetes, made again on another cluster by the same API writes.

Each state gets a namespace of its own. What the recorded cluster handed out (addresses and pods)
is translated to what ours handed out in the same role.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubernetes import config

from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.port import Cluster, KubeApi, Listing, ObjectRef, Present
from pytest_sremut.cluster.transport import Transport
from pytest_sremut.cluster.waiting import deployments_ready, wait_for
from pytest_sremut.engine.observe.fingerprint import fingerprint
from pytest_sremut.errors import ClusterUnavailableError

RECORDED = "social-network"
TARGET = "user-service"
_POD = re.compile(
    r"^(user-service|media-service|nginx-thrift|compose-post-service)-[0-9a-f]+-\w{5}$"
)
_ADDRESS = re.compile(r"^10\.42\.\d+\.\d+$")
_PATIENCE = 60.0


class RecordedState:
    """One recorded state on one cluster."""

    def __init__(self, cluster: Cluster, folder: Path, name: str) -> None:
        self.record: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text())
        self.namespace = f"state-{name}"
        self._application = json.loads((folder / "APPLICATION.json").read_text())
        self._api: KubeApi = load(cluster.kubeconfig, cluster.context)
        self._transport = Transport.load(cluster.kubeconfig, cluster.context)
        self._client = config.new_client_from_config(str(cluster.kubeconfig), cluster.context)
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._free: dict[str, Iterator[Mapping[str, Any]]] = {}

    def deploy(self) -> None:
        """The healthy application, complete."""
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        replicas = {}
        for name, body in self._application["deployments"].items():
            replicas[name] = body["spec"]["replicas"]
            self._send("POST", f"/apis/apps/v1/namespaces/{RECORDED}/deployments", body)
        for body in self._application["services"].values():
            self._send("POST", f"/api/v1/namespaces/{RECORDED}/services", body)
        ready = deployments_ready(replicas)
        wait_for(self._api, "Deployment", self.namespace, ready, timeout=_PATIENCE)

    def make(self) -> None:
        """The recorded writes, each answered as recorded; then until nothing changes any more."""
        for write in self.record["writes"]:
            status = self._send(
                write["method"],
                write["path"],
                write.get("body"),
                content_type=write.get("content_type") or "application/json",
            )
            assert status == write["status"], (write["method"], write["path"], status)
        self.settle()

    def settle(self) -> None:
        """Wait as the recorder did: Deployments complete where they were, then no more change."""
        settled = self.record["settle"]
        if settled["deployments_complete"]:
            wait_for(self._api, "Deployment", self.namespace, _complete, timeout=_PATIENCE)
        if settled.get("terminating_pods") == 0:
            wait_for(self._api, "Pod", self.namespace, _none_terminating, timeout=_PATIENCE)
        seen = ""
        while (now := fingerprint(self._api, self.namespace).digest) != seen:
            seen = now
            self._quiet(0.5)

    def delete_pods(self) -> None:
        """Every pod of the namespace, at once."""
        self._send("DELETE", f"/api/v1/namespaces/{RECORDED}/pods", None)

    def remove(self) -> None:
        """Take the namespace away; nothing waits for it."""
        self._send("DELETE", f"/api/v1/namespaces/{self.namespace}", None)
        self._client.close()
        self._transport.close()

    # -- pieces -------------------------------------------------------------------------------

    def _quiet(self, seconds: float) -> None:
        """Return after so many seconds without an event on a pod."""
        version = self._listing("Pod").resource_version
        watched = self._api.watch("Pod", self.namespace, resource_version=version, timeout=seconds)
        with contextlib.suppress(ClusterUnavailableError):  # no answer in that time: no event
            for _ in watched:
                return

    def _listing(self, kind: Any) -> Listing:
        found = self._api.list(kind, self.namespace)
        assert isinstance(found, Listing), found
        return found

    def _send(
        self, method: str, path: str, body: Any, *, content_type: str = "application/json"
    ) -> int:
        headers = {"Content-Type": content_type, **self._transport.authorization()}
        answer = self._client.rest_client.pool_manager.request(
            method,
            self._client.configuration.host + self._path(path),
            body=None if body is None else json.dumps(self._translated(body)).encode(),
            headers=headers,
            timeout=30.0,
        )
        return int(answer.status)

    def _path(self, path: str) -> str:
        path = path.replace(RECORDED, self.namespace)
        head, _, name = path.rpartition("/")
        return f"{head}/{self._pod(name)['metadata']['name']}" if _POD.match(name) else path

    def _translated(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._translated(item) for item in value]
        if isinstance(value, str):
            return value.replace(RECORDED, self.namespace)
        if not isinstance(value, dict):
            return value
        made = {key: self._translated(item) for key, item in value.items()}
        reference = value.get("targetRef")
        if reference is not None:
            pod = self._pod(reference["name"])
            metadata = pod["metadata"]
            made["targetRef"] |= {"name": metadata["name"], "uid": metadata["uid"]}
            if "ip" in value:
                made["ip"] = pod["status"]["podIP"]
            else:
                made["addresses"] = [pod["status"]["podIP"]]
        elif _ADDRESS.match(str(value.get("ip", ""))):
            made["ip"] = self._pod(f"{TARGET}-0-{value['ip']}")["status"]["podIP"]
        if "clusterIP" in value and value["clusterIP"] != "None":
            made["clusterIP"] = self._baseline_ip
        return made

    def _pod(self, recorded: str) -> Mapping[str, Any]:
        """Our pod in the place of a recorded one: of the same Deployment, each another."""
        if recorded not in self._pods:
            deployment = recorded.rsplit("-", 2)[0]
            if deployment not in self._free:
                self._free[deployment] = iter(
                    [
                        pod
                        for pod in self._listing("Pod").items
                        if pod["metadata"]["name"].rsplit("-", 2)[0] == deployment
                    ]
                )
            self._pods[recorded] = next(self._free[deployment])
        return self._pods[recorded]

    def note_baseline(self) -> None:
        """Remember what the healthy target had."""
        found = self._api.get(ObjectRef(kind="Service", namespace=self.namespace, name=TARGET))
        assert isinstance(found, Present)
        self._baseline_ip: str = found.body["spec"]["clusterIP"]


def _complete(deployments: Any) -> str:
    for item in deployments:
        wanted, status = item["spec"].get("replicas", 1), item.get("status", {})
        if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
            return "not observed"
        counts = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas"))
        if any(count != wanted for count in counts) or status.get("unavailableReplicas", 0):
            return f"{item['metadata']['name']} is not complete"
    return ""


def _none_terminating(pods: Any) -> str:
    left = [p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]]
    return f"terminating: {left}" if left else ""
