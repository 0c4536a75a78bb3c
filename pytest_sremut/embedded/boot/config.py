"""What the launcher sends to the daemon: plain data, sent as JSON over an inherited pipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, Self

from pytest_sremut.embedded.kubelet.images import Image, images_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the cluster is built.

    routing: how Services route: nft rules, the gated forwarder, or nft where it works.
    no_endpoints: what a Service without endpoints does to a connection: reject it as often as a
        real node does, always, or drop it.
    tools: whose nslookup, nc and wget the pods use: the machine's where they behave as recorded
        on a real cluster (auto; nc, which can listen, is our own then), the machine's in any case,
        or our own.
    nodes: number of nodes.
    port: TCP port of the API on 127.0.0.1; 0 takes a free one.
    pace: how slow it pretends to be, as `meta.pace` reads it.
    """

    routing: Literal["auto", "nft", "forwarder"] = "auto"
    no_endpoints: Literal["reject", "reject-all", "drop"] = "reject"
    tools: Literal["auto", "machine", "own"] = "auto"
    nodes: int = 1
    port: int = 0
    pace: str = "none"

    @classmethod
    def of_text(cls, given: Mapping[str, str]) -> Self:
        """Options from what a user wrote for each; values that are not allowed were refused."""
        nodes = int(given.get("nodes", "1"))
        return cls(**{**given, "nodes": nodes})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonConfig:
    """Everything that the daemon has to know; file descriptor numbers are inherited ones.

    token: the bearer token of the admin; empty lets everybody in.
    identity: the PEM texts of a `ServerIdentity`.
    """

    directory: str
    name: str
    detach: bool
    parent: int
    listener: int
    control: int
    ready: int
    lock: int
    options: Options
    token: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)

    def to_json(self) -> str:
        document = asdict(self)
        document["images"] = {name: image.to_json() for name, image in self.images.items()}
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        document["options"] = Options(**document["options"])
        document["images"] = images_from_json(document["images"])
        return cls(**document)
