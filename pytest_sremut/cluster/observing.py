"""What can be told of a cluster that is not ours: its network and its proxy.

For the record only. What may not be read, or is not there in a form we know, is "not observable",
which is a fact like another and never a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_sremut.cluster.port import Absent, Failed, KubeApi, Listing, ObjectRef

__all__ = ["NOT_OBSERVABLE", "cluster_facts"]

NOT_OBSERVABLE: Final = "not observable"

# DaemonSets by which the usual network plugins run, and annotations that they leave on nodes.
_PLUGINS: Final = {
    "antrea-agent": "antrea",
    "aws-node": "aws-vpc-cni",
    "azure-cns": "azure-cni",
    "calico-node": "calico",
    "canal": "canal",
    "cilium": "cilium",
    "kindnet": "kindnet",
    "kube-flannel": "flannel",
    "kube-flannel-ds": "flannel",
    "kube-router": "kube-router",
    "weave-net": "weave-net",
}
_MARKS: Final = {
    "flannel.alpha.coreos.com/": "flannel",
    "io.cilium.network": "cilium",
    "k8s.ovn.org/": "ovn-kubernetes",
    "network.cilium.io/": "cilium",
    "projectcalico.org/": "calico",
}


def cluster_facts(api: KubeApi) -> dict[str, Any]:
    """Version, number of nodes, network plugin and proxy mode; JSON-ready, without an address."""
    version, nodes = api.version(), api.list("Node", "")
    daemons = api.list("DaemonSet", "kube-system")
    return {
        "server_version": (
            NOT_OBSERVABLE if isinstance(version, Failed) else str(version.get("gitVersion"))
        ),
        "nodes": NOT_OBSERVABLE if isinstance(nodes, Failed) else len(nodes.items),
        "cni": _cni(nodes, daemons),
        "proxy_mode": _proxy_mode(api),
    }


def _cni(nodes: Listing | Failed, daemons: Listing | Failed) -> str:
    found: set[str] = set()
    if isinstance(daemons, Listing):
        names = [str(item["metadata"]["name"]) for item in daemons.items]
        found |= {_PLUGINS[name] for name in names if name in _PLUGINS}
    if isinstance(nodes, Listing):
        found |= set(_marked(nodes.items))
    return ", ".join(sorted(found)) or NOT_OBSERVABLE


def _marked(nodes: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for node in nodes:
        for annotation in node["metadata"].get("annotations") or {}:
            for mark, plugin in _MARKS.items():
                if annotation.startswith(mark):
                    yield plugin


def _proxy_mode(api: KubeApi) -> str:
    """As kube-proxy's ConfigMap has it, where it is readable and there."""
    found = api.get(ObjectRef(kind="ConfigMap", namespace="kube-system", name="kube-proxy"))
    if isinstance(found, Absent):
        return "no kube-proxy"
    if isinstance(found, Failed):
        return NOT_OBSERVABLE
    import yaml

    try:
        document = yaml.safe_load(str((found.body.get("data") or {})["config.conf"]))
        mode = document["mode"]
    except (LookupError, TypeError, ValueError, RecursionError, yaml.YAMLError):
        return NOT_OBSERVABLE
    if not isinstance(mode, str):
        return NOT_OBSERVABLE
    return mode or "iptables (the default)"
