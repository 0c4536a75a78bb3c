"""An existing cluster, by the name of a kubeconfig context that was allowed on purpose."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sremut.cluster.client import KubeClient, load
from pytest_sremut.cluster.identity import read_identity, read_uid
from pytest_sremut.cluster.observing import cluster_facts
from pytest_sremut.cluster.port import ClusterFacts, ClusterIdentity, Failed, KubeApi
from pytest_sremut.errors import UsageError

__all__ = ["ContextBackend", "kubeconfig_path"]


def kubeconfig_path(environ: Mapping[str, str]) -> Path:
    """`$KUBECONFIG` or `~/.kube/config`; one file, because a merged view has no identity.

    Raises:
        UsageError: `$KUBECONFIG` lists several files, or there is no such file.
    """
    text = environ.get("KUBECONFIG", "")
    if ":" in text.strip(":"):
        raise UsageError(f"KUBECONFIG lists several files ({text}); allowed: exactly one")
    path = Path(text.strip(":") or "~/.kube/config").expanduser()
    if not path.is_file():
        raise UsageError(f"there is no kubeconfig {path}; set KUBECONFIG to one")
    return path


class ContextBackend:
    """A cluster that we did not make and do not take down. See `Cluster`."""

    def __init__(self, client: KubeClient, *, kubeconfig: Path, context: str) -> None:
        self._client = client
        self._kubeconfig = kubeconfig
        self._context = context
        self._facts: dict[str, Any] | None = None

    @classmethod
    def open(
        cls, *, context: str, allowed: Collection[str], kubeconfig: Path | None = None
    ) -> ContextBackend:
        """Connect to a context of `kubeconfig` (None: the one that `kubeconfig_path` finds).

        Raises:
            UsageError: The context was not allowed by name, or is not in the file.
        """
        if context not in allowed:
            named = ", ".join(sorted(allowed)) or "none"
            raise UsageError(
                f"context {context!r} is not allowed (allowed: {named}): the audit deletes and "
                f"creates objects there; name it with --sremut-allow-context={context}"
            )
        path = kubeconfig_path(os.environ) if kubeconfig is None else kubeconfig
        return cls(load(path, context), kubeconfig=path, context=context)

    @property
    def name(self) -> str:
        """The context's name: this cluster has no other."""
        return self._context

    @property
    def context(self) -> str:
        """The kubeconfig context."""
        return self._context

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file."""
        return self._kubeconfig

    @property
    def api(self) -> KubeApi:
        """The client."""
        return self._client

    def identity(self) -> ClusterIdentity:
        """See `Cluster`."""
        return read_identity(self._client, self._client.server)

    def kube_system_uid(self) -> str:
        """See `Cluster`."""
        return read_uid(self._client)

    def facts(self) -> ClusterFacts:
        """Version, nodes, network and proxy; never the address, which may tell who you are.

        Read once: they are for the record. Which cluster it is, `identity` reads each time.
        """
        if self._facts is None:
            self._facts = cluster_facts(self._client)
        return ClusterFacts(
            kind="context", name=self.name, context=self._context, values=self._facts
        )

    def fit_for_verdicts(self, *, timeout: float) -> Sequence[str]:  # noqa: ARG002 - reads only
        """Every node is there and Ready, where nodes may be read: a Role cannot grant that."""
        nodes = self._client.list("Node", "")
        if isinstance(nodes, Failed) and nodes.status == 403:
            return []
        if isinstance(nodes, Failed):
            return [f"the nodes cannot be read: {nodes.reason}: {nodes.message}"]
        if not nodes.items:
            return ["the cluster has no node"]
        return [
            f"node {node['metadata']['name']} is not Ready"
            for node in nodes.items
            if not _node_ready(node)
        ]

    def close(self) -> None:
        """Close the connections; the cluster stays."""
        self._client.close()


def _node_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
