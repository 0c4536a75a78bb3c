"""Whether `-m` asks for work of ours; without it (or a path of an audit) the plugin is silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["asks_for"]


def asks_for(config: pytest.Config, marker: str) -> bool:
    """Whether `-m` selects a marker: it names it, and not only to exclude it."""
    expression = str(config.getoption("markexpr", "") or "")
    return bool(re.search(rf"\b{marker}\b", expression)) and not re.search(
        rf"\bnot\s+\(?\s*{marker}\b", expression
    )
