"""A pod's volumes as directories of the run directory, and where its containers see them.

Rules: content is written to a fresh directory and renamed into place, so a container never sees
half of it; what a volume names and is not there is a MountError in the words of the kubelet, to
be tried again; kinds of volume that are not offered say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.embedded.kubelet.environment import ConfigError, Reader, config_data, field_value
from pytest_sremut.embedded.kubelet.rootfs import Binding
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

_DEFAULT_MODE = 0o644


class MountError(Exception):
    """A volume cannot be set up now."""

    def __init__(self, volume: str, why: str) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {why}')


class PodVolumes:
    """The volumes of one pod below `folder`."""

    def __init__(self, folder: Path, registry: Reader, token: str) -> None:
        self._folder = folder
        self._registry = registry
        self._token = token
        self._paths: dict[str, Path] = {}

    def set_up(self, pod: JsonObject) -> None:
        """Make every volume of the pod; raises MountError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for volume in pod["spec"].get("volumes") or []:
            name = volume["name"]
            if name not in self._paths:
                self._paths[name] = self._make(pod, volume)

    def bindings(self, container: JsonObject) -> tuple[Binding, ...]:
        """What one container mounts; raises MountError for a subPath that leaves its volume."""
        found = []
        for mount in container.get("volumeMounts") or []:
            source = self._paths.get(mount["name"])
            if source is None:
                continue
            below = mount.get("subPath") or ""
            if below:
                source = source / _inside(mount["name"], below)
                if not source.exists():
                    source.mkdir(parents=True)
            target = os.path.normpath("/" + mount["mountPath"].lstrip("/"))
            read_only = bool(mount.get("readOnly"))
            found.append(Binding(source=str(source), target=target, read_only=read_only))
        return tuple(sorted(found, key=lambda binding: binding.target))

    def scratch(self, name: str) -> Path:
        """An empty file of the pod's own, e.g. for a termination message."""
        path = self._folder / name
        path.write_bytes(b"")
        path.chmod(0o666)
        return path

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, pod: JsonObject, volume: JsonObject) -> Path:
        name = volume["name"]
        path = self._folder / f"volume-{name}"
        if volume.get("emptyDir") is not None:
            path.mkdir(exist_ok=True)
            path.chmod(0o777)
            return path
        claim = volume.get("persistentVolumeClaim")
        if claim is not None:
            return self._claimed(pod, name, claim.get("claimName", ""))
        try:
            files = list(self._files(pod, volume))
        except ConfigError as error:
            raise MountError(name, str(error)) from error
        fresh = self._folder / f".volume-{name}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for file, content, mode in files:
            target = fresh / _inside(name, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(mode)
        fresh.rename(path)
        return path

    def _claimed(self, pod: JsonObject, volume: str, name: str) -> Path:
        """The directory of a claim, which outlives the pod."""
        found = self._registry.get("persistentvolumeclaims", pod["metadata"]["namespace"], name)
        if found is None or not found["spec"].get("volumeName"):
            raise MountError(volume, f'persistentvolumeclaim "{name}" is not bound')
        path = self._folder.parent.parent / "claims" / str(found["metadata"]["uid"])
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path

    def _files(self, pod: JsonObject, volume: JsonObject) -> Iterator[tuple[str, bytes, int]]:
        if volume.get("configMap") is not None:
            yield from self._keys(pod, "configmap", volume["configMap"], "name")
        elif volume.get("secret") is not None:
            yield from self._keys(pod, "secret", volume["secret"], "secretName")
        elif volume.get("downwardAPI") is not None:
            yield from self._downward(pod, volume["downwardAPI"])
        elif volume.get("projected") is not None:
            mode = volume["projected"].get("defaultMode", _DEFAULT_MODE)
            for source in volume["projected"].get("sources") or []:
                yield from self._projected(pod, source, mode)
        else:
            kinds = ", ".join(sorted(set(volume) - {"name"})) or "none"
            raise ConfigError(f"this cluster does not offer volumes of the kind {kinds}")

    def _projected(
        self, pod: JsonObject, source: JsonObject, mode: int
    ) -> Iterator[tuple[str, bytes, int]]:
        if source.get("configMap") is not None:
            yield from self._keys(pod, "configmap", source["configMap"], "name", mode)
        if source.get("secret") is not None:
            yield from self._keys(pod, "secret", source["secret"], "name", mode)
        if source.get("downwardAPI") is not None:
            yield from self._downward(pod, source["downwardAPI"], mode)
        if source.get("serviceAccountToken") is not None:
            yield source["serviceAccountToken"]["path"], self._token.encode(), mode

    def _keys(
        self,
        pod: JsonObject,
        kind: str,
        source: dict[str, Any],
        name_key: str,
        mode: int | None = None,
    ) -> Iterator[tuple[str, bytes, int]]:
        namespace = pod["metadata"]["namespace"]
        name = source.get(name_key, "")
        optional = bool(source.get("optional"))
        data = config_data(self._registry, kind, namespace, name, optional=optional) or {}
        default = source.get("defaultMode", mode if mode is not None else _DEFAULT_MODE)
        items = source.get("items")
        if not items:
            items = [{"key": key, "path": key} for key in sorted(data)]
        for item in items:
            if item["key"] not in data:
                if optional:
                    continue
                raise ConfigError(f"references non-existent config key: {item['key']}")
            yield item["path"], data[item["key"]], item.get("mode", default)

    @staticmethod
    def _downward(
        pod: JsonObject, source: JsonObject, mode: int = _DEFAULT_MODE
    ) -> Iterator[tuple[str, bytes, int]]:
        default = source.get("defaultMode", mode)
        for item in source.get("items") or []:
            reference = item.get("fieldRef")
            text = ""
            if reference is not None:
                text = field_value(pod, reference["fieldPath"], pod_ip="", host_ip="")
            yield item["path"], text.encode(), item.get("mode", default)


def _inside(volume: str, path: str) -> PurePosixPath:
    """A path within a volume; raises MountError for one that leaves it."""
    inner = PurePosixPath(path)
    if inner.is_absolute() or ".." in inner.parts:
        raise MountError(volume, f"the path {path} leaves the volume")
    return inner
