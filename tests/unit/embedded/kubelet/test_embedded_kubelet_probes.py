"""Probes against real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.probes.probe import Kind, Probe, Result, Target, attempt, watch


def target(
    run: Callable[[list[str], float], Awaitable[tuple[int, str]]] | None = None, **ports: int
) -> Target:
    async def no_commands(argv: list[str], timeout: float) -> tuple[int, str]:
        raise AssertionError(f"{argv} is not expected")

    return Target(address="127.0.0.1", ports=ports, run=run or no_commands)


def try_once(action: dict[str, Any], where: Target | None = None, timeout: float = 1) -> Result:
    probe = Probe.of("Readiness", action | {"timeoutSeconds": timeout})
    return asyncio.run(attempt(probe, where or target()))


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def with_server(answer: bytes, action: Callable[[int], dict[str, Any]], timeout: float = 1) -> Any:
    """A probe's result against a server that answers so, and what the server was asked."""

    async def scenario() -> tuple[Result, bytes]:
        asked = bytearray()
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if answer:
                asked.extend(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
            else:
                asked.extend(await reader.read())
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            done.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            probe = Probe.of("Readiness", action(port) | {"timeoutSeconds": timeout})
            result = await attempt(probe, target(web=port))
            await done.wait()
            return result, bytes(asked)

    return asyncio.run(scenario())


def test_defaults_are_those_of_kubernetes() -> None:
    probe = Probe.of("Liveness", {})
    assert (probe.initial_delay, probe.period, probe.timeout) == (0, 10, 1)
    assert (probe.successes, probe.failures) == (1, 3)


def test_tcp_by_name_and_by_number() -> None:
    result, _ = with_server(b"", lambda port: {"tcpSocket": {"port": port}})
    assert result.success
    result, _ = with_server(b"", lambda _: {"tcpSocket": {"port": "web"}})
    assert result.success
    assert try_once({"tcpSocket": {"port": "none"}}).output == "couldn't find port: none"


def test_a_refused_connection_in_the_recorded_words() -> None:
    port = closed_port()
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert try_once({"tcpSocket": {"port": port}}) == Result(success=False, output=refused)
    http = try_once({"httpGet": {"path": "/", "port": port}})
    assert http.output == f'Get "http://127.0.0.1:{port}/": {refused}'


@pytest.mark.parametrize(("status", "success"), [(200, True), (302, True), (399, True)])
def test_http_success(status: int, success: bool) -> None:
    answer = f"HTTP/1.1 {status} Fine\r\n\r\n".encode()
    headers = [{"name": "X-Mark", "value": "1"}]
    result, asked = with_server(
        answer,
        lambda port: {"httpGet": {"path": "ready?x=1", "port": port, "httpHeaders": headers}},
    )
    assert result.success is success
    assert asked.startswith(b"GET /ready?x=1 HTTP/1.1\r\n")
    assert b"\r\nX-Mark: 1\r\n" in asked
    assert b"\r\nUser-Agent: kube-probe/" in asked


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (b"HTTP/1.1 503 No\r\n\r\n", "HTTP probe failed with statuscode: 503"),
        (b"HTTP/1.1 404 No\r\n\r\n", "HTTP probe failed with statuscode: 404"),
        (b"nonsense\r\n", 'malformed HTTP response "nonsense"'),
        (b"\x00\xff no line end", "EOF"),
        (b"x" * 20000 + b"\n", "Separator is found, but chunk is longer than limit"),
    ],
)
def test_http_failures(answer: bytes, output: str) -> None:
    result, _ = with_server(answer, lambda port: {"httpGet": {"port": port}})
    assert not result.success
    assert result.output.endswith(output)


def test_silence_is_a_timeout() -> None:
    result, _ = with_server(b"", lambda port: {"httpGet": {"port": port}}, timeout=0.05)
    assert result.output.endswith(
        "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )


def test_commands() -> None:
    async def run(argv: list[str], timeout: float) -> tuple[int, str]:
        if argv == ["slow"]:
            raise TimeoutError
        return (0, "") if argv == ["true"] else (1, "no such luck\n")

    where = target(run)
    assert try_once({"exec": {"command": ["true"]}}, where).success
    failed = try_once({"exec": {"command": ["false"]}}, where)
    assert failed == Result(success=False, output="no such luck\n")
    slow = try_once({"exec": {"command": ["slow"]}}, where)
    assert slow.output == 'command timed out: "slow" timed out after 1s'


class Script:
    """Watches a probe whose tries end as told, to the last of them."""

    def __init__(self, kind: Kind, results: str, **settings: Any) -> None:
        self.results = list(results)
        self.said: list[str] = []
        self.times: list[float] = []
        self._probe = Probe.of(kind, {"exec": {"command": ["x"]}} | settings)

    async def _run(self, argv: list[str], timeout: float) -> tuple[int, str]:
        self.times.append(asyncio.get_running_loop().time())
        if not self.results:
            raise asyncio.CancelledError
        return (0, "") if self.results.pop(0) == "+" else (1, "why")

    def _succeeded(self) -> None:
        self.said.append("success")
        if not self.results:
            raise asyncio.CancelledError

    def play(self) -> list[str]:
        async def scenario() -> None:
            await watch(
                self._probe,
                target(self._run),
                on_success=self._succeeded,
                on_failure=lambda output: self.said.append(f"failure {output}"),
                on_try_failed=lambda output: self.said.append("try"),
            )

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(scenario())
        return self.said


def test_readiness_is_seen_at_once_and_early_failures_do_not_count() -> None:
    script = Script("Readiness", "---+", periodSeconds=1_000_000)
    assert script.play() == ["success"]


def test_failures_count_at_the_period() -> None:
    script = Script("Readiness", "+--+", periodSeconds=0.01, failureThreshold=2)
    assert script.play() == ["success", "try", "try", "failure why", "success"]


def test_liveness_counts_from_the_first_try() -> None:
    script = Script("Liveness", "--", periodSeconds=0.01, failureThreshold=2)
    assert script.play() == ["try", "try", "failure why"]


def test_success_may_need_several_in_a_row() -> None:
    script = Script("Readiness", "+-++", periodSeconds=0.01, successThreshold=2)
    assert script.play() == ["try", "success"]


def test_a_delay_comes_before_the_first_try() -> None:
    script = Script("Startup", "+", initialDelaySeconds=0.05, periodSeconds=0.01)
    began = asyncio.new_event_loop()
    before = began.time()
    began.close()
    assert script.play() == ["success"]
    assert script.times[0] - before >= 0.05
