"""A running cluster, as whoever started or found it sees it.

Rules: questions go to the daemon over its API address; `close` returns when no process of the
cluster is left, however it has to be ended.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.embedded.boot import kubeconfig
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.linux.processes import ProcessIdentity

if TYPE_CHECKING:
    from pytest_sremut.embedded.selftest.selftest import SelfTestReport

STATE_FILE = "state.json"
LOG_FILE = "daemon.log"
KUBECONFIG_FILE = "kubeconfig"
CLOSE_GRACE = 3.0  # seconds from the polite request to the kill


class EmbeddedCluster:
    """A running cluster.

    Attributes:
        directory: its directory: kubeconfig, daemon log, state.
        name, context: its name, and the kubeconfig's context, ``sremut-NAME``.
        kubeconfig: path of the kubeconfig, mode 0600.
        server: ``https://127.0.0.1:PORT``.
        pid: the outermost process of the cluster.
    """

    def __init__(
        self,
        *,
        directory: Path,
        name: str,
        server: str,
        supervisor: ProcessIdentity,
        init: ProcessIdentity,
        process: subprocess.Popen[bytes] | None = None,
        control: socket.socket | None = None,
    ) -> None:
        """`process` and `control`: of a cluster that ends with this process."""
        self.directory = directory
        self.name = name
        self.context = f"sremut-{name}"
        self.kubeconfig = directory / KUBECONFIG_FILE
        self.server = server
        self.pid = supervisor.pid
        self._supervisor = supervisor
        self._init = init
        self._process = process
        self._control = control
        self._closed = False

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself; raises EmbeddedError when it does not answer."""
        return self._get("/sremut/v1/status", timeout=10)

    def access(self) -> list[dict[str, Any]]:
        """What service accounts asked the API for until now, each kind of request once.

        ``user, verb, group, resource, namespace, allowed``; raises EmbeddedError when the daemon
        does not answer.
        """
        asked: list[dict[str, Any]] = self._get("/sremut/v1/access", timeout=10)["asked"]
        return asked

    def selftest(self, timeout: float = 120) -> SelfTestReport:
        """Wait until the daemon's self-test has finished; answers its report.

        Raises EmbeddedError when it has not within `timeout` seconds.
        """
        from pytest_sremut.embedded.selftest.selftest import ProbeResult, SelfTestReport

        document = self._get("/sremut/v1/selftest", timeout=timeout)
        probes = tuple(
            ProbeResult(
                name=probe["name"],
                argv=tuple(probe["argv"]),
                source=probe["source"],
                expected=probe["expected"],
                observed=probe["observed"],
                deviations=tuple(probe["deviations"]),
                tries=probe["tries"],
            )
            for probe in document["probes"]
        )
        return SelfTestReport(
            probes=probes, elapsed=document["elapsed"], routing=document["routing"]
        )

    def facts(self) -> dict[str, Any]:
        """What the cluster is made of on this machine: JSON-ready, without any secret."""
        facts: dict[str, Any] = self.status()["facts"]
        return facts

    def alive(self) -> bool:
        """Whether the cluster's outermost process is there."""
        if self._process is not None:
            return self._process.poll() is None
        return self._supervisor.alive()

    def close(self) -> None:
        """Stop the cluster; returns when no process of it is left. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self._control is not None:
            self._control.close()
        self._supervisor.signal(signal.SIGTERM)
        if not self._supervisor_ended():
            self._supervisor.signal(signal.SIGKILL)
            self._supervisor_ended()
        # The end of init is the end of every process in its pid namespace.
        if not self._init.wait_gone(CLOSE_GRACE):
            raise EmbeddedError(
                f"processes of the cluster {self.name} are still there (init is {self._init.pid})"
            )
        (self.directory / STATE_FILE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # where its private file system was mounted
            (self.directory / "run").rmdir()

    def _supervisor_ended(self) -> bool:
        if self._process is None:
            return self._supervisor.wait_gone(CLOSE_GRACE)
        try:
            self._process.wait(CLOSE_GRACE)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _get(self, path: str, *, timeout: float) -> dict[str, Any]:
        # No proxy: the address is our own loopback, whatever the environment says.
        try:
            token, root = kubeconfig.credentials(self.kubeconfig)
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}),
                urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=root)),
            )
            request = urllib.request.Request(self.server + path)
            request.add_header("Authorization", f"Bearer {token}")
            with opener.open(request, timeout=timeout) as answer:
                document: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError, LookupError) as error:
            advice = f"See {self.directory / LOG_FILE}."
            if not self.alive():
                advice = f"Its process {self.pid} is gone. {advice}"
            raise EmbeddedError(
                f"the cluster {self.name} does not answer {path} ({error})", advice=advice
            ) from error
        return document


def state_of(cluster: EmbeddedCluster) -> dict[str, Any]:
    """What the state file of a detached cluster holds."""
    return {
        "schema": "sremut/embedded/v1",
        "name": cluster.name,
        "server": cluster.server,
        "pid": cluster._supervisor.pid,
        "started": cluster._supervisor.started,
        "init": cluster._init.pid,
        "init_started": cluster._init.started,
    }


def cluster_of(directory: Path, state: dict[str, Any]) -> EmbeddedCluster:
    """The cluster that a state file describes; raises KeyError, TypeError, ValueError."""
    if state["schema"] != "sremut/embedded/v1":
        raise ValueError(f"schema {state['schema']!r} instead of 'sremut/embedded/v1'")
    return EmbeddedCluster(
        directory=directory,
        name=str(state["name"]),
        server=str(state["server"]),
        supervisor=ProcessIdentity(pid=int(state["pid"]), started=str(state["started"])),
        init=ProcessIdentity(pid=int(state["init"]), started=str(state["init_started"])),
    )
