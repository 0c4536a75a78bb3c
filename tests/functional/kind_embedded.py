"""An embedded cluster behind the fake kind: what `kind create` and `kind delete` then do.

python kind_embedded.py DIRECTORY create NAME KUBECONFIG NODES
python kind_embedded.py DIRECTORY delete NAME
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.embedded import images
from pytest_sremut.embedded import EmbeddedError, Options, attach, up


def create(directory: Path, name: str, kubeconfig: Path, nodes: int) -> None:
    cluster = up(
        directory=directory / name,
        name=name,
        images=images(),
        options=Options(nodes=nodes),
        detach=True,
    )
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["contexts"][0]["name"] = document["current-context"] = f"kind-{name}"
    kubeconfig.write_text(yaml.safe_dump(document))
    client = load(kubeconfig, f"kind-{name}")
    client.create(dns(), namespace="kube-system")
    client.close()


def dns() -> dict[str, object]:
    """What stands for cluster DNS; the embedded cluster's own needs no pods."""
    labels = {"k8s-app": "kube-dns"}
    pause = {"name": "coredns", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [pause]}},
        },
    }


def main(directory: Path, what: str, name: str, *more: str) -> None:
    if what == "create":
        create(directory, name, Path(more[0]), int(more[1]))
        return
    try:
        attach(directory / name).close()
    except EmbeddedError:
        return  # deleting what is not there is no error


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
