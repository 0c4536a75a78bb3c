"""Graders that look at pods and deployments."""

import time

from bench.oracles.base import Grader


class PodsAndDeployments(Grader):
    def __init__(self, problem):
        super().__init__(problem)
        self.replicas = {}

    def remember(self):
        found = self.problem.kube.deployments(self.problem.namespace)
        self.replicas = {one.metadata.name: one.spec.replicas for one in found.items}

    def grade(self):
        time.sleep(5)
        kube, namespace = self.problem.kube, self.problem.namespace
        for one in kube.deployments(namespace).items:
            if (one.status.ready_replicas or 0) < (one.spec.replicas or 1):
                return {"success": False}
        return {"success": self._pods_ok(kube.pods(namespace))}

    def _pods_ok(self, pods):
        all_normal = True
        for pod in pods.items:
            for status in pod.status.container_statuses:
                if not status.ready:
                    all_normal = False
        return all_normal


class ForgetfulGrader(PodsAndDeployments):
    """Overrides without `super()`: the parent's surface is lost."""

    def grade(self):
        config = self.problem.kube.core.read_namespaced_config_map("x", self.problem.namespace)
        return {"success": bool(config.data)}


class GuardedGrader(PodsAndDeployments):
    """Adds to the parent's surface."""

    seen = []

    def grade(self):
        self.seen.append(self.problem.service)
        return super().grade()


class PodGlance(Grader):
    """One look at the pods' states."""

    def grade(self):
        pods = self.problem.kube.pods(self.problem.namespace)
        result = {"success": True}
        for pod in pods.items:
            if pod.status.container_statuses[0].state.waiting:
                result["success"] = False
        return result


class ImageGrader(Grader):
    """Not the injected string."""

    def check_rollout(self):
        deployment = self._read()
        return deployment.status.ready_replicas == deployment.spec.replicas

    def _read(self):
        apps = self.problem.kube.apps
        return apps.read_namespaced_deployment(self.problem.service, self.problem.namespace)

    def grade(self):
        image = self._read().spec.template.spec.containers[0].image
        if image == "nowhere/none:wrong":
            return {"success": False}
        return {"success": True}


class Sleeper(Grader):
    """Calls its helper and only prints what it said."""

    def check_rollout(self):
        apps = self.problem.kube.apps
        found = apps.read_namespaced_deployment(self.problem.service, self.problem.namespace)
        return found.status.ready_replicas == found.spec.replicas

    def grade(self):
        verdict = self.check_rollout()
        print(f"rollout: {verdict}")
        apps = self.problem.kube.apps
        body = {"metadata": {"annotations": {"graded": "yes"}}}
        apps.patch_namespaced_deployment(self.problem.service, self.problem.namespace, body)
        return {"success": True}
