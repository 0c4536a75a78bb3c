"""Labels that tell this product's own objects from everybody else's."""

from __future__ import annotations

from typing import Final

__all__ = ["OWNER_LABEL", "ROLE_LABEL"]

OWNER_LABEL: Final = "sremut.io/owned"
"""On a namespace that this product created; one without it is somebody else's."""

ROLE_LABEL: Final = "sremut.io/role"
"""On our own pods: `load` or `probe`. None of them may be there when an oracle is read."""
