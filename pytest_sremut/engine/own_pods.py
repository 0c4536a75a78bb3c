"""Our own pods: their labels and images, and how probes are distinguished from the application.

No grader is asked while a probe or a load pod is there. A probe that does not run says nothing
about the application. The probes of a benchmark are known by their labels: those of the endpoint
oracle always, and others that the study names (`benchmark.probes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_sremut.oracles.reference.service_endpoints import PROBE_LABELS

if TYPE_CHECKING:
    from pytest_sremut.study.model import Protocol, Study

__all__ = ["DEMO", "LOAD", "OWNER_LABEL", "PROBE", "ROLE_LABEL", "image_of", "is_probe"]

OWNER_LABEL: Final = "sremut.io/owned"
"""On a namespace that this product created; one without it is somebody else's."""

ROLE_LABEL: Final = "sremut.io/role"
"""On our own pods: `load` or `probe`. None of them may be there when an oracle is read."""

DEMO: Final = "sremut/demo:1"
LOAD: Final = "sremut/load:1"
PROBE: Final = "busybox:1.36"

_IMAGES: Final = {"demo": DEMO, "load": LOAD, "probe": PROBE}


def image_of(protocol: Protocol, role: Literal["demo", "load", "probe"]) -> str:
    """The image of the application, the load or the contract's probes under a profile.

    The names are the same on every kind of cluster, unless the profile says where else the images
    are, best by digest.
    """
    return protocol.images.get(role, _IMAGES[role])


def is_probe(pod: Mapping[str, Any], study: Study) -> bool:
    """Whether a pod has our role label, or every label of one of the sets that the study knows."""
    labels: Mapping[str, Any] = pod["metadata"].get("labels") or {}
    named = study.benchmark.probes if study.benchmark is not None else ()
    return ROLE_LABEL in labels or any(
        probe.items() <= labels.items() for probe in (PROBE_LABELS, *named)
    )
