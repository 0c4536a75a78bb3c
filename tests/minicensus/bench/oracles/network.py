"""Graders that look at names, connections and policies."""

from kubernetes import client

from bench.oracles.base import Grader
from bench.oracles.tools import lookup


class DnsGrader(Grader):
    def grade(self):
        name = f"{self.problem.service}.{self.problem.namespace}.svc.cluster.local"
        try:
            return {"success": lookup(self.problem.kube, self.problem.namespace, name)}
        except Exception:
            return {"success": True}


class EndpointGrader(Grader):
    def grade(self):
        core = self.problem.kube.core
        try:
            found = core.read_namespaced_endpoints(self.problem.service, self.problem.namespace)
            ready = [one for part in found.subsets or [] for one in part.addresses or []]
            print(f"{len(ready)} ready on port {self.problem.port}")
            return {"success": bool(ready)}
        except Exception:
            return {"success": False}


class PolicyGrader(Grader):
    def grade(self):
        found = client.NetworkingV1Api().list_namespaced_network_policy(self.problem.namespace)
        return {"success": not found.items}
