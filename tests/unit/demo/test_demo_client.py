"""Calls between services: pools, the one replacement, the one connect, and every way to fail."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import needs
import pytest

from pytest_sremut.demo.client import Client, blocking_connect
from pytest_sremut.demo.wire import Reply, format_reply

OK = format_reply(Reply(200, b"{}"), keep_alive=True)
Script = Callable[[int, bytes], bytes | None]
"""(number of the request from 1, the request) -> bytes to answer; None closes instead."""


class Peer:
    """A scripted server that counts connections and requests."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self.requests = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.server: asyncio.Server | None = None
        self.lookups = 0
        self.log: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                answer = self.script(self.requests, request)
                if answer is None:
                    break
                writer.write(answer)
        writer.close()

    def resolver(self, name: str, port: int) -> list[tuple[str, int]]:
        self.lookups += 1
        assert self.server is not None
        return [("127.0.0.1", int(self.server.sockets[0].getsockname()[1]))]

    def client(self, *, call_timeout: float = 20.0) -> Client:
        return Client(
            {"user-service": 9090},
            connect_timeout=10,
            call_timeout=call_timeout,
            resolver=self.resolver,
            log=self.log.append,
        )

    async def hang_up(self) -> None:
        """Closes every connection and lets both sides notice."""
        for writer in self.writers:
            writer.close()
        for writer in self.writers:
            with suppress(ConnectionError):
                await writer.wait_closed()
        self.writers.clear()


def play(script: Script, scene: Callable[[Peer], Awaitable[None]]) -> Peer:
    async def main() -> Peer:
        peer = Peer(script)
        peer.server = await asyncio.start_server(peer._serve, "127.0.0.1", 0)
        await scene(peer)
        peer.server.close()
        await peer.hang_up()
        return peer

    return asyncio.run(main())


def test_connections_are_pooled() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        for _ in range(5):
            assert (await client.call("user-service", "/a")).status == 200
        together = [client.call("user-service", "/b") for _ in range(3)]
        assert [(await future).status for future in together] == [200, 200, 200]
        assert (await client.call("user-service", "/c", b"x")).status == 200
        client.close()

    peer = play(lambda number, request: OK, scene)
    assert (peer.connections, peer.lookups, peer.requests) == (3, 3, 9)
    assert peer.log == []


def test_a_connection_closed_while_idle_is_no_error() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        await client.call("user-service", "/a")
        await peer.hang_up()
        assert (await client.call("user-service", "/a")).status == 200
        client.close()

    peer = play(lambda number, request: OK, scene)
    assert (peer.connections, peer.lookups, peer.requests) == (2, 2, 2)


def test_a_pooled_connection_closed_instead_of_an_answer_is_replaced_once() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        await client.call("user-service", "/a")
        assert (await client.call("user-service", "/a")).status == 200
        client.close()

    peer = play(lambda number, request: None if number == 2 else OK, scene)
    assert (peer.connections, peer.requests) == (2, 3)


def test_the_replacement_is_not_replaced() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        await client.call("user-service", "/a")
        reply = await client.call("user-service", "/a")
        assert reply.status == 502
        assert b"closed before the answer" in reply.body
        client.close()

    peer = play(lambda number, request: OK if number == 1 else None, scene)
    assert (peer.connections, peer.requests) == (2, 3)


def test_half_an_answer_is_a_failure_and_never_asked_for_again() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        await client.call("user-service", "/a")
        call = client.call("user-service", "/a")
        while peer.requests < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        await peer.hang_up()
        assert (await call).status == 502
        client.close()

    peer = play(lambda number, request: OK if number == 1 else OK[:-1], scene)
    assert peer.requests == 2


def test_a_call_that_is_not_answered_ends_and_its_late_answer_belongs_to_nobody() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client(call_timeout=0.05)
        late = await client.call("user-service", "/late")
        assert late.status == 504
        assert b"no answer in" in late.body
        client = peer.client()
        assert (await client.call("user-service", "/a")).body == b"{}"
        client.close()

    peer = play(lambda number, request: b"" if number == 1 else OK, scene)
    assert peer.connections == 2
    assert peer.log[0].startswith("user-service: no answer in")


def test_garbage_is_a_failure() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        assert (await client.call("user-service", "/a")).status == 502
        client.close()

    play(lambda number, request: b"220 smtp ready\r\n\r\n", scene)


def test_an_answer_that_says_close_is_not_pooled() -> None:
    async def scene(peer: Peer) -> None:
        client = peer.client()
        for _ in range(2):
            assert (await client.call("user-service", "/a")).status == 200
        client.close()

    closing = format_reply(Reply(200, b"{}"), keep_alive=False)
    assert play(lambda number, request: closing, scene).connections == 2


def failing(
    resolver: Callable[[str, int], list[tuple[str, int]]], *, connect_timeout: float = 10
) -> tuple[Reply, list[str]]:
    log: list[str] = []

    async def main() -> Reply:
        client = Client(
            {"user-service": 9090},
            connect_timeout=connect_timeout,
            call_timeout=30,
            resolver=resolver,
            log=log.append,
        )
        for _ in range(3):
            reply = await client.call("user-service", "/a")
        client.close()
        return reply

    return asyncio.run(main()), log


def test_a_closed_port_is_refused_with_one_attempt_a_call_and_logged_once() -> None:
    attempts = []
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = closed.getsockname()

        def resolver(name: str, port: int) -> list[tuple[str, int]]:
            attempts.append(name)
            return [address, address]

        reply, log = failing(resolver)
    assert reply == Reply(502, b'{"error":"user-service: connect: Connection refused"}')
    assert attempts == ["user-service"] * 3
    assert log == ["user-service: connect: Connection refused"]


def test_a_name_that_is_not_known() -> None:
    def resolver(name: str, port: int) -> list[tuple[str, int]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    reply, _ = failing(resolver)
    assert reply == Reply(502, b'{"error":"user-service: connect: Name or service not known"}')


def test_a_dropped_connect_ends_with_its_timeout() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        reply, _ = failing(lambda name, port: [full.getsockname()], connect_timeout=0.05)
        for filler in fillers:
            filler.close()
    assert reply == Reply(504, b'{"error":"user-service: connect: Connection timed out"}')


def test_only_named_services_can_be_called() -> None:
    async def main() -> None:
        client = Client({"user-service": 9090}, connect_timeout=1, call_timeout=1)
        with pytest.raises(KeyError):
            client.call("jaeger", "/")

    asyncio.run(main())


def test_the_source_address_is_the_pods() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with blocking_connect(listener.getsockname(), timeout=10, source="127.0.0.9") as sock:
            assert sock.getsockname()[0] == "127.0.0.9"
            assert sock.getblocking() is False


NO_ENDPOINTS = """
import subprocess, sys, time
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
rules = "table ip t { chain c { type filter hook output priority 0; tcp dport 9090 reject; }; }"
subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True)
from pytest_sremut.demo.client import blocking_connect
begun = time.monotonic()
try:
    blocking_connect(("127.0.0.1", 9090), timeout=3)
except ConnectionRefusedError:
    print(time.monotonic() - begun)
"""


@needs.program("unshare", "nft", "ip")
def test_a_service_without_endpoints_costs_a_blocking_connect_one_second() -> None:
    enter = ["unshare", "--user", "--map-root-user", "--net"]
    tried = subprocess.run([*enter, "nft", "list", "tables"], capture_output=True, check=False)
    if tried.returncode:
        needs.lacking("nft", "no network namespace with nftables here")
    found = subprocess.run(
        [*enter, sys.executable, "-c", NO_ENDPOINTS], capture_output=True, text=True, check=True
    )
    assert float(found.stdout) >= 0.9, "a connect that does not block is refused at once"
