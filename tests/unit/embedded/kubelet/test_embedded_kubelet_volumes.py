"""Volumes as directories."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.volumes import MountError, PodVolumes

Json = dict[str, Any]


class Objects:
    def __init__(self) -> None:
        self.config: dict[str, Json] = {}
        self.secrets: dict[str, Json] = {}

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        return (self.config if resource == "configmaps" else self.secrets).get(name)

    def list(self, resource: str, namespace: str = "") -> list[Json]:
        return []


def pod(*volumes: Json) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "shop", "labels": {"b": "2", "a": "1"}},
        "spec": {"volumes": list(volumes)},
    }


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def volumes(tmp_path: Path, objects: Objects) -> PodVolumes:
    return PodVolumes(tmp_path / "pod", objects, token="t0ken")


def mounted(volumes: PodVolumes, name: str, **mount: Any) -> Path:
    container = {"volumeMounts": [{"name": name, "mountPath": "/m", **mount}]}
    (binding,) = volumes.bindings(container)
    return Path(binding.source)


def test_an_empty_directory_is_writable_by_all(volumes: PodVolumes) -> None:
    volumes.set_up(pod({"name": "e", "emptyDir": {}}))
    place = mounted(volumes, "e")
    assert place.is_dir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o777
    volumes.set_up(pod({"name": "e", "emptyDir": {}}))
    volumes.remove()
    assert not place.exists()


def test_config_map_items_and_modes(volumes: PodVolumes, objects: Objects) -> None:
    objects.config["c"] = {"data": {"a": "1", "b": "2"}}
    volumes.set_up(
        pod(
            {"name": "all", "configMap": {"name": "c"}},
            {
                "name": "some",
                "configMap": {
                    "name": "c",
                    "items": [{"key": "b", "path": "d/e", "mode": 0o400}],
                },
            },
        )
    )
    everything = mounted(volumes, "all")
    assert {p.name: p.read_text() for p in everything.iterdir()} == {"a": "1", "b": "2"}
    chosen = mounted(volumes, "some") / "d" / "e"
    assert chosen.read_text() == "2"
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o400


def test_the_volume_of_the_service_account(volumes: PodVolumes, objects: Objects) -> None:
    objects.config["kube-root-ca.crt"] = {"data": {"ca.crt": "PEM"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                ]
            }
        },
    ]
    volumes.set_up(pod({"name": "kube", "projected": {"sources": sources, "defaultMode": 0o644}}))
    place = mounted(volumes, "kube", readOnly=True)
    assert {p.name: p.read_text() for p in place.iterdir()} == {
        "token": "t0ken",
        "ca.crt": "PEM",
        "namespace": "shop",
        "labels": 'a="1"\nb="2"',
    }


def test_a_secret(volumes: PodVolumes, objects: Objects) -> None:
    objects.secrets["s"] = {"data": {"k": "djE="}}
    volumes.set_up(pod({"name": "s", "secret": {"secretName": "s", "defaultMode": 0o440}}))
    assert (mounted(volumes, "s") / "k").read_text() == "v1"


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"configMap": {"name": "nope"}}, 'configmap "nope" not found'),
        ({"secret": {"secretName": "nope"}}, 'secret "nope" not found'),
        (
            {"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent config key: z",
        ),
        (
            {"hostPath": {"path": "/"}},
            "this cluster does not offer volumes of the kind hostPath",
        ),
        (
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "../a"}]}},
            "the path ../a leaves the volume",
        ),
    ],
)
def test_what_cannot_be_mounted(
    volumes: PodVolumes, objects: Objects, volume: Json, why: str
) -> None:
    objects.config["c"] = {"data": {"a": "1"}}
    with pytest.raises(MountError) as caught:
        volumes.set_up(pod({"name": "v", **volume}))
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : {why}'


def test_a_volume_is_set_up_when_what_it_names_has_come(
    volumes: PodVolumes, objects: Objects
) -> None:
    wanted = pod({"name": "v", "configMap": {"name": "c"}})
    with pytest.raises(MountError):
        volumes.set_up(wanted)
    objects.config["c"] = {"data": {"a": "1"}}
    volumes.set_up(wanted)
    assert (mounted(volumes, "v") / "a").read_text() == "1"


def test_what_is_optional_may_be_missing(volumes: PodVolumes) -> None:
    volumes.set_up(pod({"name": "v", "configMap": {"name": "nope", "optional": True}}))
    assert list(mounted(volumes, "v").iterdir()) == []


def test_sub_paths_stay_inside(volumes: PodVolumes) -> None:
    volumes.set_up(pod({"name": "e", "emptyDir": {}}))
    assert mounted(volumes, "e", subPath="a/b").is_dir()
    for path in ("..", "a/../../b", "/etc"):
        with pytest.raises(MountError, match="leaves the volume"):
            mounted(volumes, "e", subPath=path)


def test_outer_mounts_come_before_inner_ones(volumes: PodVolumes) -> None:
    volumes.set_up(pod({"name": "e", "emptyDir": {}}))
    container = {
        "volumeMounts": [
            {"name": "e", "mountPath": "/a/b/"},
            {"name": "e", "mountPath": "/a", "readOnly": True},
            {"name": "unknown", "mountPath": "/x"},
        ]
    }
    assert [(b.target, b.read_only) for b in volumes.bindings(container)] == [
        ("/a", True),
        ("/a/b", False),
    ]


def test_scratch_files_begin_empty(volumes: PodVolumes) -> None:
    volumes.set_up(pod())
    path = volumes.scratch("message")
    path.write_text("said")
    assert volumes.scratch("message").read_bytes() == b""
