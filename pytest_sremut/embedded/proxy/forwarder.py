"""Services by listening on their addresses: for machines without nft.

Rules kept here:

* same answers as DNAT. Which backend a connection gets is decided when its SYN arrives: the
  listening socket's own program admits only clients whose backend listens, so a closed target port
  is refused at once, a dead pod's address times out, and no connect succeeds that DNAT would fail;
* whether a backend listens is read from the kernel's socket tables, never probed;
* connections that are established stay while their backend lives, whatever happens to the Service;
* backends that begin or cease to listen are noticed within `WATCH_PERIOD` (much later where the
  kernel has no socket diagnosis): nothing gives notice. A connection that is accepted inside
  that window is reset;
* TCP only. Other protocols are dropped and listed in `facts`.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Literal

from pytest_sremut.embedded.linux.bpf import (
    admit_all,
    admit_program,
    attach,
    backend_index,
    drop_all,
)
from pytest_sremut.embedded.linux.listeners import Listeners, is_local, read_listeners
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.blocking import socket_blocks
from pytest_sremut.embedded.proxy.pump import bridge
from pytest_sremut.embedded.proxy.responder import Refusal, Responder
from pytest_sremut.embedded.proxy.table import Backend, Destination, Route, RoutingTable

__all__ = ["WATCH_PERIOD", "Forwarder", "Outcome", "outcomes"]

WATCH_PERIOD = 0.02
"""Seconds between two looks at the socket tables, where a look is cheap."""

_COSTLY_WATCH_PERIOD = 0.25

_IP_FREEBIND = 15
_BACKLOG = 1024
_REST = 0.1

Outcome = Literal["open", "closed", "gone"]


def outcomes(
    route: Route, listeners: Listeners, local: Callable[[str], bool]
) -> tuple[Outcome, ...]:
    """What a connect to each backend of `route` would meet now."""

    def of(backend: Backend) -> Outcome:
        if not local(backend.address):
            return "gone"
        return "open" if listeners.has(backend.address, backend.port) else "closed"

    return tuple(of(backend) for backend in route.backends)


class Forwarder:
    """Routes by accepting and connecting, in the running loop.

    Args:
        addresses: the cluster's addresses in this network namespace, prepared.
        listeners: reads which ports are listened on.
    """

    def __init__(
        self,
        addresses: ClusterAddresses,
        *,
        listeners: Callable[[], Listeners] = read_listeners,
    ) -> None:
        self._addresses = addresses
        self._read = listeners
        self._ports: dict[Destination, _Port] = {}
        self._table: RoutingTable = {}
        self._unrouted: list[str] = []
        self._failure = ""
        self._period = WATCH_PERIOD
        self._listeners = Listeners(exact=frozenset(), wildcard=frozenset())
        self._local_as_of = -1
        self._responder = Responder(addresses.service_network, blocks=socket_blocks)
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin with an empty table.

        Raises:
            OSError: packet sockets or routing rules are refused here.
        """
        self._responder.start()
        self._addresses.select_ports()
        self._watch()

    async def stop(self) -> None:
        """Close every listener and connection, withdraw every address."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._responder.stop()
        for port in self._ports.values():
            await port.stop()
        self._ports.clear()

    async def apply(self, table: RoutingTable) -> None:
        """Make `table` true; listeners are read anew."""
        self._table = {
            destination: route
            for destination, route in table.items()
            if destination.protocol == "TCP"
        }
        self._unrouted = sorted(
            f"{route.service} {destination.protocol}"
            for destination, route in table.items()
            if destination.protocol != "TCP"
        )
        for destination in self._table:
            if destination not in self._ports:
                self._ports[destination] = _Port(destination, self._addresses)
        self._listeners, self._local_as_of = self._look()
        self._refresh()

    def facts(self) -> JsonObject:
        """Protocols that are not routed, and what else differs from nft."""
        selective = self._addresses.ports_are_selective
        return {
            "unrouted": self._unrouted,
            "other_ports": "dropped" if selective else "refused",
            "connections": sum(port.connections for port in self._ports.values()),
            "watch_period": self._period,
            "taken_ports": sorted(
                f"{destination.address}:{destination.port}"
                for destination, port in self._ports.items()
                if port.taken
            ),
            "failure": self._failure,
        }

    def _watch(self) -> None:
        try:
            if self._ports:
                self._look_again()
            self._failure = ""
        except OSError as error:
            # The next look may fare better; until then the record says what is wrong.
            self._failure = str(error)
        self._timer = asyncio.get_running_loop().call_later(self._period, self._watch)

    def _look_again(self) -> None:
        seen = self._look()
        waiting = any(port.taken or key not in self._table for key, port in self._ports.items())
        if waiting or seen != (self._listeners, self._local_as_of):
            self._listeners, self._local_as_of = seen
            self._refresh()

    def _look(self) -> tuple[Listeners, int]:
        listeners = self._read()
        if not listeners.covers(self._listeners):
            # The tables are not read in one piece: a socket may slip through while others come
            # and go. None is missed twice.
            listeners = listeners | self._read()
        return listeners, self._addresses.changes

    def _refresh(self) -> None:
        self._period = _COSTLY_WATCH_PERIOD if self._listeners.costly else WATCH_PERIOD
        known: dict[str, bool] = {}

        def local(address: str) -> bool:
            if address not in known:
                known[address] = is_local(address)
            return known[address]

        refusals: dict[Destination, Refusal] = {}
        for destination, port in list(self._ports.items()):
            route = self._table.get(destination)
            found = () if route is None else outcomes(route, self._listeners, local)
            port.set(route, found)
            if route is not None:
                refusal = _refusal(route, found)
                if refusal is not None:
                    refusals[destination] = refusal
            elif not port.connections:
                port.withdraw()
                del self._ports[destination]
        self._responder.refuse(refusals)


def _refusal(route: Route, found: tuple[Outcome, ...]) -> Refusal | None:
    """What the responder must say; None if nothing, or if the kernel says it itself."""
    if route.action == "reject":
        return Refusal(limited=route.limited)
    closed = frozenset(index for index, outcome in enumerate(found) if outcome == "closed")
    if not closed or len(closed) == len(found):
        return None
    return Refusal(backends=len(found), closed=closed, sticky=route.sticky)


class _Port:
    """One Service port: its listener, its program, its connections."""

    def __init__(self, destination: Destination, addresses: ClusterAddresses) -> None:
        self._destination = destination
        self._addresses = addresses
        self._listener: socket.socket | None = None
        self._open = False
        self._route: Route | None = None
        self._found: tuple[Outcome, ...] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # What accepted connections were admitted by: a later route may lack their backend.
        self._admitting: Route | None = None
        self.taken = False
        """Whether a process listens on that port of every address, so nobody else can."""

    @property
    def connections(self) -> int:
        """How many are carried now."""
        return len(self._tasks)

    def set(self, route: Route | None, found: tuple[Outcome, ...]) -> None:
        """Answer new connections as `route` says, with its backends as `found`."""
        if route == self._route and found == self._found and not self.taken:
            return
        self._route, self._found = route, found
        if found and all(outcome == "closed" for outcome in found):
            # No listener on a local port: the kernel refuses, at once and by itself.
            self._unlisten()
        else:
            # Established connections need the port to stay local, so it is listened on even where
            # nobody is admitted; without a listener the kernel would refuse.
            if not self._listen():
                return
            self._admit(route, found)
        if not self._open:
            self._addresses.open_port(self._destination.address, self._destination.port)
            self._open = True

    def withdraw(self) -> None:
        """Make the port a black hole; call it without connections."""
        if self._open:
            self._addresses.close_port(self._destination.address, self._destination.port)
            self._open = False
        self._unlisten()

    async def stop(self) -> None:
        """Reset all connections and withdraw."""
        self._unlisten()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.withdraw()

    def _listen(self) -> bool:
        if self._listener is not None:
            return True
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # The address becomes local only after somebody listens, and never refuses in between.
            listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attach(listener, drop_all())
            listener.bind((self._destination.address, self._destination.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            self.taken = error.errno == errno.EADDRINUSE
            if self.taken:
                return False
            raise
        self.taken = False
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._accept)
        return True

    def _unlisten(self) -> None:
        if self._listener is None:
            return
        # Connections that the kernel has made already are carried, not reset.
        self._accept()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        self._listener = None

    def _admit(self, route: Route | None, found: tuple[Outcome, ...]) -> None:
        assert self._listener is not None
        self._accept()
        admitted = [index for index, outcome in enumerate(found) if outcome == "open"]
        if route is None or not admitted:
            attach(self._listener, drop_all())
            return
        self._admitting = route
        program = admit_program(len(found), admitted, sticky=route.sticky)
        attach(self._listener, program if len(admitted) < len(found) else admit_all())

    def _accept(self) -> None:
        listener = self._listener
        route = self._admitting
        if listener is None or route is None:
            return
        while True:
            try:
                client, peer = listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._rest(listener, error)
                return
            client.setblocking(False)
            index = backend_index(peer, len(route.backends), sticky=route.sticky)
            task = asyncio.get_running_loop().create_task(bridge(client, route.backends[index]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _rest(self, listener: socket.socket, error: OSError) -> None:
        # Out of descriptors or memory: the connection waits in its queue, the loop must not spin.
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            raise error
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)

        def again() -> None:
            if self._listener is listener:
                loop.add_reader(listener, self._accept)

        loop.call_later(_REST, again)
