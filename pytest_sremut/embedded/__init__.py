"""A small, real Kubernetes API with real processes; stands alone.

`up` starts a cluster and `attach` finds one that outlived its launcher; both return an
`EmbeddedCluster`. `diagnose` returns a `Check` for each thing that this machine offers or lacks.

Other rooms import from here, and from `embedded.linux`. Importing this package is cheap: everything
heavy is imported when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_sremut.embedded.boot.config import Options
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet.images import Image
from pytest_sremut.embedded.meta.pace import PaceError, parse_pace
from pytest_sremut.embedded.selftest.checks import Check

if TYPE_CHECKING:
    from pytest_sremut.embedded.boot.cluster import EmbeddedCluster
    from pytest_sremut.embedded.boot.launcher import attach, up
    from pytest_sremut.embedded.selftest.doctor import diagnose

__all__ = [
    "Check",
    "EmbeddedCluster",
    "EmbeddedError",
    "Image",
    "Options",
    "PaceError",
    "attach",
    "diagnose",
    "parse_pace",
    "up",
]

_LAZY = {
    "EmbeddedCluster": "boot.cluster",
    "attach": "boot.launcher",
    "diagnose": "selftest.doctor",
    "up": "boot.launcher",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
