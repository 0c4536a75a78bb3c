"""What an image name means: a Python function, a set of commands, or nothing at all.

Rules:
- a registry of images is given when the cluster starts and never changes;
- names are compared the way a container runtime does it: ``busybox``, ``busybox:latest`` and
  ``docker.io/library/busybox:latest`` are one image;
- an image's id is derived from what it means, so equal images have equal ids everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ImageKind = Literal["python", "commands", "pause"]

_TAG = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_COMPONENT = re.compile(r"\A[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*\Z")
_DIGEST = re.compile(r"\A[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}\Z")
_REGISTRY = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of the cluster's registry.

    ``python``: a container runs ``module.function(argv)`` in a process forked from a warm
    interpreter, where argv is the container's command and args. ``commands``: command and args
    are executed, looked up in the tools folder. ``pause``: sleeps until it is asked to stop.
    """

    kind: ImageKind
    module: str = ""
    function: str = "main"

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "module": self.module, "function": self.function}

    @property
    def digest(self) -> str:
        """``sha256:...``, the same for the same image on any machine."""
        text = f"{self.kind}\0{self.module}\0{self.function}"
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class ImageNameError(ValueError):
    """The name cannot be parsed; the text says how, as a container runtime puts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A parsed image name: ``registry/path:tag`` with every default filled in."""

    registry: str
    path: str
    tag: str

    def __str__(self) -> str:
        separator = "@" if ":" in self.tag else ":"
        return f"{self.registry}/{self.path}{separator}{self.tag}"


def parse_reference(name: str) -> Reference:
    """Parse an image name; raises ImageNameError."""

    def bad(why: str) -> ImageNameError:
        return ImageNameError(
            f"Failed to apply default image tag {_quoted(name)}: couldn't parse image name "
            f"{_quoted(name)}: invalid reference format{why}"
        )

    rest, at, digest = name.partition("@")
    if at and not _DIGEST.match(digest):
        raise bad("")
    tag = "latest"
    head, colon, tail = rest.rpartition(":")
    if colon and "/" not in tail:
        rest, tag = head, tail
        if not _TAG.match(tag):
            raise bad("")
    first, slash, path = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry = first
        if not _REGISTRY.match(registry):
            raise bad("")
    else:
        registry, path = "docker.io", rest if slash else f"library/{rest}"
    parts = path.split("/")
    if any(part != part.lower() for part in parts):
        raise bad(f": repository name ({path}) must be lowercase")
    if not all(_COMPONENT.match(part) for part in parts):
        raise bad("")
    if registry == "docker.io" and len(parts) == 1:
        path = f"library/{path}"
    return Reference(registry=registry, path=path, tag=digest or tag)


class ImageRegistry:
    """The cluster's images by name."""

    def __init__(self, images: Mapping[str, Image]) -> None:
        """Raises ImageNameError for a name that cannot be parsed."""
        self._images = {str(parse_reference(name)): image for name, image in images.items()}

    def find(self, name: str) -> Image | None:
        """The image, or None where there is no such one; raises ImageNameError."""
        return self._images.get(str(parse_reference(name)))

    def modules(self) -> list[str]:
        """Modules that the warm interpreter imports, sorted, each once."""
        return sorted({i.module for i in self._images.values() if i.kind == "python"})

    @staticmethod
    def image_id(image: Image) -> str:
        return image.digest


def images_from_json(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Image]:
    return {
        name: Image(kind=entry["kind"], module=entry["module"], function=entry["function"])
        for name, entry in document.items()
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
