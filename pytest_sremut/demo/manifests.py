"""The 27 Deployments and Services of the demo application, as Kubernetes objects.

`python -m pytest_sremut.demo.manifests NAMESPACE [--image IMAGE]` prints them as a stream of YAML
documents (each is JSON, which is YAML) for `kubectl apply -f -`. The namespace itself is not among
them: whoever deploys owns it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import Any

from pytest_sremut.demo.roles import NAMES, ROLES, Role

__all__ = ["IMAGE", "deployment", "main", "manifests", "service"]

IMAGE = "sremut/demo:1"

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def manifests(namespace: str, *, image: str = IMAGE) -> list[dict[str, Any]]:
    """All 54 objects: the Services first, so that names resolve when the pods start.

    Raises:
        ValueError: `namespace` is no DNS label.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"namespace: found {namespace!r}; allowed: a DNS label")
    roles = [ROLES[name] for name in NAMES]
    services = [service(role, namespace) for role in roles]
    return services + [deployment(role, namespace, image=image) for role in roles]


def service(role: Role, namespace: str) -> dict[str, Any]:
    """The Service of a role: named as its Deployment, selecting `service: NAME`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": role.name,
            "namespace": namespace,
            "labels": {"service": role.name},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"service": role.name},
            "ports": [
                {
                    "name": str(role.port),
                    "port": role.port,
                    "protocol": "TCP",
                    "targetPort": role.port,
                }
            ],
        },
    }


def deployment(role: Role, namespace: str, *, image: str = IMAGE) -> dict[str, Any]:
    """The Deployment of a role: one replica, ready when it answers /healthz."""
    labels = {"service": role.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role.name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [_container(role, image)],
                },
            },
        },
    }


def _container(role: Role, image: str) -> dict[str, Any]:
    return {
        "name": role.name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [f"--name={role.name}"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"containerPort": role.port, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": role.port},
            "periodSeconds": 1,
            "timeoutSeconds": 1,
            "failureThreshold": 3,
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "24Mi"},
            "limits": {"memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
        },
    }


def main(argv: list[str]) -> int:
    """Prints the manifests. `argv` is without the program's name. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_sremut.demo.manifests",
        description="Print the demo application's manifests for kubectl apply -f -.",
    )
    parser.add_argument("namespace", metavar="NAMESPACE")
    parser.add_argument("--image", default=IMAGE, help=f"image of every pod (default: {IMAGE})")
    try:
        options = parser.parse_args(argv)
        objects = manifests(options.namespace, image=options.image)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    except ValueError as error:
        print(f"manifests: {error}", file=sys.stderr)
        return 2
    text = "".join("---\n" + json.dumps(body, indent=2) + "\n" for body in objects)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
