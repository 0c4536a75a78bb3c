"""The kubeconfig of a cluster: one cluster, one user without a secret, one context.

Rules: mode 0600 from the first byte, replaced as a whole; JSON, which is YAML to every reader.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def document(*, name: str, server: str) -> dict[str, Any]:
    context = f"sremut-{name}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": {}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def write(path: Path, *, name: str, server: str) -> None:
    """Write the kubeconfig; raises OSError."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(document(name=name, server=server), file, indent=1)
        file.write("\n")
    fresh.replace(path)
