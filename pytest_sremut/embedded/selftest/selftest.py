"""Does this cluster answer as a real one did? Asked of itself, before any verdict is served.

Rules kept here:

* the true path: the programs that pods use, run as pods run them, through the cluster's DNS and
  routing, to a backend on a pod address. Only the registry is left out (`Stage` hands its Services
  to DNS and routing directly), so no user ever sees an object of the self-test;
* what is expected is data (`expectations`), each line naming the recording that it comes from: exit
  code, what stands on which stream, and whether the answer came at once, after one second, or
  at the program's own timeout;
* a deviation is named, never repaired. One of time alone is tried again, since a busy machine can
  be slow; what the repetition shows counts;
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
from pytest_sremut.embedded.linux.processes import Observed
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.proxy import ServiceProxy
from pytest_sremut.embedded.selftest.expectations import EXPECTATIONS, Expectation

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

_TRIES = 3
_SIDE_BY_SIDE = 4
_PATIENCE = 20.0
# What "at once" may take on a busy machine; the recorded second is the next thing to tell apart.
_AT_ONCE = 0.9
_ONE_SECOND = (0.95, 3.0)
_AFTER_TIMEOUT = 2.5


Spawn = Callable[[Sequence[str]], Awaitable[Observed]]
"""Runs an argv as a pod's command (its PATH, resolv.conf, network)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One expectation and what was seen; ``deviations`` is empty exactly if they agree."""

    name: str
    argv: tuple[str, ...]
    source: str
    expected: JsonObject
    observed: JsonObject
    deviations: tuple[str, ...]
    tries: int

    @property
    def ok(self) -> bool:
        """Whether it was as recorded."""
        return not self.deviations


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

    for slow in (False, True):
        # What fails at once need not be waited for.
        if slow and quick:
            break
        part = [item for item in chosen if (item.when != "at once") is slow]
        probes = await _play(part, stage, with_path)
        deviations = [f"{probe.name}: {text}" for probe in probes for text in probe.deviations]
        if deviations:
            return deviations
    return []


async def _play(
    expectations: Sequence[Expectation], stage: Stage, spawn: Spawn
) -> list[ProbeResult]:
    gate = asyncio.Semaphore(_SIDE_BY_SIDE)
    names = stage.names

    async def one(expectation: Expectation) -> ProbeResult:
        if expectation.when != "at once":
            return await _probe(expectation, names, spawn)
        async with gate:
            return await _probe(expectation, names, spawn)

    slow_first = sorted(expectations, key=lambda item: item.when == "at once")
    results = await asyncio.gather(*(one(item) for item in slow_first))
    order = {item.name: place for place, item in enumerate(expectations)}
    return sorted(results, key=lambda result: order[result.name])


async def _probe(expectation: Expectation, names: Mapping[str, str], spawn: Spawn) -> ProbeResult:
    argv = tuple(part.format_map(names) for part in expectation.argv)
    stdout = tuple(line.format_map(names) for line in expectation.stdout)
    stderr = tuple(line.format_map(names) for line in expectation.stderr)
    tries = 0
    while True:
        tries += 1
        try:
            observed = await asyncio.wait_for(spawn(argv), _PATIENCE)
        except (OSError, TimeoutError) as error:
            seen: JsonObject = {"error": str(error) or type(error).__name__}
            deviations = [f"cannot be run: {seen['error']}"]
            break
        seen = asdict(observed)
        deviations = _differences(expectation, observed, stdout, stderr)
        late = _lateness(expectation, observed.elapsed)
        if late and not deviations and tries < _TRIES:
            continue
        deviations += late
        break
    return ProbeResult(
        name=expectation.name,
        argv=argv,
        source=expectation.source,
        expected={
            "exit_code": expectation.exit_code,
            "stdout": list(stdout),
            "stderr": list(stderr),
            "when": expectation.when,
        },
        observed=seen,
        deviations=tuple(deviations),
        tries=tries,
    )


def _differences(
    expectation: Expectation, observed: Observed, stdout: Sequence[str], stderr: Sequence[str]
) -> list[str]:
    found = []
    if observed.exit_code != expectation.exit_code:
        found.append(f"exit code {observed.exit_code} instead of {expectation.exit_code}")
    for stream, wanted, text in (
        ("stdout", stdout, observed.stdout),
        ("stderr", stderr, observed.stderr),
    ):
        lines = [line for line in text.splitlines() if line.strip()]
        if lines != list(wanted):
            found.append(f"{stream} {lines!r} instead of {list(wanted)!r}")
    return found


def _lateness(expectation: Expectation, elapsed: float) -> list[str]:
    match expectation.when:
        case "at once":
            low, high = 0.0, _AT_ONCE
        case "after 1 s":
            low, high = _ONE_SECOND
        case "at its timeout":
            low, high = expectation.timeout - 0.05, expectation.timeout + _AFTER_TIMEOUT
    if low <= elapsed <= high:
        return []
    return [f"took {elapsed:.2f} s instead of {low:.2f} to {high:.2f} s ({expectation.when})"]


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
