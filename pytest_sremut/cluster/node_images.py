"""Which nodes of a cluster have our images, as far as their status tells.

A kubelet lists the fifty largest images of its node. So a name that is not among fifty may be there
all the same, and where nodes may not be read nothing is known: both are told apart from "lacks it".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_sremut.cluster.port import Failed, KubeApi

__all__ = ["ImagePlaces", "full_name", "places_of"]

_LISTED: Final = 50  # images that a kubelet lists at most, unless it was told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlaces:
    """Where one image is. `untold` says why something is not known; empty where all is known."""

    name: str
    has: tuple[str, ...] = ()  # names of nodes
    lacks: tuple[str, ...] = ()
    untold: str = ""


def full_name(name: str) -> str:
    """The reference under which a node's store knows a name: `busybox:1.36` is Docker Hub's."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


def places_of(api: KubeApi, names: Iterable[str]) -> list[ImagePlaces]:
    """Where each image is. Never raises for what the server says."""
    nodes = api.list("Node", "")
    if isinstance(nodes, Failed):
        why = "nodes may not be read" if nodes.status == 403 else str(nodes)
        return [ImagePlaces(name=name, untold=why) for name in names]
    return [_place(name, nodes.items) for name in names]


def _place(name: str, nodes: Iterable[Mapping[str, Any]]) -> ImagePlaces:
    has, lacks, unclear = [], [], []
    for node in nodes:
        images = (node.get("status") or {}).get("images") or ()
        known = {called for image in images for called in image.get("names") or ()}
        node_name = str(node["metadata"]["name"])
        if full_name(name) in known:
            has.append(node_name)
        elif not images:
            unclear.append(f"{node_name} lists no images")
        elif len(images) >= _LISTED:
            unclear.append(f"{node_name} lists {_LISTED} images and may have more")
        else:
            lacks.append(node_name)
    return ImagePlaces(name=name, has=tuple(has), lacks=tuple(lacks), untold="; ".join(unclear))
