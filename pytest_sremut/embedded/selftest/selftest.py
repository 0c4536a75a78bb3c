"""Does this cluster answer as a real one did? Asked of itself, before any verdict is served.

Rules kept here:

* the true path: the programs that pods use, run as pods run them, through the cluster's DNS and
  routing, to a backend on a pod address. Only the registry is left out (`Stage` hands its Services
  to DNS and routing directly), so no user ever sees an object of the self-test;
* what is expected is data (`expectations`), each line naming the recording that it comes from: exit
  code, what stands on which stream, and whether the answer came at once, after one second, or
  at the program's own timeout;
* answers are judged by kind and order, never by speed (`judgement`): a slow machine is no other
  machine. A deviation is named, never repaired; what is in doubt is measured again, with patience;
* all probes run side by side, the slow ones first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType

from pytest_sremut.embedded.dns.server import DnsServer
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.proxy import ServiceProxy
from pytest_sremut.embedded.selftest.expectations import EXPECTATIONS, Expectation
from pytest_sremut.embedded.selftest.judgement import (
    Observed,
    ProbeResult,
    Trial,
    deviations,
    to_repeat,
)

__all__ = [
    "Observed",
    "ProbeResult",
    "SelfTestReport",
    "Spawn",
    "Stage",
    "check_tool",
    "run",
]

NAMESPACE = "sremut-selftest"
BODY = "sremut-selftest"

_SIDE_BY_SIDE = 4
# Seconds. A right cluster on an idle machine needs two; what is in doubt is measured again for so
# long, and one program may take longer still.
_PATIENCE = 40.0
_PROGRAM_PATIENCE = 60.0


Spawn = Callable[[Sequence[str]], Awaitable[Observed]]
"""Runs an argv as a pod's command (its PATH, resolv.conf, network)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestReport:
    """All probes. ``elapsed`` in seconds, ``routing`` the router's facts."""

    probes: tuple[ProbeResult, ...]
    elapsed: float
    routing: JsonObject

    @property
    def ok(self) -> bool:
        """Whether this cluster may serve verdicts."""
        return bool(self.probes) and all(probe.ok for probe in self.probes)

    @property
    def deviations(self) -> list[str]:
        """``PROBE: deviation`` for each."""
        return [f"{probe.name}: {text}" for probe in self.probes for text in probe.deviations]

    def to_json(self) -> JsonObject:
        """For the status and for records."""
        return {
            "ok": self.ok,
            "elapsed": round(self.elapsed, 3),
            "routing": self.routing,
            "probes": [{"ok": probe.ok, **asdict(probe)} for probe in self.probes],
        }


class Stage:
    """The Services that the probes ask, while the context lasts; one at a time.

    Args:
        router: started.
        dns: started.
        addresses: the cluster's, prepared.
    """

    def __init__(
        self, *, router: ServiceProxy, dns: DnsServer, addresses: ClusterAddresses
    ) -> None:
        self._router = router
        self._dns = dns
        self._addresses = addresses
        pods = addresses.pod_network
        self._pod, self._gone_pod = str(pods[-5]), str(pods[-4])
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Stage:
        self._addresses.add_pod_address(self._pod)
        self._server = await asyncio.start_server(_serve, self._pod, 0)
        self._port: int = self._server.sockets[0].getsockname()[1]
        # The low addresses of the range are given only to those who ask for them by name.
        used = {destination.address for destination in self._router.table()}
        network = self._addresses.service_network
        free = (str(network[offset]) for offset in range(240, 256))
        self._ips = dict(
            zip(
                ("good", "closed", "empty", "deleted"),
                (address for address in free if address not in used),
                strict=False,
            )
        )
        # Once with all, once without: the deleted one has been there.
        for names in (("good", "closed", "empty", "deleted"), ("good", "closed", "empty")):
            self._show(names)
            await self._router.settled()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._router.hide([], [])
        self._dns.hide([], [])
        if self._server is not None:
            self._server.close()
        self._addresses.remove_pod_address(self._pod)
        if kind is None:
            await self._router.settled()

    @property
    def names(self) -> Mapping[str, str]:
        """What the templates of expectations may name."""
        named = {f"{name}_name": f"{name}.{NAMESPACE}.svc.{self._dns.domain}" for name in self._ips}
        own = {"dns": self._dns.address, "pod": self._pod, "gone_pod": self._gone_pod}
        return {**self._ips, **named, **own, "body": BODY}

    def _show(self, names: Sequence[str]) -> None:
        ports = {"good": self._port, "deleted": self._port, "closed": _closed_beside(self._port)}
        services = [_service(name, self._ips[name]) for name in names]
        slices = [_slice(name, self._pod, ports[name]) for name in names if name in ports]
        self._dns.hide(services, slices, [NAMESPACE])
        self._router.hide(services, slices)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        # Probes that only connect send nothing; those of wget end their request with a blank line.
        while (await reader.readline()).strip():
            pass
        head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(BODY) + 1}\r\n\r\n"
        writer.write(f"{head}{BODY}\n".encode())
        await writer.drain()
    except (ConnectionError, ValueError):
        return
    finally:
        writer.close()


def _closed_beside(port: int) -> int:
    return 65535 if port != 65535 else 65534


def _service(name: str, address: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
    }


def _slice(name: str, address: str, port: int) -> JsonObject:
    labels = {"kubernetes.io/service-name": name}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"port": port}],
    }


async def run(
    *, router: ServiceProxy, dns: DnsServer, addresses: ClusterAddresses, spawn: Spawn
) -> SelfTestReport:
    """Play all expectations and compare."""
    begin = time.monotonic()
    async with Stage(router=router, dns=dns, addresses=addresses) as stage:
        probes = await _play(EXPECTATIONS, stage, spawn)
    return SelfTestReport(
        probes=tuple(probes), elapsed=time.monotonic() - begin, routing=router.facts()
    )


async def check_tool(
    name: str, path: str, *, stage: Stage, spawn: Spawn | None = None, quick: bool = True
) -> list[str]:
    """How the machine's program deviates from the recordings; empty: it may serve pods.

    Args:
        name: ``nslookup``, ``nc`` or ``wget``.
        path: the program, started under that name.
        stage: entered.
        spawn: how pods' commands run; by default in this process's own namespaces, where
            resolv.conf must be the pods'.
        quick: leave out what takes a second by nature; the self-test has it anyway.

    Raises:
        ValueError: no recordings of that name.
    """
    chosen = [item for item in EXPECTATIONS if item.tool == name]
    if not chosen:
        known = sorted({item.tool for item in EXPECTATIONS})
        raise ValueError(f"{name!r} is not one of {', '.join(known)}")
    start = spawn or _spawn_here

    async def with_path(argv: Sequence[str]) -> Observed:
        return await start([path, *argv[1:]])

    trials = [Trial(item, stage.names) for item in chosen]
    for slow in (False,) if quick else (False, True):
        # What fails at once need not be waited for.
        part = [trial for trial in trials if (trial.expectation.when != "at once") is slow]
        await _measure(part, with_path, among=trials if slow else part)
        found = [
            f"{trial.expectation.name}: {text}"
            for trial in part
            for text in deviations(trial, trials if slow else part)
        ]
        if found:
            return found
    return []


async def _play(
    expectations: Sequence[Expectation], stage: Stage, spawn: Spawn
) -> list[ProbeResult]:
    trials = [Trial(item, stage.names) for item in expectations]
    await _measure(trials, spawn, among=trials)
    return [trial.result(deviations(trial, trials)) for trial in trials]


async def _measure(part: Sequence[Trial], spawn: Spawn, *, among: Sequence[Trial]) -> None:
    """Run `part`, then whatever is in doubt `among` all, until nothing is or patience ends."""
    gate = asyncio.Semaphore(_SIDE_BY_SIDE)
    end = time.monotonic() + _PATIENCE

    async def one(trial: Trial) -> None:
        if trial.expectation.when != "at once":
            await _try(trial, spawn)
            return
        async with gate:
            await _try(trial, spawn)

    again = list(part)
    while again:
        slow_first = sorted(again, key=lambda trial: trial.expectation.when == "at once")
        await asyncio.gather(*(one(trial) for trial in slow_first))
        again = to_repeat(among) if time.monotonic() < end else []


async def _try(trial: Trial, spawn: Spawn) -> None:
    try:
        trial.saw(await asyncio.wait_for(spawn(trial.argv), _PROGRAM_PATIENCE))
    except TimeoutError:
        trial.failed(f"no end within {_PROGRAM_PATIENCE:g} s")
    except OSError as error:
        trial.failed(str(error) or type(error).__name__)


async def _spawn_here(argv: Sequence[str]) -> Observed:
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
    )
    try:
        out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Observed(
        exit_code=process.returncode or 0,
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        elapsed=time.monotonic() - begin,
    )
