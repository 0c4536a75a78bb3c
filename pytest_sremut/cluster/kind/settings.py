"""What a kind cluster is made of: pinned as data in this package, or said otherwise by the user."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from pytest_sremut.errors import UsageError

__all__ = ["Pins", "cluster_name", "config_text", "node_image", "pins", "worker_count"]

MOST_WORKERS: Final = 4
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_LONGEST: Final = 63 - len("-control-plane")  # a node is named after its cluster, and is a label


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """A kind release and the node image that was built for it."""

    kind: str  # "v0.33.0"
    node_image: str  # by digest
    source: str  # where both are published


def pins() -> Pins:
    """What this package was written for."""
    return Pins(**json.loads((files(__package__) / "pins.json").read_text("utf-8")))


def node_image(text: str) -> str:
    """The node image that the ini file names. Raises UsageError unless it is by digest."""
    if _IMAGE.fullmatch(text):
        return text
    raise UsageError(
        f"sremut_kind_image: found {text!r}; allowed: an image by digest "
        "(kindest/node:v1.36.4@sha256:...), since a tag of kindest/node is not of one kind release"
    )


def worker_count(text: str) -> int:
    """How many worker nodes the ini file asks for. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) < 3 and int(text) <= MOST_WORKERS:
        return int(text)
    raise UsageError(f"sremut_kind_workers: found {text!r}; allowed: 0 to {MOST_WORKERS}")


def config_text(workers: int) -> str:
    """kind's configuration file: `config.yaml` of this package with that many workers."""
    import yaml

    document: dict[str, Any] = yaml.safe_load((files(__package__) / "config.yaml").read_text())
    document["nodes"] += [{"role": "worker"} for _ in range(workers)]
    return yaml.safe_dump(document, sort_keys=False)


def cluster_name(name: str) -> str:
    """`sremut-<session>-<worker>` from `<session>-<worker>`, as kind and DNS allow it.

    Raises:
        UsageError: Nothing of the name is allowed, or it is too long.
    """
    told = f"sremut-{re.sub(r'[^a-z0-9-]+', '-', name.lower())}".rstrip("-")
    if told == "sremut" or len(told) > _LONGEST:
        raise UsageError(
            f"cluster name: found {name!r}; allowed: up to {_LONGEST - len('sremut-')} lower-case "
            "letters, digits and hyphens"
        )
    return told
