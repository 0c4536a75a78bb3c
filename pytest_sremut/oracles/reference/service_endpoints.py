"""Does the Service lead to the workload? From the Deployment's rollout to a real connection.

Deployment rollout -> active ReplicaSet -> expected pods -> core/v1 Endpoints of the Service ->
no unexpected addresses -> a connection from a probe pod. What it cannot see: extra EndpointSlices
(it reads core/v1 Endpoints), the body of an answer (it connects), how many of the expected pods
are behind the Service (one is enough), and whether the repair outlives a pod.

Everything that stops it from looking raises, a missing `expected_service_port` included.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from pytest_sremut.cluster.port import Kind, ObjectRef
from pytest_sremut.cluster.waiting import Objects, deployment_lacks, wait_for
from pytest_sremut.errors import ClusterError, ClusterUnavailableError
from pytest_sremut.oracles.context import GraderContext, existing, listed

__all__ = ["PROBE_IMAGE", "PROBE_LABELS", "ServiceEndpoints"]

PROBE_IMAGE: Final = "busybox:1.36"
PROBE_LABELS: Final = {"app": "service-connectivity-check"}

_REVISION: Final = "deployment.kubernetes.io/revision"
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CONNECT_TIMEOUT: Final = 5
_SUCCESS: Final = "SERVICE_OK"
_READS: Final = 2


class ServiceEndpoints:
    """Accepts when the Service's endpoints are the workload's pods and one connects."""

    def __init__(self, context: GraderContext) -> None:
        self._context = context

    def evaluate(self) -> dict[str, Any]:
        """`success` and, where it is False, the `reason`."""
        # Read first, like the kind of grader this stands for: without it nothing can be judged.
        port = self._context.problem["expected_service_port"]
        if type(port) is not int or not 0 < port < 65536:
            raise ValueError(f"expected_service_port is {port!r}, not a port number")
        reason = self._structure() or self._connection(port)
        return {"success": False, "reason": reason} if reason else {"success": True}

    def _structure(self) -> str:
        target = self._context.target
        deployment = self._get("Deployment", target.workload_name)
        if deployment is None:
            return f"Deployment {target.workload_name} does not exist"
        if lacks := deployment_lacks(deployment):
            return lacks
        if deployment["spec"].get("replicas", 1) == 0:
            return f"Deployment {target.workload_name} desires no pod"
        active = self._active_replica_set(deployment)
        if active is None:
            return f"Deployment {target.workload_name} has no ReplicaSet of its present revision"
        expected = self._ready_pods(active)
        if not expected:
            return f"ReplicaSet {active['metadata']['name']} has no ready pod"
        endpoints = self._get("Endpoints", target.name)
        if endpoints is None:
            return f"Service {target.name} has no Endpoints"
        return _compare(endpoints, expected)

    def _get(self, kind: Kind, name: str) -> Mapping[str, Any] | None:
        ref = ObjectRef(kind=kind, namespace=self._context.namespace, name=name)
        return existing(self._context.api.get(ref))

    def _active_replica_set(self, deployment: Mapping[str, Any]) -> Mapping[str, Any] | None:
        revision = (deployment["metadata"].get("annotations") or {}).get(_REVISION)
        for item in listed(self._context.api.list("ReplicaSet", self._context.namespace)):
            annotations = item["metadata"].get("annotations") or {}
            if _owned(item, deployment) and annotations.get(_REVISION) == revision:
                return item
        return None

    def _ready_pods(self, replica_set: Mapping[str, Any]) -> dict[str, str]:
        """UID -> name of the ReplicaSet's ready pods that are not being deleted."""
        return {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in listed(self._context.api.list("Pod", self._context.namespace))
            if _owned(pod, replica_set) and _ready(pod)
        }

    def _connection(self, port: int) -> str:
        """Connect from a pod of our own, by name, as a client would."""
        api, namespace = self._context.api, self._context.namespace
        name = f"service-connectivity-check-{secrets.token_hex(4)}"
        host = f"{self._context.target.name}.{namespace}.svc.cluster.local"
        self._context.guarded()
        created = api.create(_probe_pod(name, host, port), namespace=namespace)
        uid = created.body["metadata"]["uid"]
        try:
            ended = wait_for(
                api,
                "Pod",
                namespace,
                lambda pods: _not_ended(pods, name, uid),
                timeout=self._context.timeout,
                labels=",".join(f"{key}={value}" for key, value in PROBE_LABELS.items()),
            )
            pod = next((p for p in ended.items if p["metadata"].get("uid") == uid), None)
            if pod is None:
                raise ClusterError(f"probe pod {name} was deleted by somebody else")
            connected = pod["status"]["phase"] == "Succeeded"
            log = self._log(name, complete=connected)
        finally:
            self._context.guarded()
            api.delete(
                ObjectRef(kind="Pod", namespace=namespace, name=name), uid=uid, grace_period=0
            )
        if connected:
            return ""
        said = " ".join(log.decode("utf-8", "replace").split())[:200]
        return f"no connection to {host}:{port} ({said or 'no output'})"

    def _log(self, name: str, *, complete: bool) -> bytes:
        """What the probe printed.

        One that ended well has printed its word: a log without it was cut off, or is none, which
        says nothing of the Service. It is read once more before that raises.
        """
        api, namespace = self._context.api, self._context.namespace
        log = b""
        for _ in range(_READS):
            log = b"".join(api.logs(namespace, name, timeout=self._context.timeout))
            if not complete or _SUCCESS.encode() in log:
                return log
        raise ClusterUnavailableError(
            f"logs of Pod {namespace}/{name}: found {log[:200]!r}; the pod ended well and had "
            f"printed {_SUCCESS}",
            status=0,
            reason="Incomplete",
        )


def _compare(endpoints: Mapping[str, Any], expected: Mapping[str, str]) -> str:
    name = endpoints["metadata"]["name"]
    backed = {
        ref["uid"]: ref.get("name", "?")
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        if (ref := address.get("targetRef") or {}).get("kind") == "Pod" and "uid" in ref
    }
    if unexpected := sorted(backed[uid] for uid in backed if uid not in expected):
        return f"Endpoints {name} lead to other pods: {', '.join(unexpected)}"
    if not backed:
        return f"Endpoints {name} lead to no ready pod of the workload"
    return ""


def _probe_pod(name: str, host: str, port: int) -> dict[str, Any]:
    for label in host.split("."):  # the study names the host: it must not reach into the shell
        if not _DNS_LABEL.fullmatch(label):
            raise ValueError(f"{label!r} in {host} is no DNS label")
    command = f"nc -z -w {_CONNECT_TIMEOUT} '{host}' {port} && echo {_SUCCESS}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(PROBE_LABELS)},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "probe", "image": PROBE_IMAGE, "command": ["sh", "-c", command]}
            ],
        },
    }


def _not_ended(pods: Objects, name: str, uid: str) -> str:
    """One that is gone has ended too: it will not come back."""
    for pod in pods:
        if pod["metadata"].get("uid") == uid:
            phase = (pod.get("status") or {}).get("phase")
            return "" if phase in ("Succeeded", "Failed") else f"probe pod {name} is {phase}"
    return ""


def _owned(item: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    uid = owner["metadata"]["uid"]
    return any(
        reference.get("uid") == uid and reference.get("controller") is True
        for reference in item["metadata"].get("ownerReferences") or ()
    )


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in conditions
    )
