"""The warm process behind `Isolated` and `InProcess`: imports our side once, runs no grader itself.

Started as `python -m pytest_sremut.oracles.worker`; the protocol is that of `serving`, with a
`hello` of `path` (entries of `sys.path`), `python_path` (of the oracles' environment), `root` (the
project) and `closed` (directories). A grader's modules are imported in the process of its reading
only, from their source.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pytest_sremut.oracles.exact import compile_below, prepare
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.serving import READ, Begun, serve

__all__ = ["main"]

_RESTORED_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGPIPE,
)


def main() -> int:
    """Serve until standard input ends."""
    os.environ.pop("PYTHONPATH", None)  # it was for this interpreter's start only
    return serve(_warm_up, {READ: _read}, prepare=_prepare)


def _warm_up(hello: Mapping[str, Any]) -> Mapping[str, Any]:
    for module in ("kubernetes.client", "kubernetes.config", "pytest_sremut.cluster.client"):
        importlib.import_module(module)
    importlib.import_module("pytest_sremut.oracles.perform")
    # Only now, so nothing of the project's can stand in for ours; then in the session's own order,
    # so a grader is what the session found, and hashed, under its name.
    sys.path[:] = [*hello["path"], *(entry for entry in sys.path if entry not in hello["path"])]
    if hello["python_path"]:
        os.environ["PYTHONPATH"] = hello["python_path"]
    if hello["root"]:
        compile_below(Path(hello["root"]))
    return {"versions": _versions()}


def _prepare(message: Mapping[str, Any]) -> None:
    prepare(message["sources"])


def _read(request: ReadingRequest, message: Mapping[str, Any], begun: Begun) -> Mapping[str, Any]:
    from pytest_sremut.cluster.client import load
    from pytest_sremut.oracles.perform import perform

    api = load(Path(request.kubeconfig), request.context)
    with _process_state_restored() if message.get("host") else contextlib.nullcontext():
        begun()
        return perform(request, api).frame()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for distribution in ("kubernetes", "pytest-sremut"):
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            versions[distribution] = "not installed"
    return versions


@contextlib.contextmanager
def _process_state_restored() -> Iterator[None]:
    """Where a process is kept: put directory, environment and signals back after an oracle."""
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    environment = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _RESTORED_SIGNALS}
    try:
        yield
    finally:
        os.fchdir(directory)
        os.close(directory)
        _restore_environment(environment)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _restore_environment(environment: dict[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


if __name__ == "__main__":
    sys.exit(main())
