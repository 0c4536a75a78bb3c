"""The embedded cluster behind the `Cluster` port."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.client import KubeClient, load
from pytest_sremut.cluster.identity import read_identity, read_uid
from pytest_sremut.cluster.port import ClusterFacts, ClusterIdentity, KubeApi
from pytest_sremut.errors import ClusterUnavailableError

if TYPE_CHECKING:
    from pytest_sremut.embedded import EmbeddedCluster, Image, Options

__all__ = [
    "EmbeddedBackend",
    "EmbeddedClusterError",
    "images",
    "kept_clusters",
    "named_directory",
]

_STARTUP: Final = 60.0
_PYTHON_IMAGES: Final = {
    "sremut/demo:1": "pytest_sremut.demo.service",
    "sremut/load:1": "pytest_sremut.workload.generator",
}


def images() -> dict[str, Image]:
    """What each image name of the demo, the load and the probes stands for."""
    from pytest_sremut.embedded import Image

    table = {name: Image(kind="python", module=m) for name, m in _PYTHON_IMAGES.items()}
    for tag in ("1.36", "1.36.1"):  # the tag that floats and the release that it stood for
        table[f"busybox:{tag}"] = Image(kind="commands")
    table["registry.k8s.io/pause:3.10"] = Image(kind="pause")
    return table


def named_directory(name: str) -> Path:
    """Where a cluster of that name that outlives its launcher has its directory."""
    return _clusters() / name


def kept_clusters(session: str) -> dict[str, Path]:
    """The clusters that processes of a session left running: directories by name."""
    return {
        state.parent.name: state.parent
        for state in sorted(_clusters().glob(f"{session[-6:]}-*/state.json"))
    }


def _clusters() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "sremut" / "clusters"


class EmbeddedClusterError(ClusterUnavailableError):
    """The embedded cluster could not start or is gone; `diagnostics` says what to do."""

    def __init__(self, message: str, advice: str) -> None:
        self._advice = advice
        super().__init__(message)

    def diagnostics(self) -> str:
        return self._advice


class EmbeddedBackend:
    """A cluster of our own on this machine. See `Cluster`."""

    def __init__(self, cluster: EmbeddedCluster, *, keep: bool, temporary: Path | None) -> None:
        self._cluster = cluster
        self._keep = keep
        self._temporary = temporary
        self._client: KubeClient = load(cluster.kubeconfig, cluster.context)

    @classmethod
    def start(
        cls,
        *,
        name: str,
        directory: Path | None = None,
        keep: bool = False,
        options: Options | None = None,
        timeout: float = _STARTUP,
    ) -> EmbeddedBackend:
        """Start a cluster.

        Args:
            name: Its name.
            directory: For kubeconfig, log and state; None makes a temporary one, removed at `close`
                unless the cluster is kept.
            keep: Let it outlive `close` and this process.
            options: How it is built.
            timeout: Seconds until its API must answer.

        Raises:
            EmbeddedClusterError: It did not start; step and errno in the message.
        """
        from pytest_sremut.embedded import up

        temporary = None
        if directory is None:
            directory = temporary = Path(tempfile.mkdtemp(prefix="sremut-"))
        try:
            with _translated():
                cluster = up(
                    directory=directory,
                    name=name,
                    images=images(),
                    options=options,
                    detach=keep,
                    timeout=timeout,
                )
        except BaseException as error:
            if temporary is not None:
                _add_log(error, temporary)
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        return cls(cluster, keep=keep, temporary=temporary)

    @classmethod
    def attach(cls, directory: Path) -> EmbeddedBackend:
        """The kept cluster that runs in `directory`; it outlives `close`.

        Raises:
            EmbeddedClusterError: There is none.
        """
        from pytest_sremut.embedded import attach

        with _translated():
            cluster = attach(directory)
        return cls(cluster, keep=True, temporary=None)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._cluster.name

    @property
    def context(self) -> str:
        """Its context in its own kubeconfig."""
        return self._cluster.context

    @property
    def kubeconfig(self) -> Path:
        """Its own kubeconfig."""
        return self._cluster.kubeconfig

    @property
    def directory(self) -> Path:
        """Where it keeps log and state."""
        return self._cluster.directory

    @property
    def pid(self) -> int:
        """Of its daemon; every process of the cluster descends from it."""
        return self._cluster.pid

    @property
    def api(self) -> KubeApi:
        """The client."""
        return self._client

    def identity(self) -> ClusterIdentity:
        """See `Cluster`."""
        return read_identity(self._client, self._client.server)

    def kube_system_uid(self) -> str:
        """See `Cluster`."""
        return read_uid(self._client)

    def facts(self) -> ClusterFacts:
        """What the cluster is made of on this machine: routing, tools, level of isolation."""
        with _translated():
            values: Mapping[str, Any] = self._cluster.facts()
        return ClusterFacts(kind="embedded", name=self.name, context=self.context, values=values)

    def fit_for_verdicts(self, *, timeout: float) -> Sequence[str]:
        """The deviations that its self-test found; waits for its end."""
        with _translated():
            report = self._cluster.selftest(timeout)
        return list(report.deviations) if report.ok or report.deviations else ["no probe was run"]

    def close(self) -> None:
        """Stop it unless it is kept."""
        self._client.close()
        if self._keep:
            return
        with _translated():
            self._cluster.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """The embedded cluster stands alone and has an exception of its own."""
    from pytest_sremut.embedded import EmbeddedError

    try:
        yield
    except EmbeddedError as error:
        message, _, advice = str(error).partition("\n")
        raise EmbeddedClusterError(f"embedded cluster: {message}", advice.strip()) from error


def _add_log(error: BaseException, directory: Path) -> None:
    """The log goes with the temporary directory: keep its end with the error."""
    with contextlib.suppress(OSError):
        for log in directory.glob("*.log"):
            lines = log.read_text("utf-8", "replace").splitlines()[-20:]
            if lines:
                error.add_note("\n".join([f"end of {log.name}:", *lines]))
