"""The official Python client, whatever version is on the path: objects, watch, log, command."""

import json
import sys

import kubernetes
from kubernetes import client, config, watch
from kubernetes.stream import stream

SPACE = sys.argv[1]
POD = {
    "metadata": {"name": "p", "labels": {"app": "p"}},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["sh", "-c", "echo hello; trap 'exit 0' TERM; sleep 3600 & wait"],
            }
        ],
    },
}

config.load_kube_config()
core = client.CoreV1Api()
core.create_namespace({"metadata": {"name": SPACE}})
core.create_namespaced_pod(SPACE, POD)
phases = []
for event in watch.Watch().stream(core.list_namespaced_pod, SPACE, timeout_seconds=30):
    conditions = {c.type: c.status for c in event["object"].status.conditions or []}
    phases.append(event["object"].status.phase)
    if conditions.get("Ready") == "True":
        break
core.patch_namespaced_pod("p", SPACE, {"metadata": {"labels": {"x": "y"}}})
labels = core.read_namespaced_pod("p", SPACE).metadata.labels
try:
    core.read_namespaced_pod("nope", SPACE)
    missing = None
except client.ApiException as error:
    missing = [error.status, json.loads(error.body)["reason"]]
said = stream(
    core.connect_get_namespaced_pod_exec,
    "p",
    SPACE,
    command=["echo", "out"],
    stdout=True,
    stderr=True,
)
log = core.read_namespaced_pod_log("p", SPACE)
deployments = client.AppsV1Api().list_namespaced_deployment(SPACE).items
core.delete_namespace(SPACE)
print(
    json.dumps(
        {
            "version": kubernetes.__version__,
            "ready": phases[-1] == "Running",
            "labels": labels,
            "missing": missing,
            "exec": said,
            "log": log,
            "deployments": len(deployments),
        }
    )
)
