"""An API server in a thread of its own, with a kubelet that pretends."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, Literal

import api_kit
import kubernetes as k8s

from pytest_sremut.embedded.apiserver.http import ApiServer
from pytest_sremut.embedded.meta import errors
from pytest_sremut.embedded.registry.registry import Registry

V1_LOGS = [b"one\n", b"two\n", b"three\n"]


class FakeExec:
    """A command that echoes its input, says ``out`` and ``err`` and ends with a code."""

    def __init__(self, argv: list[str], *, stdin: bool) -> None:
        self._argv = argv
        self._pieces: asyncio.Queue[tuple[Literal["stdout", "stderr"], bytes] | None]
        self._pieces = asyncio.Queue()
        self.killed = False
        self.sizes: list[tuple[int, int]] = []
        if argv[0] != "wait":
            self._pieces.put_nowait(("stdout", b"out"))
            self._pieces.put_nowait(("stderr", b"err"))
        if not stdin and argv[0] != "wait":
            self._pieces.put_nowait(None)

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        return await self._pieces.get()

    async def write(self, data: bytes) -> None:
        self._pieces.put_nowait(("stdout", data))
        if data.endswith(b"END"):
            self._pieces.put_nowait(None)

    async def close_stdin(self) -> None:
        self._pieces.put_nowait(None)

    async def wait(self) -> int:
        return int(self._argv[1]) if len(self._argv) > 1 else 0

    def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    def kill(self) -> None:
        self.killed = True
        self._pieces.put_nowait(None)


class FakeRuntime:
    """A kubelet of three log lines and echoing commands."""

    def __init__(self) -> None:
        self.execs: list[FakeExec] = []

    async def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> FakeExec:
        if argv[0] == "missing":
            raise errors.internal("error executing command in container: not found")
        if argv[0] == "refused":
            raise errors.bad_request("cannot exec into a container in a completed pod")
        self.execs.append(FakeExec(argv, stdin=stdin))
        return self.execs[-1]

    async def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, tail_lines: int | None,
        follow: bool, **options: Any,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        if previous:
            raise errors.bad_request("previous terminated container not found")
        for line in V1_LOGS if tail_lines is None else V1_LOGS[-tail_lines:]:
            yield line

    async def forward(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port == 81:
            raise errors.internal("connection refused")
        left, right = socket.socketpair()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                writer.write(data.upper())
            writer.close()

        echoing = await asyncio.open_connection(sock=right)
        self._echo = asyncio.create_task(echo(*echoing))
        return await asyncio.open_connection(sock=left)


class Server:
    """An API server in a thread of its own."""

    def __init__(self, token: str = "") -> None:
        self.loop = asyncio.new_event_loop()
        self.runtime = FakeRuntime()
        self.token = token
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        self.registry: Registry
        self.run(self._start, sock)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        async def call() -> Any:
            found = function(*arguments)
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)

    async def _start(self, sock: socket.socket) -> None:
        self.registry = api_kit.make_registry(lambda: datetime.now(UTC))

        async def selftest() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"ok": True}

        self.server = ApiServer(
            self.registry, self.runtime, token=self.token, status=lambda: {"pods": 1},
            selftest=selftest,
        )  # fmt: skip
        await self.server.serve(sock)

    def stop(self) -> None:
        self.run(self.server.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = "") -> k8s.client.ApiClient:
        configuration = k8s.client.Configuration()
        configuration.host = self.url
        configuration.retries = False
        if token:
            configuration.api_key = {"authorization": f"Bearer {token}"}
        return k8s.client.ApiClient(configuration)
