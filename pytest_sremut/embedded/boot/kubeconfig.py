"""The kubeconfig of a cluster: one cluster, one user with its token, one context.

Rules: mode 0600 from the first byte, replaced as a whole; JSON, which is YAML to every reader.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any


def document(*, name: str, server: str, token: str = "", root: str = "") -> dict[str, Any]:
    context = f"sremut-{name}"
    cluster = {"server": server}
    if root:
        cluster["certificate-authority-data"] = base64.b64encode(root.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": {"token": token} if token else {}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def write(path: Path, *, name: str, server: str, token: str = "", root: str = "") -> None:
    """Write the kubeconfig; raises OSError."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(document(name=name, server=server, token=token, root=root), file, indent=1)
        file.write("\n")
    fresh.replace(path)


def credentials(path: Path) -> tuple[str, str]:
    """The token and the PEM of the authority in a kubeconfig of ours; empty where there is none.

    Raises OSError, ValueError, LookupError.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    authority = found["clusters"][0]["cluster"].get("certificate-authority-data", "")
    token = found["users"][0]["user"].get("token", "")
    return str(token), base64.b64decode(authority).decode()
