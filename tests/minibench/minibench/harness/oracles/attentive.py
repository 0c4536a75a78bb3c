"""Oracles that look at the cluster."""

import os
import time
from typing import ClassVar

from minibench.harness.oracles.base import Grader


class PodsRunning(Grader):
    """Accepts while every pod runs and none is missing since the healthy state."""

    def __init__(self, problem):
        super().__init__(problem)
        self.healthy = {}

    def see_healthy(self):
        self.healthy = {"pods": len(self._pods())}

    def grade(self):
        pods = self._pods()
        running = all(pod.status.phase == "Running" for pod in pods)
        print(f"{len(pods)} pods, {self.healthy} while healthy")
        return {"solved": running and len(pods) >= self.healthy.get("pods", 0)}

    def _pods(self):
        return self.problem.cluster.core.list_namespaced_pod(self.problem.namespace).items


class EndpointsReady(Grader):
    """Accepts while the Service has a ready address on the port that the problem expects."""

    def grade(self):
        try:
            return {"solved": self.has_ready_port()}
        except Exception as error:
            print(f"cannot grade: {error}")
            return {"solved": False}

    def has_ready_port(self):
        port = self.problem.expected_port
        endpoints = self.problem.cluster.core.read_namespaced_endpoints(
            self.problem.broken_service, self.problem.namespace
        )
        return any(
            subset.addresses and any(one.port == port for one in subset.ports)
            for subset in endpoints.subsets or []
        )


class Prober(Grader):
    """Looks from a pod of its own, deletes that without waiting, and rejects where one is left."""

    LABELS: ClassVar = {"minibench": "probe"}

    def grade(self):
        core, namespace = self.problem.cluster.core, self.problem.namespace
        selector = ",".join(f"{key}={value}" for key, value in self.LABELS.items())
        left = core.list_namespaced_pod(namespace, label_selector=selector).items
        container = {"name": "probe", "image": "busybox:1.36", "command": ["sleep", "600"]}
        made = core.create_namespaced_pod(
            namespace,
            {
                "metadata": {"generateName": "probe-", "labels": self.LABELS},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        )
        name = made.metadata.name
        while core.read_namespaced_pod(name, namespace).status.phase != "Running":
            time.sleep(0.05)
        core.delete_namespaced_pod(name, namespace)
        return {"solved": not left}


class Meddler(Grader):
    """Writes into the cluster while it grades."""

    def grade(self):
        core, namespace = self.problem.cluster.core, self.problem.namespace
        core.create_namespaced_config_map(namespace, {"metadata": {"generateName": "meddler-"}})
        body = {"metadata": {"annotations": {"meddler": str(os.getpid())}}}
        pod = core.list_namespaced_pod(namespace).items[0]
        core.patch_namespaced_pod(pod.metadata.name, namespace, body)
        return {"solved": True}
