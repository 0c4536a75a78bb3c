"""The forwarder's own parts: what a backend is worth, programs of sockets, bytes from side to side.

That it answers as nft does is tested with the proxy.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from embedded_netns import Server, connecting, in_namespace, piece, service
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.linux.bpf import admit_program, attach, backend_index
from pytest_sremut.embedded.linux.listeners import Listeners, read_listeners, read_tables
from pytest_sremut.embedded.linux.netlink import Netlink
from pytest_sremut.embedded.linux.sockdiag import socket_inode
from pytest_sremut.embedded.proxy import forwarder as module
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.blocking import socket_blocks
from pytest_sremut.embedded.proxy.forwarder import Forwarder, outcomes
from pytest_sremut.embedded.proxy.pump import bridge
from pytest_sremut.embedded.proxy.table import Backend, Route, desired

A, B, C = (Backend(address=f"10.244.0.{number}", port=8080) for number in (1, 2, 3))
IP = "10.96.1.1"


def test_outcomes_in_the_order_of_the_backends() -> None:
    listeners = Listeners(
        exact=frozenset({(A.address, 8080), (C.address, 8080)}), wildcard=frozenset()
    )
    route = Route(service="x", action="forward", backends=(A, B, C))
    found = outcomes(route, listeners, lambda address: address != C.address)
    assert found == ("open", "closed", "gone")


def test_wildcard_listeners_count_for_local_addresses() -> None:
    listeners = Listeners(exact=frozenset(), wildcard=frozenset({8080}))
    route = Route(service="x", action="forward", backends=(A, B))
    found = outcomes(route, listeners, lambda address: address == A.address)
    assert found == ("open", "gone")


@given(st.ip_addresses(v=4).map(str), st.integers(1, 65535), st.integers(1, 50), st.booleans())
def test_a_client_always_has_one_backend(address: str, port: int, count: int, sticky: bool) -> None:
    index = backend_index((address, port), count, sticky=sticky)
    assert 0 <= index < count
    if sticky:
        assert index == backend_index((address, port % 100 + 1), count, sticky=True)


@in_namespace
async def test_programs_admit_exactly_the_clients_of_open_backends() -> None:
    Netlink().loopback_up()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        attach(listener, admit_program(3, [0, 2], sticky=False))
        listener.listen()
        for _ in range(12):
            with socket.socket() as client:
                client.bind(("127.0.0.1", 0))
                client.settimeout(0.1)
                own = client.getsockname()
                admitted = backend_index(own, 3, sticky=False) != 1
                try:
                    client.connect(listener.getsockname())
                    assert admitted
                except TimeoutError:
                    assert not admitted


@pytest.mark.parametrize(("address", "admitted"), [("127.0.0.2", True), ("127.0.0.3", False)])
@in_namespace
async def test_sticky_programs_look_at_the_address(address: str, admitted: bool) -> None:
    Netlink().loopback_up()
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        attach(
            listener,
            admit_program(2, [backend_index(("127.0.0.2", 1), 2, sticky=True)], sticky=True),
        )
        listener.listen()
        client.bind((address, 0))
        client.settimeout(0.2)
        try:
            client.connect(listener.getsockname())
            assert admitted
        except TimeoutError:
            assert not admitted


def test_listeners_are_found_both_ways() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as exact,
        socket.create_server(("", 0)) as wildcard,
    ):
        ports = exact.getsockname()[1], wildcard.getsockname()[1]
        for found in (read_listeners(), read_tables()):
            assert found.has("127.0.0.1", ports[0])
            assert not found.has("127.0.0.2", ports[0])
            assert found.has("127.0.0.2", ports[1])
    for found in (read_listeners(), read_tables()):
        assert not found.has("127.0.0.1", ports[0])


def test_tables_with_mapped_addresses(tmp_path: Path) -> None:
    four, six = tmp_path / "tcp", tmp_path / "tcp6"
    four.write_text("  sl  local_address rem_address   st\n")
    rest = "00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1\n"
    six.write_text(
        "  sl  local_address remote_address st\n"
        f"   0: 0000000000000000FFFF00000500F40A:1F90 {rest}"
        f"   1: 00000000000000000000000000000000:0050 {rest}"
        f"   2: 000000000000000000000000{'01000000'}:0051 {rest}"
    )
    found = read_tables((str(four), str(six), str(tmp_path / "absent")))
    assert found.exact == {("10.244.0.5", 0x1F90)}
    assert found.wildcard == {80}
    assert found.costly


def test_no_tables_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no table of sockets"):
        read_tables((str(tmp_path / "tcp"),))


def test_blocking_sockets_are_told_from_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        ends = client.getsockname(), server.getsockname()
        assert socket_inode(*ends) == os.fstat(client.fileno()).st_ino
        assert socket_blocks(*ends)
        client.settimeout(5)
        assert not socket_blocks(*ends)
    assert socket_inode(*ends) in (None, 0)
    assert socket_blocks(*ends)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def bridged(handler: Handler) -> tuple[socket.socket, asyncio.Task[None], asyncio.Server]:
    """A client whose connection is carried to `handler`."""
    backend = await asyncio.start_server(handler, "127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as front:
        client = socket.create_connection(front.getsockname())
        accepted, _ = front.accept()
    accepted.setblocking(False)
    client.setblocking(False)
    target = Backend(address="127.0.0.1", port=backend.sockets[0].getsockname()[1])
    return client, asyncio.create_task(bridge(accepted, target)), backend


def test_half_close_reaches_the_backend_and_the_answer_comes_back() -> None:
    async def scenario() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read()).upper())
            writer.close()

        client, carried, server = await bridged(handler)
        loop = asyncio.get_running_loop()
        with client:
            await loop.sock_sendall(client, b"abc")
            client.shutdown(socket.SHUT_WR)
            assert await loop.sock_recv(client, 10) == b"ABC"
            assert await loop.sock_recv(client, 10) == b""
        await asyncio.wait_for(carried, 10)
        server.close()

    asyncio.run(scenario())


def test_a_backend_that_speaks_first_is_heard() -> None:
    async def scenario() -> None:
        async def handler(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        client, carried, server = await bridged(handler)
        loop = asyncio.get_running_loop()
        with client:
            data = b""
            while chunk := await loop.sock_recv(client, 10):
                data += chunk
            assert data == b"hello"
        await asyncio.wait_for(carried, 10)
        server.close()

    asyncio.run(scenario())


def test_a_client_that_resets_ends_the_backend_s_connection() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x")
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                ended.set()
            writer.close()

        client, carried, server = await bridged(handler)
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b"x"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await asyncio.wait_for(carried, 10)
        await asyncio.wait_for(ended.wait(), 10)
        server.close()

    asyncio.run(scenario())


def test_a_side_that_is_not_read_holds_the_other_back() -> None:
    """Nothing is lost and nothing piles up without bound."""

    async def scenario() -> None:
        release = asyncio.Event()
        received = 0

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal received
            await release.wait()
            while chunk := await reader.read(1 << 16):
                received += len(chunk)
            writer.close()

        client, carried, server = await bridged(handler)
        sent = 0
        chunk = bytes(1 << 16)
        idle = 0
        while idle < 20:  # until the queue is full for good
            try:
                sent += client.send(chunk)
                idle = 0
            except BlockingIOError:
                idle += 1
                await asyncio.sleep(0.005)
            assert sent < 64 << 20, "the forwarder keeps taking what nobody reads"
        release.set()
        client.shutdown(socket.SHUT_WR)
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        assert received == sent
        client.close()
        await asyncio.wait_for(carried, 10)
        server.close()

    asyncio.run(scenario())


def test_a_backend_that_is_not_there_resets_the_client() -> None:
    async def scenario() -> None:
        async def handler(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            raise AssertionError

        backend = await asyncio.start_server(handler, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        backend.close()
        await backend.wait_closed()
        with socket.create_server(("127.0.0.1", 0)) as front:
            client = socket.create_connection(front.getsockname())
            accepted, _ = front.accept()
        accepted.setblocking(False)
        await bridge(accepted, Backend(address="127.0.0.1", port=port))
        with client, pytest.raises(ConnectionResetError):
            client.recv(1)

    asyncio.run(scenario())


def test_cancelling_resets_both() -> None:
    async def scenario() -> None:
        met = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x")
            try:
                await reader.read()
            except ConnectionResetError:
                met.set()
            writer.close()

        client, carried, server = await bridged(handler)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(client, 1) == b"x"
        carried.cancel()
        with pytest.raises(asyncio.CancelledError):
            await carried
        with client, pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 1)
        await asyncio.wait_for(met.wait(), 10)
        server.close()

    asyncio.run(scenario())


def one_service(*addresses: str) -> dict[object, Route]:
    return dict(desired([service("web", IP)], [piece("web", addresses)], node="node-1"))


@in_namespace
async def test_listeners_that_come_later_are_noticed() -> None:
    addresses = ClusterAddresses()
    addresses.prepare()
    addresses.add_pod_address(A.address)
    forwarder = Forwarder(addresses)
    await forwarder.start()
    await forwarder.apply(one_service(A.address))  # type: ignore[arg-type]
    assert (await connecting(IP, 80)).result == "refused"
    with Server(A.address, 8080, "one"):
        while (await connecting(IP, 80)).result != "connected":
            await asyncio.sleep(module.WATCH_PERIOD)
    while (await connecting(IP, 80)).result != "refused":
        await asyncio.sleep(module.WATCH_PERIOD)
    await forwarder.stop()
    addresses.close()


@in_namespace
async def test_a_look_that_misses_a_listener_closes_nothing() -> None:
    addresses = ClusterAddresses()
    addresses.prepare()
    addresses.add_pod_address(A.address)
    looks = 0

    def unsteady() -> Listeners:
        nonlocal looks
        looks += 1
        nothing = Listeners(exact=frozenset(), wildcard=frozenset())
        return nothing if looks % 2 == 0 else read_listeners()

    with Server(A.address, 8080, "one"):
        forwarder = Forwarder(addresses, listeners=unsteady)
        await forwarder.start()
        await forwarder.apply(one_service(A.address))  # type: ignore[arg-type]
        for _ in range(20):
            assert (await connecting(IP, 80)).result == "connected"
            await asyncio.sleep(module.WATCH_PERIOD)
        assert looks > 4
        await forwarder.stop()
    addresses.close()


@in_namespace
async def test_a_port_that_a_process_holds_everywhere_is_told() -> None:
    addresses = ClusterAddresses()
    addresses.prepare()
    addresses.add_pod_address(A.address)
    forwarder = Forwarder(addresses)
    await forwarder.start()
    with Server(A.address, 8080, "one"):
        with Server("0.0.0.0", 80, "greedy"):
            await forwarder.apply(one_service(A.address))  # type: ignore[arg-type]
            assert forwarder.facts()["taken_ports"] == [f"{IP}:80"]
            assert (await connecting(IP, 80, patience=0.2)).result == "timed out"
        while forwarder.facts()["taken_ports"]:
            await asyncio.sleep(module.WATCH_PERIOD)
        assert (await connecting(IP, 80, talk=True)).data.startswith(b"one ")
    await forwarder.stop()
    addresses.close()


@in_namespace
async def test_connections_end_with_the_forwarder() -> None:
    addresses = ClusterAddresses()
    addresses.prepare()
    addresses.add_pod_address(A.address)
    forwarder = Forwarder(addresses)
    await forwarder.start()
    with Server(A.address, 8080, "one"), socket.socket() as client:
        await forwarder.apply(one_service(A.address))  # type: ignore[arg-type]
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (IP, 80))
        await loop.sock_sendall(client, b"x")
        while forwarder.facts()["connections"] == 0:
            await asyncio.sleep(0)
        await forwarder.stop()
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 1)
    addresses.close()


@in_namespace
async def test_without_descriptors_clients_wait_and_the_loop_does_not_spin() -> None:
    import resource

    addresses = ClusterAddresses()
    addresses.prepare()
    addresses.add_pod_address(A.address)
    forwarder = Forwarder(addresses)
    await forwarder.start()
    with Server(A.address, 8080, "one"):
        await forwarder.apply(one_service(A.address))  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            lowest = os.dup(0)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            await loop.sock_connect(client, (IP, 80))
            await asyncio.sleep(0.05)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await loop.sock_sendall(client, b"late")
            client.shutdown(socket.SHUT_WR)
            data = b""
            while chunk := await asyncio.wait_for(loop.sock_recv(client, 100), 10):
                data += chunk
            assert data == b"one 192.0.2.2 late"
    await forwarder.stop()
    addresses.close()
