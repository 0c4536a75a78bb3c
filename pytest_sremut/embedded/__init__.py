"""A small, real Kubernetes API with real processes; stands alone.

`up` starts a cluster, `attach` finds one that outlived its launcher; both answer an
`EmbeddedCluster`. Importing this package is cheap: everything heavy is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_sremut.embedded.boot.config import Options
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet.images import Image

if TYPE_CHECKING:
    from pytest_sremut.embedded.boot.cluster import EmbeddedCluster
    from pytest_sremut.embedded.boot.launcher import attach, up

__all__ = ["EmbeddedCluster", "EmbeddedError", "Image", "Options", "attach", "up"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pytest_sremut.embedded.boot import launcher

        return getattr(launcher, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
