"""Assembly: everything that a cluster consists of, on one asyncio loop.

Rules:
- the launcher gets "ready" when the API answers and every node is Ready;
- the self-test then runs beside; whoever needs its result waits for it;
- a part that fails ends the daemon with its reason in the log; nothing goes on half dead.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from pytest_sremut.embedded.apiserver.http import ApiServer
from pytest_sremut.embedded.boot.certificates import ServerIdentity
from pytest_sremut.embedded.boot.config import DaemonConfig
from pytest_sremut.embedded.controllers import ControllerManager
from pytest_sremut.embedded.dns.server import DnsServer
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet import execs, tools
from pytest_sremut.embedded.kubelet.images import ImageRegistry
from pytest_sremut.embedded.kubelet.kubelet import Kubelet
from pytest_sremut.embedded.kubelet.rootfs import NSSWITCH, RootSpec
from pytest_sremut.embedded.kubelet.zygote_client import ZygoteClient
from pytest_sremut.embedded.linux.namespaces import Level
from pytest_sremut.embedded.linux.processes import Observed
from pytest_sremut.embedded.meta.pace import parse_pace
from pytest_sremut.embedded.proxy.addresses import (
    API_ADDRESS,
    DNS_ADDRESS,
    NODE_ADDRESS,
    ClusterAddresses,
)
from pytest_sremut.embedded.proxy.proxy import ProxyError, ServiceProxy
from pytest_sremut.embedded.registry.registry import Registry
from pytest_sremut.embedded.selftest import selftest
from pytest_sremut.embedded.selftest.selftest import SelfTestReport

DOMAIN = "cluster.local"
API_PORT = 6443
_log = logging.getLogger("sremut.embedded")


def run(
    config: DaemonConfig,
    zygote: socket.socket,
    *,
    level: Level,
    missing: Sequence[str],
    ready: Callable[[dict[str, object]], None],
) -> int:
    """Serve until asked to stop; returns the daemon's exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    try:
        return asyncio.run(_serve(config, zygote, level, missing, ready))
    except EmbeddedError as error:
        ready(json.loads(error.to_json()))
        return 1


async def _serve(
    config: DaemonConfig,
    zygote: socket.socket,
    level: Level,
    missing: Sequence[str],
    ready: Callable[[dict[str, object]], None],
) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(code: int) -> None:
        if not stopped.done():
            stopped.set_result(code)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, 0)
    cluster = Cluster(config, zygote, level=level, missing=missing, on_death=lambda: stop(1))
    loop.set_exception_handler(cluster.defect)
    await cluster.start()
    ready({"ready": True})
    os.close(config.ready)
    code = await stopped
    await cluster.stop()
    return code


class Cluster:
    """The parts and their order."""

    def __init__(
        self,
        config: DaemonConfig,
        zygote: socket.socket,
        *,
        level: Level,
        missing: Sequence[str],
        on_death: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._config = config
        self._level = level
        self._missing = list(missing)
        self._directory = Path(config.directory)
        self._run = self._directory / "run"
        self._began = time.monotonic()
        self._tools: dict[str, tools.Tool] = {}
        self._rejected: dict[str, list[str]] = {}
        self._not_imported: dict[str, str] = {}
        self._defects: deque[str] = deque(maxlen=100)
        self.registry = Registry(now=lambda: datetime.now(UTC), cluster_name=config.name)
        self.zygote = ZygoteClient(zygote, loop=loop, on_death=on_death)
        self.addresses = ClusterAddresses()
        names = [f"node-{number + 1}" for number in range(config.options.nodes)]
        self.nodes = {
            name: str(IPv4Address(NODE_ADDRESS) + number) for number, name in enumerate(names)
        }
        self._identity = ServerIdentity(**config.identity)
        self._pace = parse_pace(config.options.pace)
        self.controllers = ControllerManager(
            self.registry, node_names=names, root_ca=self._identity.root
        )
        self.dns = DnsServer(self.registry, domain=DOMAIN)
        self.proxy = ServiceProxy(
            self.registry,
            addresses=self.addresses,
            mode=config.options.routing,
            no_endpoints=config.options.no_endpoints,
        )
        self.kubelet = Kubelet(
            self.registry,
            self.zygote,
            images=ImageRegistry(config.images),
            network=self.addresses,
            node_addresses=self.nodes,
            run=self._run,
            directory=self._directory,
            dns=DNS_ADDRESS,
            domain=DOMAIN,
            issue_token=self._issue_token,
            pace=self._pace,
        )
        self.api = ApiServer(
            self.registry,
            self.kubelet,
            token=config.token,
            status=self.status,
            selftest=self.selftest,
            pace=self._pace,
        )
        self._report: asyncio.Task[SelfTestReport] | None = None

    def _issue_token(self, namespace: str, account: str) -> str:
        return self.api.tokens.issue(namespace, account)

    def defect(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what went wrong in a task or callback: it belongs into the status."""
        loop.default_exception_handler(context)
        self._defects.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def start(self) -> None:
        """Bring everything up; raises EmbeddedError with the step that failed."""
        try:
            self.addresses.prepare()
        except OSError as error:
            raise EmbeddedError("give the cluster its addresses", errno=error.errno) from error
        self._tools = tools.build(
            self._run / "bin", mode="machine" if self._config.options.tools == "machine" else "own"
        )
        if "sh" not in self._tools:
            self._missing.append("no shell that looks programs up in PATH (install dash)")
        self.controllers.start()
        self.kubelet.start()
        try:
            await self.dns.start()
            await self.proxy.start()
        except (OSError, ProxyError) as error:
            number = error.errno if isinstance(error, OSError) else None
            raise EmbeddedError(f"start DNS and Service routing: {error}", errno=number) from error
        tls = self._identity.context(self._run)
        await self.api.serve(socket.socket(fileno=self._config.listener), tls=tls)
        for address, port in ((NODE_ADDRESS, API_PORT), (API_ADDRESS, 443)):
            await self.api.serve(_listen(address, port), tls=tls)
        self.zygote.imported.add_done_callback(self._imported)
        self._report = asyncio.create_task(self._self_test(), name="self-test")

    def _imported(self, done: asyncio.Future[dict[str, str]]) -> None:
        self._not_imported = done.result()
        for name, why in self._not_imported.items():
            _log.warning("the image module %s cannot be imported: %s", name, why)

    async def stop(self) -> None:
        """End the conversations; processes end with the pid namespace."""
        if self._report is not None:
            self._report.cancel()
            await asyncio.gather(self._report, return_exceptions=True)
        self.kubelet.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.api.stop()

    def status(self) -> dict[str, Any]:
        """Answered at ``/sremut/v1/status``."""
        return {
            "name": self._config.name,
            "uptime": round(time.monotonic() - self._began, 3),
            "revision": self.registry.revision,
            "pods": self.kubelet.pods,
            "selftest": "done" if self._report is not None and self._report.done() else "running",
            "failures": [
                *self._defects,
                *(
                    f"{failure.controller} failed at {failure.key!r}: {failure.error!r}"
                    for failure in self.controllers.failures
                ),
            ],
            "facts": self.facts(),
        }

    def facts(self) -> dict[str, Any]:
        """What the cluster is made of here; no secret in it."""
        return {
            "isolation": self._level,
            "missing": list(self._missing),
            "routing": self.proxy.facts(),
            "tools": {name: tool.to_json() for name, tool in sorted(self._tools.items())},
            "tools_rejected": self._rejected,
            "not_imported": self._not_imported,
            "nodes": dict(self.nodes),
            "pace": self._pace.facts(),
            "kernel": os.uname().release,
            "machine": os.uname().machine,
            "python": sys.version.split()[0],
        }

    async def selftest(self) -> dict[str, Any]:
        """Answered at ``/sremut/v1/selftest``, when it has finished."""
        assert self._report is not None
        return (await asyncio.shield(self._report)).to_json()

    async def _self_test(self) -> SelfTestReport:
        if self._config.options.tools == "auto":
            await self._choose_tools()
        report = await selftest.run(
            router=self.proxy, dns=self.dns, addresses=self.addresses, spawn=self._spawn
        )
        for deviation in report.deviations:
            _log.warning("self-test: %s", deviation)
        _log.info("self-test finished, %s", "as recorded" if report.ok else "with deviations")
        return report

    async def _choose_tools(self) -> None:
        """Take the machine's programs where they behave as recorded."""
        async with selftest.Stage(
            router=self.proxy, dns=self.dns, addresses=self.addresses
        ) as stage:
            for name, path in tools.candidates().items():
                deviations = await selftest.check_tool(
                    name, path, stage=stage, spawn=self._spawn, quick=False
                )
                if deviations:
                    self._rejected[name] = deviations
                else:
                    self._tools[name] = tools.install(self._run / "bin", name, machine=True)

    async def _spawn(self, argv: Sequence[str]) -> Observed:
        """Run a command as a pod of the self-test's namespace would."""
        search = f"{selftest.NAMESPACE}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
        files: Mapping[str, str] = {
            "/etc/resolv.conf": f"search {search}\nnameserver {DNS_ADDRESS}\noptions ndots:5\n",
            "/etc/hosts": "127.0.0.1\tlocalhost\n",
            "/etc/nsswitch.conf": NSSWITCH,
        }
        root = RootSpec(run=str(self._run), files=dict(files), hidden=(str(self._directory),))
        request = {
            "kind": "commands",
            "argv": list(argv),
            "env": {"PATH": "/.sremut/bin", "HOME": "/root", "LC_ALL": "C"},
            "cwd": "/",
            "hostname": "selftest",
            "root": root.to_json(),
        }
        return await execs.capture(self.zygote, request)


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise EmbeddedError(f"listen on {address}:{port}", errno=error.errno) from error
    return listener
