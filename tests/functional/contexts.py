"""An embedded cluster as somebody else's: a namespace in it, and an account that may do the least.

The session under test only gets a kubeconfig with that account's token. What it asked the API for
is told by the cluster itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pytest_sremut import embedded
from pytest_sremut.cluster.embedded import images
from pytest_sremut.cluster.rbac import ACCOUNT, manifest
from pytest_sremut.cluster.transport import Answer, Transport

__all__ = ["CONTEXT", "NAMESPACE", "OPTIONS", "Theirs", "theirs"]

NAMESPACE = "social-network"
CONTEXT = "theirs"
OPTIONS = (
    f"--sremut-cluster=context:{CONTEXT}",
    f"--sremut-allow-context={CONTEXT}",
    f"--sremut-use-namespace={NAMESPACE}",
)
_PLURALS = {"ServiceAccount": "/api/v1", "Role": "", "RoleBinding": "", "ClusterRole": "",
            "ClusterRoleBinding": "", "Namespace": "/api/v1", "ConfigMap": "/api/v1"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """The cluster, and the kubeconfig of the account that may do the least."""

    cluster: embedded.EmbeddedCluster
    kubeconfig: Path
    admin: Transport

    @property
    def environment(self) -> dict[str, str]:
        """What a session needs to find the context."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def put(self, document: Mapping[str, Any]) -> None:
        """Overwrite an object, as the admin."""
        name = document["metadata"]["name"]
        self._call("PUT", f"{_collection(document)}/{name}", document)

    def post(self, document: Mapping[str, Any]) -> None:
        """Create an object, as the admin."""
        self._call("POST", _collection(document), document)

    def asked(self) -> set[tuple[str, str, str, str, bool]]:
        """Verb, group, resource, namespace and whether it was allowed, of all that it asked for."""
        user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
        keys = ("verb", "group", "resource", "namespace", "allowed")
        return {
            tuple(one[key] for key in keys) for one in self.cluster.access() if one["user"] == user
        }

    def _call(self, method: str, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.admin.request(method, path, body=document, timeout=30)
        assert isinstance(answer, Answer), answer
        assert answer.status in (200, 201), answer
        found: dict[str, Any] = json.loads(answer.body)
        return found


def _collection(document: Mapping[str, Any]) -> str:
    prefix = _PLURALS[document["kind"]] or "/apis/rbac.authorization.k8s.io/v1"
    where = document["metadata"].get("namespace")
    inside = f"/namespaces/{where}" if where else ""
    return f"{prefix}{inside}/{document['kind'].lower()}s"


@contextlib.contextmanager
def theirs(directory: Path, *, observe: bool = False, configmaps: bool = False) -> Iterator[Theirs]:
    """Bring it up, with the namespace and what the shipped manifest creates and grants."""
    directory.mkdir(exist_ok=True)
    cluster = embedded.up(directory=directory, name="theirs", images=images())
    admin = Transport.load(cluster.kubeconfig, cluster.context)
    made = Theirs(cluster=cluster, kubeconfig=directory / "theirs.yaml", admin=admin)
    try:
        made.post({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        granted = manifest(NAMESPACE, observe=observe, configmaps=configmaps)
        for document in yaml.safe_load_all(granted):
            made.post(document)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}"
        token = made._call("POST", f"{account}/token", {})["status"]["token"]
        whole = json.loads(cluster.kubeconfig.read_text())
        whole |= {
            "users": [{"name": "account", "user": {"token": token}}],
            "contexts": [
                {
                    "name": CONTEXT,
                    "context": {"cluster": whole["clusters"][0]["name"], "user": "account"},
                }
            ],
            "current-context": CONTEXT,
        }
        made.kubeconfig.write_text(json.dumps(whole))
        yield made
    finally:
        admin.close()
        cluster.close()
