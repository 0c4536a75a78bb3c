"""A kind cluster of our own behind the `Cluster` port."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.cluster.context import ContextBackend
from pytest_sremut.cluster.kind import commands, images, logs
from pytest_sremut.cluster.kind.preflight import Survey, refusal, survey
from pytest_sremut.cluster.kind.readiness import await_ready
from pytest_sremut.cluster.kind.records import ClusterDirectory, Record, directory_of
from pytest_sremut.cluster.kind.settings import cluster_name, config_text, pins
from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.cluster.port import ClusterFacts, ClusterIdentity, KubeApi
from pytest_sremut.errors import SremutError, UsageError
from pytest_sremut.ground.durable.uninterrupted import uninterrupted

__all__ = ["KindBackend", "Limits", "Plan"]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take, in seconds."""

    create: float = 900.0  # the node image may have to be pulled
    ready: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cluster that is wanted."""

    name: str  # "<session>-<worker>"
    session: str
    evidence: Path | None  # of the session; logs go there
    image: str = ""  # by digest; empty: the pinned one
    workers: int = 0
    keep: bool = False


def _quiet(_: str) -> None:
    """Nobody wants to know."""


class KindBackend:
    """A cluster that is made for one worker and taken away with it. See `Cluster`."""

    def __init__(
        self,
        inner: ContextBackend,
        *,
        name: str,
        tools: Tools,
        directory: ClusterDirectory,
        keep: bool,
        made_of: Mapping[str, Any],
    ) -> None:
        self._inner = inner
        self._name = name
        self._tools = tools
        self._directory = directory
        self._keep = keep
        self._made_of = made_of

    @classmethod
    def start(
        cls,
        plan: Plan,
        *,
        environ: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = _quiet,
        limits: Limits | None = None,
        look: Callable[..., Survey] = survey,
    ) -> KindBackend:
        """Look whether this machine can have one, make it, wait until it is ready, load images.

        Args:
            plan: What is wanted.
            environ: Where programs, state and cache are found (None: this process's).
            tell: Shown while something long goes on.
            limits: How long things may take.
            look: The preflight.

        Raises:
            KindError: It was not made; what was there of it is gone, unless the message says
                otherwise.
            UsageError: Something of the plan or the environment is not allowed.
        """
        environ = os.environ if environ is None else environ
        limits = limits or Limits()
        name, image = cluster_name(plan.name), plan.image or pins().node_image
        tell("kind: looking at this machine")
        found = look(environ, image=image, workers=plan.workers)
        if (refused := refusal(found)) is not None:
            raise refused
        directory = directory_of(name, environ)
        tools = Tools(
            environ=environ,
            provider=found.provider,
            kubeconfig=directory.kubeconfig,
            cache=directory.cache,
        )
        archives = [
            images.archive_of(spec, tools, platform=found.platform, tell=tell)
            for spec in images.IMAGES
        ]
        _claim(directory, name)
        with _given_up(tools, directory, name, plan.evidence):
            if commands.nodes_of(tools, name):
                raise _NotOursError(f"a cluster {name} exists already, and it is not ours")
            config = config_text(plan.workers)
            directory.config.write_text(config, "utf-8")
            record = Record.of_this_process(
                name=name,
                session=plan.session,
                provider=found.provider,
                image=image,
                evidence=str(plan.evidence or ""),
            )
            directory.write(record)
            tell(f"kind: creating cluster {name}")
            commands.create(
                tools, name, image=image, config=directory.config, timeout=limits.create
            )
            nodes = commands.nodes_of(tools, name)
            directory.change(containers=tuple(node.id for node in nodes))
            inner = _connected(tools, name)
            tell(f"kind: waiting for cluster {name}")
            await_ready(inner.api, nodes=plan.workers + 1, timeout=limits.ready)
            for archive in archives:
                tell(f"kind: loading image {archive.spec.name}")
                images.load(tools, name, nodes, archive)
        made_of = {
            **found.facts,
            "node_image": image,
            "config": hashlib.sha256(config.encode()).hexdigest(),
            "images": images.digests(archives),
        }
        return cls(
            inner,
            name=name,
            tools=tools,
            directory=directory,
            keep=plan.keep,
            made_of=made_of,
        )

    @property
    def name(self) -> str:
        """kind's name of it."""
        return self._name

    @property
    def context(self) -> str:
        """Its context in its own kubeconfig."""
        return self._inner.context

    @property
    def kubeconfig(self) -> Path:
        """Its own kubeconfig."""
        return self._inner.kubeconfig

    @property
    def api(self) -> KubeApi:
        """The client."""
        return self._inner.api

    def identity(self) -> ClusterIdentity:
        """See `Cluster`."""
        return self._inner.identity()

    def kube_system_uid(self) -> str:
        """See `Cluster`."""
        return self._inner.kube_system_uid()

    def facts(self) -> ClusterFacts:
        """What it is made of: kind, engine, node image, configuration and images by digest."""
        values = {**self._inner.facts().values, **self._made_of}
        return ClusterFacts(kind="kind", name=self._name, context=self.context, values=values)

    def fit_for_verdicts(self, *, timeout: float) -> Sequence[str]:
        """Every node is there and Ready."""
        return self._inner.fit_for_verdicts(timeout=timeout)

    def export_logs(self, into: Path) -> None:
        """Keep the logs of its nodes and pods below `into`. What cannot be had is told, no error:
        they only explain what is recorded already."""
        try:
            logs.export(self._tools, self._name, into)
        except SremutError as error:
            _log.warning("no logs: %s", error)

    def close(self) -> None:
        """Take it away unless it is kept. Raises KindError when something is left."""
        self._inner.close()
        if self._keep:
            self._directory.change(kept=True)
            self._directory.let_go()
            return
        try:
            warning = commands.delete(self._tools, self._name)
        finally:
            self._directory.let_go()
        if warning:
            _log.warning("%s", warning)
        self._directory.remove()


class _NotOursError(KindError):
    """Something of that name is somebody else's: nothing may be taken away."""


def _claim(directory: ClusterDirectory, name: str) -> None:
    if not directory.hold():
        raise UsageError(f"cluster {name} is in use by another process")
    if (directory.path / "record.json").exists():
        directory.let_go()
        raise UsageError(
            f"cluster {name} exists already: sremut cluster down --name {name} takes it away"
        )


@contextlib.contextmanager
def _given_up(
    tools: Tools, directory: ClusterDirectory, name: str, evidence: Path | None
) -> Iterator[None]:
    """When the block fails, for whatever reason: keep the logs, leave nothing behind."""
    try:
        yield
    except _NotOursError:
        directory.remove()
        raise
    except BaseException as error:
        with uninterrupted():  # a second interrupt ends this too; the record then stays
            _clean_up(tools, directory, name, None if _hurried(error) else evidence, error)
        raise


def _hurried(error: BaseException) -> bool:
    return not isinstance(error, Exception)


def _clean_up(
    tools: Tools,
    directory: ClusterDirectory,
    name: str,
    evidence: Path | None,
    error: BaseException,
) -> None:
    if not (directory.path / "record.json").exists():
        directory.remove()  # nothing was made yet
        return
    if evidence is not None:
        try:
            where = logs.export(tools, name, evidence / "clusters")
            error.add_note(f"logs of cluster {name}: {where}")
        except SremutError as trouble:
            error.add_note(f"no logs of cluster {name}: {trouble}")
    try:
        commands.delete(tools, name)
    except SremutError as trouble:
        directory.let_go()
        error.add_note(f"{trouble}; sremut cluster down --name {name} tries again")
    else:
        directory.remove()


def _connected(tools: Tools, name: str) -> ContextBackend:
    """A client for the new cluster, with the kubeconfig that kind should have written."""
    context = f"kind-{name}"

    def opened() -> ContextBackend:
        return ContextBackend.open(context=context, allowed={context}, kubeconfig=tools.kubeconfig)

    try:
        return opened()
    except SremutError:
        commands.export_kubeconfig(tools, name)
    try:
        return opened()
    except SremutError as error:
        raise KindError(f"cluster {name} has no usable kubeconfig: {error}") from error
