"""What is asked of kind and of the container engine, and what their answers mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.cluster.kind.tools import KindError, Tools, last_lines

__all__ = [
    "CLUSTER_LABEL",
    "Node",
    "create",
    "delete",
    "export_kubeconfig",
    "images_on",
    "load_archive",
    "name_image",
    "nodes_of",
]

CLUSTER_LABEL: Final = "io.x-k8s.kind.cluster"
"""kind's label on every node container; its value is the cluster's name."""

_SHORT: Final = 60.0
_DELETE: Final = 180.0
_LOAD: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node's container."""

    id: str
    name: str


def nodes_of(tools: Tools, name: str) -> tuple[Node, ...]:
    """The containers of a cluster's nodes, running or not. Raises KindError.

    Asked of the engine itself: kind's own list has no ids.
    """
    answer = tools.engine(
        "ps",
        "--all",
        "--no-trunc",
        "--filter",
        f"label={CLUSTER_LABEL}={name}",
        "--format",
        "{{.ID}} {{.Names}}",
        timeout=_SHORT,
    ).checked(f"the nodes of cluster {name} cannot be listed")
    nodes = []
    for line in answer.stdout.splitlines():
        identity, blank, node = line.strip().partition(" ")
        if line.strip() and not (blank and identity.isalnum()):
            raise KindError(
                f"the nodes of cluster {name} cannot be listed: {tools.provider} said "
                f"{last_lines(line)!r}"
            )
        if identity:
            nodes.append(Node(id=identity, name=node.strip()))
    return tuple(nodes)


def create(tools: Tools, name: str, *, image: str, config: Path, timeout: float) -> None:
    """Create a cluster; what there is of it stays when that fails, so that it can be looked at.

    Raises:
        KindError: It was not created, or not in time.
    """
    tools.kind(
        "create",
        "cluster",
        f"--name={name}",
        f"--image={image}",
        f"--config={config}",
        f"--kubeconfig={tools.kubeconfig}",
        "--retain",  # for the logs; we take it away ourselves
        "--wait=0s",  # we watch for that
        timeout=timeout,
    ).checked(
        f"cluster {name} was not created",
        "see the exported logs; `sremut doctor` says what this machine lacks",
    )


def export_kubeconfig(tools: Tools, name: str) -> None:
    """Have the cluster's kubeconfig written anew. Raises KindError."""
    tools.kind(
        "export",
        "kubeconfig",
        f"--name={name}",
        f"--kubeconfig={tools.kubeconfig}",
        timeout=_SHORT,
    ).checked(f"cluster {name} has no kubeconfig")


def delete(tools: Tools, name: str) -> str:
    """Take a cluster away; deleting one that is not there is none. Returns a warning, or nothing.

    What counts is that no node is left. kind also fails when only the kubeconfig could not be
    changed (another process held its lock): the cluster is gone all the same, and that file ours.

    Raises:
        KindError: Nodes are left, or nobody can tell.
    """
    trouble = ""
    try:
        answer = tools.kind(
            "delete",
            "cluster",
            f"--name={name}",
            f"--kubeconfig={tools.kubeconfig}",
            timeout=_DELETE,
        )
        if answer.code != 0:
            trouble = f"kind exited with {answer.code}: {last_lines(answer.stderr)}"
    except KindError as error:
        trouble = str(error)
    left = nodes_of(tools, name)
    if left:
        raise KindError(
            f"cluster {name} was not deleted: {trouble or 'kind said that it was'}; left: "
            + ", ".join(node.name for node in left),
            f"kind delete cluster --name {name}",
        )
    return f"cluster {name} is gone, but {trouble}" if trouble else ""


def load_archive(tools: Tools, name: str, archive: Path) -> None:
    """Load an image archive onto every node. Raises KindError."""
    tools.kind("load", "image-archive", str(archive), f"--name={name}", timeout=_LOAD).checked(
        f"{archive.name} was not loaded into cluster {name}"
    )


def name_image(tools: Tools, node: Node, *, image: str, name: str) -> None:
    """Give an image on a node another name; both are full references. Raises KindError."""
    tools.engine(
        "exec",
        node.name,
        "ctr",
        "--namespace=k8s.io",
        "images",
        "tag",
        "--force",
        image,
        name,
        timeout=_SHORT,
    ).checked(f"{image} was not named {name} on node {node.name}")


def images_on(tools: Tools, node: Node) -> frozenset[str]:
    """Full references of the images that a node's kubelet finds. Raises KindError."""
    answer = tools.engine(
        "exec", node.name, "crictl", "images", "--output=json", timeout=_SHORT
    ).checked(f"the images on node {node.name} cannot be listed")
    try:
        return frozenset(_tags(json.loads(answer.stdout)))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise KindError(
            f"the images on node {node.name} cannot be listed: crictl said "
            f"{last_lines(answer.stdout)!r}"
        ) from None


def _tags(document: Any) -> Sequence[str]:
    return [tag for image in document["images"] for tag in image.get("repoTags") or () if tag]
