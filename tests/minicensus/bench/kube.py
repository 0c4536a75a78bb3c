"""The miniature benchmark's wrapper around kubectl and the client."""

import subprocess
import time

from kubernetes import client


class Kube:
    def __init__(self):
        self.core = client.CoreV1Api()
        self.apps = client.AppsV1Api()

    def sh(self, command, input_data=None):
        try:
            done = subprocess.run(
                command, shell=True, check=True, capture_output=True, input=input_data
            )
            return done.stdout.decode()
        except subprocess.CalledProcessError as error:
            return error.stderr.decode()

    def pods(self, namespace):
        return self.core.list_namespaced_pod(namespace)

    def deployments(self, namespace):
        return self.apps.list_namespaced_deployment(namespace)

    def wait_for_stable(self, namespace, tries=30):
        for _ in range(tries):
            if all(pod.status.phase == "Running" for pod in self.pods(namespace).items):
                return
            time.sleep(2)
        raise TimeoutError(namespace)
