"""The warm process behind `Isolated`: imports everything once, reads each oracle in a fork.

Started as `python -m pytest_sremut.oracles.worker`; the protocol is that of `serving`, with a
`hello` of `path` (entries of `sys.path`) and `modules` (to import beforehand).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.serving import READ, serve

__all__ = ["main"]


def main() -> int:
    """Serve until standard input ends."""
    os.environ.pop("PYTHONPATH", None)  # it was for this interpreter's start only
    return serve(_warm_up, {READ: _read}, instrument=lambda: "isolated")


def _warm_up(hello: Mapping[str, Any]) -> Mapping[str, Any]:
    for entry in hello["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    for module in ("kubernetes.client", "kubernetes.config", "pytest_sremut.cluster.client"):
        importlib.import_module(module)
    importlib.import_module("pytest_sremut.oracles.perform")
    for module in hello["modules"]:
        try:
            importlib.import_module(module)
        except Exception as error:  # the reading itself will say so, as the study's mistake
            print(f"cannot import {module}: {error!r}", file=sys.stderr)
    return {}


def _read(request: ReadingRequest, _message: Mapping[str, Any]) -> dict[str, Any]:
    from pytest_sremut.cluster.client import load
    from pytest_sremut.oracles.perform import perform

    api = load(Path(request.kubeconfig), request.context)
    return {"reading": perform(request, api, instrument="isolated").to_json()}


if __name__ == "__main__":
    sys.exit(main())
