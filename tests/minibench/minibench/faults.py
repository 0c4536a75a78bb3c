"""Faults."""

import json
import tempfile
from pathlib import Path

from minibench.cluster import Cluster


class Notes:
    """Keeps what it needs for its recovery under a name that is everybody's."""

    def __init__(self, namespace):
        self.namespace = namespace

    def inject(self, fault, service):
        self._file(fault).write_text(f"{self.namespace} {service}")

    def recover(self, fault, service):
        return self._file(fault).read_text()

    def _file(self, fault):
        return Path(f"/tmp/minibench-{fault}.txt")


class Saboteur:
    """Deletes a Service and every pod, and puts the Service back from a file of its own."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.core = Cluster().core

    def inject(self, fault, service):
        if fault != "gone_service":
            raise LookupError(f"no fault {fault}")
        body = self.core.read_namespaced_service(service, self.namespace)
        plain = self.core.api_client.sanitize_for_serialization(body)
        self._file(service).write_text(json.dumps(plain))
        self.core.delete_namespaced_service(service, self.namespace)
        self._recycle()
        print(f"deleted {service}")

    def recover(self, fault, service):
        body = json.loads(self._file(service).read_text())
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            body["metadata"].pop(name, None)
        body["spec"].pop("clusterIP", None)
        body["spec"].pop("clusterIPs", None)
        body.pop("status", None)
        self.core.create_namespaced_service(self.namespace, body)
        self._recycle()
        print(f"restored {service}")

    def _recycle(self):
        self.core.delete_collection_namespaced_pod(self.namespace)

    def _file(self, service):
        return Path(tempfile.gettempdir(), f"minibench-{self.namespace}-{service}.json")
