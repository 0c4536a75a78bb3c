"""Services by DNAT in the kernel, through the ``nft`` command.

Rules kept here:

* one table of ours, replaced in one transaction: there is no moment with half a table;
* no endpoints: ``reject`` with ICMP port unreachable, as kube-proxy does. The kernel sends that
  only for addresses that are local, so the Services' whole network is, and what is not in the
  table is dropped when it comes in (not when it goes out, which the sender would be told). Where it
  is limited as a real node's is, what is over the limit is dropped in the same way;
* connections that are established keep their backend (conntrack), whatever the table says later;
* a kernel or ``nft`` that accepts the rules but does not do what they say is found out by `check`,
  with real connections.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import socket
import subprocess
from collections.abc import Collection, Sequence
from contextlib import closing
from ipaddress import IPv4Network
from pathlib import Path

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.limit import BURST
from pytest_sremut.embedded.proxy.table import Backend, Destination, Route, RoutingTable

__all__ = ["Nft", "NftError", "ruleset"]

TABLE = "sremut"
CHECK_TABLE = "sremut_check"
# TEST-NET-3 (RFC 5737): never a Service's address, and a black hole here.
_CHECK_NETWORK = IPv4Network("203.0.113.0/24")
_CHECK_FORWARD, _CHECK_SPREAD, _CHECK_REJECT, _CHECK_UNKNOWN = (
    str(_CHECK_NETWORK[number]) for number in range(1, 5)
)
_PATIENCE = 5.0


class NftError(Exception):
    """``nft`` is missing, refuses the rules, or they do not work in this kernel."""


def ruleset(
    table: RoutingTable, network: IPv4Network, *, own: Collection[str] = (), name: str = TABLE
) -> str:
    """The input of ``nft -f`` that makes `table` the only one of that name.

    Destinations in `network` that are neither in it nor in `own` are dropped.
    """
    chains: list[str] = []
    jumps: list[str] = []
    rejected: list[str] = []
    limited: list[str] = []
    numbers: dict[tuple[tuple[Backend, ...], bool], int] = {}
    for destination in sorted(table):
        route = table[destination]
        key = f"{destination.address} . {destination.protocol.lower()} . {destination.port}"
        if route.action == "reject":
            (limited if route.limited else rejected).append(key)
        elif route.action == "forward":
            known = len(numbers)
            number = numbers.setdefault((route.backends, route.sticky), known)
            if number == known:
                chains.append(_chain(number, route))
            jumps.append(f"{key} : goto to-{number}")
    kind = "type ipv4_addr . inet_proto . inet_service"
    return "\n".join(
        [
            # Made first, so that deleting it never fails.
            f"add table ip {name}",
            f"delete table ip {name}",
            f"table ip {name} {{",
            f"  map forwarded {{ {kind} : verdict; {_elements(jumps)}}}",
            f"  set rejected {{ {kind}; {_elements(rejected)}}}",
            f"  set limited {{ {kind}; {_elements(limited)}}}",
            "  set told { type ipv4_addr . ipv4_addr; flags dynamic; timeout 10m; size 65535; }",
            *chains,
            "  chain translate {",
            "    type nat hook output priority -100; policy accept;",
            "    ip daddr . meta l4proto . th dport vmap @forwarded",
            "  }",
            "  chain refuse {",
            "    type filter hook output priority 0; policy accept;",
            "    ip daddr . meta l4proto . th dport @rejected reject",
            "    ip daddr . meta l4proto . th dport @limited update @told "
            f"{{ ip saddr . ip daddr limit rate 1/second burst {BURST} packets }} reject",
            "  }",
            "  chain discard {",
            "    type filter hook input priority 0; policy accept;",
            # Without any rule that needs it the kernel ends connection tracking, and with it the
            # translation of established connections, as soon as no Service forwards.
            "    ct state established,related accept",
            *(f"    ip daddr {address} accept" for address in own),
            f"    ip daddr {network} drop",
            "  }",
            "}",
            "",
        ]
    )


def _elements(items: Sequence[str]) -> str:
    return f"elements = {{ {', '.join(items)} }}; " if items else ""


def _chain(number: int, route: Route) -> str:
    targets = [f"{backend.address} . {backend.port}" for backend in route.backends]
    if len(targets) == 1:
        target = targets[0].replace(" . ", ":")
    else:
        choose = "jhash ip saddr" if route.sticky else "numgen random"
        listed = ", ".join(f"{index} : {target}" for index, target in enumerate(targets))
        target = f"{choose} mod {len(targets)} map {{ {listed} }}"
    family = "" if len(targets) == 1 else " ip"
    # Only protocols with ports get here; a port in a translation needs one named.
    return f"  chain to-{number} {{ meta l4proto {{ tcp, udp, sctp }} dnat{family} to {target}; }}"


class Nft:
    """Routes with the ``nft`` at `path`, in the network namespace of this process.

    Args:
        path: the executable.
        addresses: the cluster's addresses in this network namespace, prepared.
    """

    def __init__(self, path: str, addresses: ClusterAddresses) -> None:
        self._path = path
        self._addresses = addresses
        self._applied = ""

    async def start(self) -> None:
        """Begin with an empty table.

        Raises:
            NftError: see `check`.
        """
        self._version, _ = await asyncio.gather(self._run(["--version"]), self.check())
        self._sha256 = hashlib.sha256(Path(self._path).read_bytes()).hexdigest()
        await self.apply({})
        self._addresses.open_network(self._addresses.service_network)

    async def stop(self) -> None:
        """Remove the table."""
        self._addresses.close_network(self._addresses.service_network)
        await self._run(["-f", "-"], f"add table ip {TABLE}\ndelete table ip {TABLE}\n")

    async def apply(self, table: RoutingTable) -> None:
        """Make `table` true.

        Raises:
            NftError: the rules are refused; those from before stay.
        """
        rules = ruleset(table, self._addresses.service_network, own=self._addresses.own)
        if rules != self._applied:
            await self._run(["-f", "-"], rules)
            self._applied = rules

    def facts(self) -> JsonObject:
        """The executable: path, version, SHA-256."""
        return {
            "unrouted": [],
            "other_ports": "dropped",
            "nft": {"path": self._path, "version": self._version, "sha256": self._sha256},
        }

    async def check(self) -> None:
        """Make a table of its own, connect through it, and remove it.

        Raises:
            NftError: a connection did not go where the table says; names which.
        """
        node = self._addresses.node_address
        with closing(_listener(node)) as one, closing(_listener(node)) as two:
            backends = [
                Backend(address=node, port=server.getsockname()[1]) for server in (one, two)
            ]
            table = {
                _at(_CHECK_FORWARD): _forward(backends[:1]),
                _at(_CHECK_SPREAD): _forward(backends),
                _at(_CHECK_REJECT): Route(service="check", action="reject", limited=True),
            }
            await self._run(["-f", "-"], ruleset(table, _CHECK_NETWORK, name=CHECK_TABLE))
            self._addresses.open_network(_CHECK_NETWORK)
            try:
                await _expect(_CHECK_FORWARD, "connected")
                await _expect(_CHECK_SPREAD, "connected")
                # A packet is dropped at once or not at all: by the time that the others are
                # through, a wrong answer to this one would be here.
                with closing(_begin(_CHECK_UNKNOWN)) as unknown:
                    await _expect(_CHECK_REJECT, "refused")
                    if unknown.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        raise NftError(f"{_CHECK_UNKNOWN}:80 is not dropped")
            finally:
                self._addresses.close_network(_CHECK_NETWORK)
                await self._run(["-f", "-"], f"delete table ip {CHECK_TABLE}\n")

    async def _run(self, arguments: Sequence[str], text: str = "") -> str:
        # Files, not pipes: nothing to pump, and the process's end is the only event.
        with (
            os.fdopen(os.memfd_create("nft-in"), "w+b") as source,
            os.fdopen(os.memfd_create("nft-out"), "w+b") as output,
        ):
            source.write(text.encode())
            source.seek(0)
            try:
                process = subprocess.Popen(
                    [self._path, *arguments], stdin=source, stdout=output, stderr=output
                )
            except OSError as error:
                raise NftError(f"{self._path}: {error.strerror}") from error
            await _ended(process)
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        # Where somebody else reaped the process there is no exit status; nft is silent on success.
        if process.returncode or (said and text):
            raise NftError(f"{self._path} {' '.join(arguments)}: {said or process.returncode}")
        return said


async def _ended(process: subprocess.Popen[bytes]) -> None:
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        process.wait()
        return
    try:
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            if not ended.is_set():
                process.kill()
            process.wait()
    finally:
        os.close(descriptor)


def _at(address: str) -> Destination:
    return Destination(address=address, port=80)


def _forward(backends: Sequence[Backend]) -> Route:
    return Route(service="check", action="forward", backends=tuple(sorted(backends)))


def _listener(address: str) -> socket.socket:
    return socket.create_server((address, 0))


def _begin(address: str) -> socket.socket:
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    code = client.connect_ex((address, 80))
    if code not in (0, errno.EINPROGRESS):
        client.close()
        raise NftError(f"{address}:80: {os.strerror(code)}")
    return client


async def _expect(address: str, wanted: str) -> None:
    loop = asyncio.get_running_loop()
    with closing(
        socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    ) as client:
        try:
            await asyncio.wait_for(loop.sock_connect(client, (address, 80)), _PATIENCE)
            seen = "connected"
        except ConnectionRefusedError:
            seen = "refused"
        except TimeoutError:
            seen = "dropped"
        except OSError as error:
            seen = error.strerror or str(error)
    if seen != wanted:
        raise NftError(f"a connection that should be {wanted} was {seen} ({address}:80)")
