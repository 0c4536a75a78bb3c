"""The Service proxy: keeps the kernel's rules for Services equal to the registry.

Rules kept here:

* level-triggered: each change makes the whole table anew from the registry, and the driver is given
  the whole table. Changes during an application are taken together in the next;
* the first change after a quiet time is applied at once, so a change is effective within
  milliseconds;
* a driver's failure is kept and shown in `facts` and `settled`, and tried again; it never passes
  for an applied table;
* addresses that the cluster serves itself (API, DNS) are not routed, whatever Services name them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import Iterable
from typing import Literal, get_args

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.forwarder import Forwarder
from pytest_sremut.embedded.proxy.nft import Nft, NftError
from pytest_sremut.embedded.proxy.table import Driver, RoutingTable, Source, cluster_ips, desired

__all__ = ["Mode", "ProxyError", "ServiceProxy"]

Mode = Literal["auto", "nft", "forwarder"]
NoEndpoints = Literal["reject", "reject-all", "drop"]

SERVICES = "services"
SLICES = "endpointslices.discovery.k8s.io"
_RETRY = 0.2


class ProxyError(Exception):
    """The requested mode does not work here, or a table could not be applied."""


class ServiceProxy:
    """Brings connections to the Services of `registry` to their backends.

    Args:
        registry: where Services and EndpointSlices are.
        addresses: the cluster's addresses in this network namespace, prepared.
        mode: ``nft``, ``forwarder``, or ``auto``: nft where it is found and passes its check.
        no_endpoints: what connections to a Service without endpoints meet: a reject that each
            client hears as often as a real node tells it, one that it always hears, or nothing. The
            self-test's own Services are never limited.
        node: name of this node, for ``internalTrafficPolicy: Local``.
        nft: the executable; looked up on PATH by default.

    Raises:
        ValueError: an unknown `mode` or `no_endpoints`.
    """

    def __init__(
        self,
        registry: Source,
        *,
        addresses: ClusterAddresses,
        mode: Mode = "auto",
        no_endpoints: NoEndpoints = "reject",
        node: str = "node-1",
        nft: str | None = None,
    ) -> None:
        for name, value, allowed in (
            ("mode", mode, get_args(Mode)),
            ("no_endpoints", no_endpoints, get_args(NoEndpoints)),
        ):
            if value not in allowed:
                raise ValueError(f"{name}: {value!r} is not one of {', '.join(allowed)}")
        self._registry = registry
        self._addresses = addresses
        self._mode = mode
        self._no_endpoints = no_endpoints
        self._node = node
        self._nft = nft
        self._hidden: tuple[list[JsonObject], list[JsonObject]] = ([], [])
        self._driver: Driver | None = None
        self._why = ""
        self._failure = ""
        self._changes = 0
        self._applied = 0
        self._changed = asyncio.Event()
        self._progress = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Choose the driver, route what is in the registry, and follow it.

        Raises:
            ProxyError: ``nft`` was asked for and does not work; why.
            OSError: the forwarder's sockets are refused here.
        """
        self._driver = await self._choose()
        self._unsubscribe = self._registry.subscribe(lambda _event: self._touch(), SERVICES, SLICES)
        self._touch()
        self._task = asyncio.create_task(self._follow(self._driver))
        await self.settled()

    async def stop(self) -> None:
        """Stop following and withdraw all routes."""
        if self._task is None or self._driver is None:
            return
        self._unsubscribe()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        await self._driver.stop()

    async def settled(self) -> None:
        """Wait until every change made before this call is effective.

        Raises:
            ProxyError: the table could not be applied.
        """
        wanted = self._changes
        async with self._progress:
            await self._progress.wait_for(lambda: self._applied >= wanted or self._failure)
        if self._applied < wanted:
            raise ProxyError(self._failure)

    def hide(self, services: Iterable[JsonObject], slices: Iterable[JsonObject]) -> None:
        """Route these objects too, which no registry holds; the self-test's. Replaces earlier."""
        self._hidden = (list(services), list(slices))
        self._touch()

    def table(self) -> RoutingTable:
        """The table that the registry asks for now."""
        services, slices = self._hidden
        table = desired(
            [*self._registry.list(SERVICES), *services],
            [*self._registry.list(SLICES), *slices],
            node=self._node,
        )
        own = set(self._addresses.own)
        hidden = {address for item in services for address in cluster_ips(item["spec"])}
        result = {key: route for key, route in table.items() if key.address not in own}
        for key, route in result.items():
            if route.action == "reject" and self._no_endpoints == "drop":
                result[key] = dataclasses.replace(route, action="drop")
            elif route.action == "reject" and self._no_endpoints == "reject":
                limited = key.address not in hidden
                result[key] = dataclasses.replace(route, limited=limited)
        return result

    def facts(self) -> JsonObject:
        """For records: mode, why that one, what deviates, and a failure (empty: none)."""
        chosen = "nft" if isinstance(self._driver, Nft) else "forwarder"
        facts: JsonObject = {
            "mode": chosen if self._driver else "",
            "asked": self._mode,
            "why": self._why,
            "no_endpoints": self._no_endpoints,
            "nft": None,
            "failure": self._failure,
        }
        if self._driver is not None:
            own = self._driver.facts()
            own["failure"] = self._failure or own.get("failure", "")
            facts.update(own)
        return facts

    async def _choose(self) -> Driver:
        if self._mode == "forwarder":
            self._why = "asked for"
            return await self._started(Forwarder(self._addresses))
        path = self._nft or shutil.which("nft", path="/usr/sbin:/sbin") or shutil.which("nft")
        try:
            # The bare name where it is not found: running it then says so.
            driver = await self._started(Nft(path or "nft", self._addresses))
        except NftError as error:
            if self._mode == "nft":
                raise ProxyError(f"routing mode nft: {error}") from error
            self._why = str(error)
            return await self._started(Forwarder(self._addresses))
        self._why = "asked for" if self._mode == "nft" else "found, and its check passed"
        return driver

    @staticmethod
    async def _started(driver: Driver) -> Driver:
        await driver.start()
        return driver

    def _touch(self) -> None:
        self._changes += 1
        self._changed.set()

    async def _follow(self, driver: Driver) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            seen = self._changes
            try:
                await driver.apply(self.table())
            except (NftError, OSError) as error:
                self._failure = str(error)
                asyncio.get_running_loop().call_later(_RETRY, self._changed.set)
            else:
                self._failure = ""
                self._applied = seen
            async with self._progress:
                self._progress.notify_all()
