"""What a kind cluster is made of."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.cluster.kind.settings import (
    cluster_name,
    config_text,
    node_image,
    pins,
    worker_count,
)
from pytest_sremut.errors import UsageError


def test_what_is_pinned() -> None:
    pinned = pins()
    assert re.fullmatch(r"v0\.\d+\.\d+", pinned.kind)
    assert node_image(pinned.node_image) == pinned.node_image
    assert pinned.source.endswith(pinned.kind)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_configuration(workers: int) -> None:
    document = yaml.safe_load(config_text(workers))
    assert (document["kind"], document["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    roles = [node["role"] for node in document["nodes"]]
    assert roles == ["control-plane"] + ["worker"] * workers
    assert document["networking"]["apiServerAddress"] == "127.0.0.1"


@pytest.mark.parametrize(
    "image",
    [
        "kindest/node:v1.36.4",
        "kindest/node:latest",
        "kindest/node@sha256:abc",
        "--image=x@sha256:" + "a" * 64,
        "kindest/node:v1@sha256:" + "A" * 64,
        "a b@sha256:" + "a" * 64,
    ],
)
def test_an_image_that_is_not_by_digest_is_refused(image: str) -> None:
    with pytest.raises(UsageError, match="allowed: an image by digest"):
        node_image(image)


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("4", 4)])
def test_workers(text: str, count: int) -> None:
    assert worker_count(text) == count


@pytest.mark.parametrize("text", ["", "5", "-1", "1.0", "²", "01x", "1" * 99])
def test_so_many_workers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"sremut_kind_workers: found .* allowed: 0 to 4"):
        worker_count(text)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("1f2e3d-main", "sremut-1f2e3d-main"),
        ("1f2e3d-gw12", "sremut-1f2e3d-gw12"),
        ("1f2e3d-SSH host_1", "sremut-1f2e3d-ssh-host-1"),
        ("../../etc", "sremut--etc"),
    ],
)
def test_names(name: str, told: str) -> None:
    assert cluster_name(name) == told


@given(st.text(max_size=80))
def test_every_name_is_one_or_is_refused(name: str) -> None:
    """kind allows [a-z0-9.-]; the node `NAME-control-plane` must be a DNS label."""
    try:
        told = cluster_name(name)
    except UsageError:
        return
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", told)
    assert len(f"{told}-control-plane") <= 63


def test_no_image_of_ours_floats() -> None:
    """Every base is by digest, and no tag is `latest`: with that one the kubelet always pulls."""
    package = files("pytest_sremut")
    for name in ("demo", "cluster/kind/images/probe", "cluster/kind/images/wrk2"):
        text = (package / name / "Dockerfile").read_text()
        bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
        assert bases
        for base in bases:
            assert re.fullmatch(r"\S+:(?!latest)[^@]+@sha256:[0-9a-f]{64}", base)
