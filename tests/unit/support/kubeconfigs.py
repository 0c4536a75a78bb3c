"""Kubeconfig files for tests."""

from __future__ import annotations

from pathlib import Path

import yaml

__all__ = ["write_kubeconfig"]


def write_kubeconfig(
    directory: Path, server: str = "http://127.0.0.1:9", *, context: str = "test", token: str = ""
) -> Path:
    """A kubeconfig with one context that leads to `server`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token} if token else {}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
