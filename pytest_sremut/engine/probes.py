"""Which pods only look at the application: ours, and those that the graders under audit start.

Nobody is asked while one is there, and one that does not run says nothing about the application.
A benchmark's are told by their labels: those of the endpoint oracle always, and whatever else the
study names (`benchmark.probes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sremut.engine.labels import ROLE_LABEL
from pytest_sremut.oracles.reference.service_endpoints import PROBE_LABELS
from pytest_sremut.study.model import Study

__all__ = ["is_probe"]


def is_probe(pod: Mapping[str, Any], study: Study) -> bool:
    """Whether a pod carries our role, or every label of one of the sets that the study knows."""
    labels: Mapping[str, Any] = pod["metadata"].get("labels") or {}
    named = study.benchmark.probes if study.benchmark is not None else ()
    return ROLE_LABEL in labels or any(
        probe.items() <= labels.items() for probe in (PROBE_LABELS, *named)
    )
