"""The images that the engine puts into pods: the same names on every kind of cluster, unless the
profile in use says where else they are, best by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pytest_sremut.study.model import Protocol

__all__ = ["DEMO", "LOAD", "PROBE", "image_of"]

DEMO: Final = "sremut/demo:1"
LOAD: Final = "sremut/load:1"
PROBE: Final = "busybox:1.36"

_NAMES: Final = {"demo": DEMO, "load": LOAD, "probe": PROBE}


def image_of(protocol: Protocol, role: Literal["demo", "load", "probe"]) -> str:
    """The image of the application, the load or the contract's probes under a profile."""
    return protocol.images.get(role, _NAMES[role])
