"""Makes the test doubles in `support/` importable by name, and no example depend on the clock."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "support"))

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
