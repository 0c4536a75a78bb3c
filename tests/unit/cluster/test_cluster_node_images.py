"""Which nodes have an image, and what cannot be told."""

from __future__ import annotations

from typing import Any

import pytest
from fake_kube import FakeKube

from pytest_sremut.cluster.node_images import ImagePlaces, full_name, places_of

NAME = "sremut/load:1"


def node(name: str, *images: str) -> dict[str, Any]:
    listed = [{"names": [f"{image}@sha256:0", image]} for image in images]
    return {"kind": "Node", "metadata": {"name": name}, "status": {"images": listed}}


def places(*nodes: dict[str, Any]) -> ImagePlaces:
    api = FakeKube()
    for one in nodes:
        api.put(one)
    (found,) = places_of(api, [NAME])
    return found


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("sremut/load:1", "docker.io/sremut/load:1"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        ("localhost/b:1", "localhost/b:1"),
        ("registry:5000/b:1", "registry:5000/b:1"),
    ],
)
def test_names_as_a_store_knows_them(name: str, full: str) -> None:
    assert full_name(name) == full


def test_on_one_and_not_on_another() -> None:
    found = places(node("n1", f"docker.io/{NAME}"), node("n2", "docker.io/sremut/load:2"))
    assert found == ImagePlaces(name=NAME, has=("n1",), lacks=("n2",))


def test_a_full_list_tells_nothing_of_what_is_not_in_it() -> None:
    found = places(node("n1", *(f"docker.io/x/{number}:1" for number in range(50))))
    assert (found.has, found.lacks) == ((), ())
    assert found.untold == "n1 lists 50 images and may have more"


def test_a_node_that_lists_none() -> None:
    assert places(node("n1")).untold == "n1 lists no images"


def test_nodes_that_may_not_be_read() -> None:
    api = FakeKube()
    api.break_always("list", "Node", status=403, reason="Forbidden")
    (found,) = places_of(api, [NAME])
    assert found == ImagePlaces(name=NAME, untold="nodes may not be read")
