"""A small, real Kubernetes API with real processes; stands alone.

`up` starts a cluster, `attach` finds one that outlived its launcher; both answer an
`EmbeddedCluster`. Importing this package is cheap: everything heavy is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import Options
from .failure import EmbeddedError
from .images import Image

if TYPE_CHECKING:
    from .cluster import EmbeddedCluster
    from .launcher import attach, up

__all__ = ["EmbeddedCluster", "EmbeddedError", "Image", "Options", "attach", "up"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import launcher

        return getattr(launcher, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
