"""Injectors, reached by name."""

import copy
import importlib
import json
import os

import unruled_library
import yaml

from bench.kube import Kube


class Faults:
    def __init__(self, namespace):
        self.namespace = namespace
        self.kube = Kube()

    def inject(self, fault, *services):
        method = getattr(self, f"inject_{fault}")
        method(*services)

    def _deployment(self, name):
        text = self.kube.sh(f"kubectl get deployment {name} -n {self.namespace} -o yaml")
        return yaml.safe_load(text)

    def _save(self, name, data):
        path = f"/tmp/{name}_changed.yaml"
        with open(path, "w") as file:
            yaml.dump(data, file)
        return path

    def _replace(self, name, data):
        path = self._save(name, data)
        self.kube.sh(f"kubectl delete deployment {name} -n {self.namespace}")
        self.kube.sh(f"kubectl apply -f {path} -n {self.namespace}")

    def inject_service_gone(self, *services):
        for service in services:
            self.kube.sh(f"kubectl delete service {service} -n {self.namespace}")
        self.kube.sh(f"kubectl delete pods --all -n {self.namespace}")
        self.kube.wait_for_stable(self.namespace)

    def inject_image(self, *services):
        for service in services:
            data = self._deployment(service)
            for container in data["spec"]["template"]["spec"]["containers"]:
                container["image"] = "nowhere/none:wrong"
            self._replace(service, data)

    def inject_selector(self, *services):
        for service in services:
            patch = json.dumps({"spec": {"selector": {"app": "nobody"}}})
            self.kube.sh(f"kubectl patch service {service} -n {self.namespace} -p '{patch}'")

    def inject_volume(self, *services):
        for service in services:
            data = copy.deepcopy(self._deployment(service))
            for volume in data["spec"]["template"]["spec"].get("volumes", []):
                volume["persistentVolumeClaim"]["claimName"] = "absent"
            self._replace(service, data)
        self.kube.wait_for_stable(self.namespace)

    def inject_node_selector(self, *services):
        for service in services:
            data = self._deployment(service)
            data["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}
            self._replace(service, data)

    def inject_values(self, *services):
        values = ",".join(f"{service}.tls=on" for service in services)
        self.kube.sh(f"helm upgrade shop ./chart -n {self.namespace} --set {values}")

    def inject_script(self, *services):
        for service in services:
            self.kube.sh(
                f"kubectl exec -i deploy/{service} -n {self.namespace} -- bash -x /fault.sh"
            )

    def inject_flag(self, flag):
        command = f"kubectl get configmap flags -n {self.namespace} -o json"
        data = json.loads(self.kube.sh(command))
        flags = json.loads(data["data"]["flags.json"])
        flags["flags"][flag]["defaultVariant"] = "on"
        body = {"data": {"flags.json": json.dumps(flags)}}
        self.kube.core.replace_namespaced_config_map("flags", self.namespace, body)

    def inject_policy(self):
        self.kube.sh("kubectl apply -f manifests/deny.yaml")

    def inject_unknown_manifest(self):
        self.kube.sh("kubectl apply -f /nowhere/at-all.yaml")

    def inject_chosen(self, *services):
        method = getattr(self, "inject_" + os.environ["FAULT"])
        method(*services)

    def inject_foreign(self):
        unruled_library.break_everything(self.namespace)

    def inject_module(self, name):
        importlib.import_module(f"bench.{name}").inject()

    def inject_scale(self, *services):
        for service in services:
            body = {"spec": {"replicas": 0}}
            self.kube.apps.patch_namespaced_deployment_scale(service, self.namespace, body)

    def inject_configuration(self, *services):
        self.kube.sh(f"kubectl delete configmap settings -n {self.namespace}")
        for service in services:
            self.kube.sh(f"kubectl rollout restart deployment/{service} -n {self.namespace}")

    def inject_nothing(self):
        print("nothing")
