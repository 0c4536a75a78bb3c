"""The warm process behind `own` and `pinned`: a checkout's modules imported once, a fork per task.

Started by its path, `PYTHON -I -B .../worker.py`, under whatever interpreter audits the benchmark,
which need not have our dependencies: of ours, only modules of the standard library's kind are
imported, and our directory leaves `sys.path` before the benchmark enters it. The protocol is that
of `serving`; `hello` has `path` (entries of `sys.path`), `checkout`, `layout`, `light`, `modules`
and `closed`, and `ready` tells versions and what could not be imported.

A benchmark's modules are imported here, so that a reading need not wait for them. What they do
while they are imported is done to this process: it is believed as little as theirs.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - it is not our interpreter that starts this
    sys.exit("the benchmark's interpreter must be Python 3.11 or later")

_ROOT = str(Path(__file__).resolve().parents[3])
sys.path.insert(0, _ROOT)

import platform  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from dataclasses import replace  # noqa: E402
from importlib import metadata  # noqa: E402
from typing import Any  # noqa: E402

from pytest_sremut.errors import HarnessError  # noqa: E402
from pytest_sremut.oracles.benchmark import private  # noqa: E402
from pytest_sremut.oracles.benchmark.layout import Application, Layout  # noqa: E402
from pytest_sremut.oracles.benchmark.source import CheckoutImports  # noqa: E402
from pytest_sremut.oracles.benchmark.subject import Subject  # noqa: E402
from pytest_sremut.oracles.request import ReadingRequest  # noqa: E402
from pytest_sremut.oracles.serving import READ, Begun, serve  # noqa: E402

sys.path.remove(_ROOT)

__all__ = ["Worker", "main"]


class Worker:
    """What one `hello` made of this process, and the tasks that it can be asked for."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._imports: CheckoutImports | None = None

    def warm_up(self, hello: Mapping[str, Any]) -> Mapping[str, Any]:
        """Import what every reading needs. What fails is told, and fails again in each reading."""
        sys.path.extend(entry for entry in hello["path"] if entry not in sys.path)
        self._layout = Layout.from_json(hello["layout"])
        facts = {
            "private": bool(self._layout.private) and private.possible(),
            "versions": _versions(),  # before anything of the benchmark's is imported
        }
        problems: list[str] = []
        try:
            self._imports = CheckoutImports(
                Path(hello["checkout"]), self._layout.path, hello["light"]
            )
        except HarnessError as error:
            return {"problems": [str(error)], **facts}
        for place in (*self._layout.warm, *hello["modules"]):
            try:
                self._imports.find(place) if ":" in place else self._imports.load(place)
            except HarnessError as error:
                problems.append(str(error))
        return {"problems": problems, **facts}

    def read(
        self, request: ReadingRequest, message: Mapping[str, Any], begun: Begun
    ) -> Mapping[str, Any]:
        """One reading."""
        told = self._subject(request, message).read(begun)
        assert self._imports is not None
        notes = {**(told.notes or {}), "compiled": dict(sorted(self._imports.digests.items()))}
        return replace(told, notes=notes).frame()

    def capture(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """What capturing the baseline changed."""
        return {"captured": self._subject(request, message).capture()}

    def diagnose(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """The diagnostic calls."""
        told = self._subject(request, message).diagnose()
        raised = (call["exception"] for call in told["calls"])
        return {"diagnostic": {"exception": next(filter(None, raised), None), **told}}

    def inject(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """The benchmark's own injector."""
        subject = self._apart(request, message)
        assert self._layout is not None
        return {"done": subject.operate(self._layout.inject, message["fault"])}

    def recover(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """The benchmark's own recovery."""
        subject = self._apart(request, message)
        assert self._layout is not None
        return {"done": subject.operate(self._layout.recover, message["fault"])}

    def deploy(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """The benchmark's own deployment of an application."""
        subject, application = self._subject(request, message), self._application(message)
        return {"done": subject.deploy(application, application.deploy)}

    def remove(
        self, request: ReadingRequest, message: Mapping[str, Any], _begun: Begun
    ) -> Mapping[str, Any]:
        """The benchmark's own removal of it."""
        subject, application = self._subject(request, message), self._application(message)
        return {"done": subject.deploy(application, application.remove)}

    def _application(self, message: Mapping[str, Any]) -> Application:
        assert self._layout is not None
        return self._layout.application(message["name"])

    def _apart(self, request: ReadingRequest, message: Mapping[str, Any]) -> Subject:
        """As `_subject`, in a process with its own view of the directories that are shared."""
        subject = self._subject(request, message)
        assert self._layout is not None
        if message["private"]:
            for number, directory in enumerate(self._layout.private):
                try:
                    private.enter(Path(directory), Path(message["private"], str(number)))
                except OSError as error:
                    raise HarnessError(f"no view of {directory} of its own: {error}") from error
        return subject

    def _subject(self, request: ReadingRequest, message: Mapping[str, Any]) -> Subject:
        if self._imports is None or self._layout is None:
            raise HarnessError("the benchmark's packages could not be entered")
        return Subject(self._imports, self._layout, request, message["classes"])


def _versions() -> dict[str, str]:
    try:
        client = metadata.version("kubernetes")
    except metadata.PackageNotFoundError:
        client = "not installed"
    return {"python": platform.python_version(), "kubernetes": client}


def main() -> int:
    """Serve until standard input ends."""
    worker = Worker()
    tasks = {
        READ: worker.read,
        "capture": worker.capture,
        "diagnose": worker.diagnose,
        "inject": worker.inject,
        "recover": worker.recover,
        "deploy": worker.deploy,
        "remove": worker.remove,
    }
    return serve(worker.warm_up, tasks)


if __name__ == "__main__":
    sys.exit(main())
