"""The API over HTTP: aiohttp around `Api`.

Rules kept here:

* aiohttp is imported only when a server is made;
* a request is answered in one step of the loop, unless it is a watch, a log, a command or a
  forwarded port, which go on until they end, the client goes or the server stops;
* a client that does not read its watch is cut off rather than kept in memory; it resumes by its
  last ``resourceVersion``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pytest_sremut.embedded.apiserver.answers import (
    Answer,
    ExecCall,
    ForwardCall,
    LogCall,
    Response,
    WatchCall,
)
from pytest_sremut.embedded.apiserver.api import Api
from pytest_sremut.embedded.apiserver.authorization import Tokens
from pytest_sremut.embedded.apiserver.decode import MAX_BODY
from pytest_sremut.embedded.apiserver.negotiation import write
from pytest_sremut.embedded.apiserver.podport import PodRuntime
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.errors import (
    ApiStatus,
    bad_request,
    internal,
    not_implemented,
    throttled,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.pace import Bucket, Pace
from pytest_sremut.embedded.registry.registry import Registry

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

__all__ = ["ApiServer"]

MAX_WAITING_FRAMES = 20_000
BOOKMARK_SECONDS = 60.0
# How long a log that has nothing to say yet holds back the headers of its answer.
FIRST_LOG_SECONDS = 0.05
_log = logging.getLogger("sremut.embedded.api")


class ApiServer:
    """Serves a registry on sockets that others have made.

    Args:
        registry: the objects.
        runtime: the kubelet, for logs, commands and ports; without it these answer 501.
        token: bearer token of the admin; empty lets everybody in.
        status: answers ``GET /sremut/v1/status``.
        selftest: answers ``GET /sremut/v1/selftest``, when it has finished.
        pace: how slowly it answers, and how many requests of one user it takes.
    """

    def __init__(
        self,
        registry: Registry,
        runtime: PodRuntime | None = None,
        *,
        token: str = "",
        status: Callable[[], JsonObject] | None = None,
        selftest: Callable[[], Awaitable[JsonObject]] | None = None,
        pace: Pace | None = None,
    ) -> None:
        documents = {} if status is None else {"status": status}
        self.tokens = Tokens(token)
        self.api = Api(registry, tokens=self.tokens, status=documents)
        self._runtime = runtime
        self._selftest = selftest
        self._runner: Any = None
        self._pace = pace or Pace()
        self._draws = self._pace.draws("api")
        self._buckets: dict[str, Bucket] = {}

    async def serve(self, sock: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Begin to answer on `sock`, bound or listening; may be called for several sockets."""
        from aiohttp import web

        if self._runner is None:
            server = web.Server(
                self._handle, handler_cancellation=True, access_log=None, logger=_log
            )
            self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
            await self._runner.setup()
        await web.SockSite(self._runner, sock, backlog=1024, ssl_context=tls).start()

    async def stop(self) -> None:
        """End every conversation and close the sockets."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            request = await _read(http)
            if self._pace.slows and not request.path.startswith("/sremut/"):
                await self._hold(request)
            answer = await self._answer(request)
            return await self._send(http, answer)
        except ApiStatus as status:
            return _complete(
                Response(status=status.code, body=status.body(), headers=status.headers)
            )
        except ConnectionError:
            raise
        except Exception as error:
            # A bug of ours: say so, with its cause in the log, and go on serving the others.
            _log.exception("%s %s failed", http.method, http.raw_path)
            return _complete(Response(status=500, body=internal(repr(error)).body()))

    async def _hold(self, request: Request) -> None:
        """Let the request wait as long as it would elsewhere; a throttled one raises ApiStatus."""
        if self._pace.limit:
            now = asyncio.get_running_loop().time()
            user = self.tokens.user(request.headers).name
            bucket = self._buckets.setdefault(user, Bucket(self._pace.limit, now))
            if not bucket.take(now):
                raise throttled()
        await asyncio.sleep(self._pace.delay + self._draws.uniform(0.0, self._pace.jitter))

    async def _answer(self, request: Request) -> Answer:
        if request.path.rstrip("/") == "/sremut/v1/selftest" and self._selftest is not None:
            user = self.tokens.user(request.headers)
            if user.is_admin:
                return Response(body=await self._selftest())
        return self.api.handle(request)

    async def _send(self, http: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        match answer:
            case Response():
                return _complete(answer)
            case WatchCall():
                return await _stream_watch(http, answer)
            case LogCall():
                return await self._stream_log(http, answer)
            case ExecCall():
                from pytest_sremut.embedded.apiserver.websocket import serve_exec

                return await serve_exec(http, answer, self._needed())
            case ForwardCall():
                from pytest_sremut.embedded.apiserver.websocket import serve_forward

                return await serve_forward(http, answer, self._needed())

    def _needed(self) -> PodRuntime:
        if self._runtime is None:
            raise not_implemented("this API server has no kubelet behind it")
        return self._runtime

    async def _stream_log(self, http: web.BaseRequest, call: LogCall) -> web.StreamResponse:
        chunks = self._needed().logs(
            call.namespace,
            call.pod,
            call.container,
            follow=call.follow,
            previous=call.previous,
            tail_lines=call.tail_lines,
            since_time=call.since_time,
            since_seconds=call.since_seconds,
            timestamps=call.timestamps,
            limit_bytes=call.limit_bytes,
        )
        # What is wrong with the request shows when the first piece is asked for: then it is still
        # time for a Status.
        first: asyncio.Future[bytes | None] = asyncio.ensure_future(_next(chunks))
        try:
            await asyncio.wait({first}, timeout=FIRST_LOG_SECONDS)
            if first.done():
                await first
            response = _stream("text/plain")
            await response.prepare(http)
            chunk = await first
            while chunk is not None:
                await response.write(chunk)
                chunk = await _next(chunks)
        finally:
            first.cancel()
            close = getattr(chunks, "aclose", None)
            if close is not None:
                with suppress(RuntimeError, asyncio.CancelledError):
                    await close()
        await response.write_eof()
        return response


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _read(http: web.BaseRequest) -> Request:
    body = bytearray()
    async for chunk in http.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise ApiStatus(
                413,
                "RequestEntityTooLarge",
                f"Request entity too large: limit is {MAX_BODY}",
            )
    path, _, query = http.raw_path.partition("?")
    try:
        pairs = tuple(parse_qsl(query, keep_blank_values=True, errors="replace"))
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from None
    headers = {name.lower(): value for name, value in http.headers.items()}
    return Request(method=http.method, path=path, query=pairs, headers=headers, body=bytes(body))


def _warnings(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        shown = text.replace("\\", "\\\\").replace('"', '\\"')
        shown = "".join(char if char.isprintable() else " " for char in shown)
        pairs.append(("Warning", f'299 - "{shown}"'))
    return pairs


def _complete(answer: Response) -> web.Response:
    from aiohttp import web
    from multidict import CIMultiDict

    body = answer.body
    data = body if isinstance(body, bytes) else write(body, answer.media)
    headers = CIMultiDict(answer.headers)
    headers["Content-Type"] = answer.media
    headers.extend(_warnings(answer.warnings))
    return web.Response(status=answer.status, body=data, headers=headers)


def _stream(media: str, warnings: tuple[str, ...] = ()) -> web.StreamResponse:
    from aiohttp import web
    from multidict import CIMultiDict

    headers = CIMultiDict({"Content-Type": media})
    headers.extend(_warnings(warnings))
    response = web.StreamResponse(headers=headers)
    response.enable_chunked_encoding()
    return response


async def _stream_watch(http: web.BaseRequest, call: WatchCall) -> web.StreamResponse:
    response = _stream("application/json", call.warnings)
    frames: deque[bytes] = deque()
    arrived = asyncio.Event()

    def send(frame: bytes) -> None:
        frames.append(frame)
        arrived.set()

    # Before the headers: whoever has seen them can rely on being told everything that follows.
    unsubscribe = call.watch.open(send)
    loop = asyncio.get_running_loop()
    end = loop.time() + call.timeout
    next_bookmark = loop.time() + min(BOOKMARK_SECONDS, call.timeout - 1.0)
    if not call.watch.bookmarks or call.timeout <= 2.0:  # a short watch ends without one
        next_bookmark = end + 1.0
    try:
        await response.prepare(http)
        while True:
            if len(frames) > MAX_WAITING_FRAMES:
                break
            if frames:
                data = b"".join(frames)
                frames.clear()
                arrived.clear()
                await response.write(data)
                continue
            now = loop.time()
            if unsubscribe is None or now >= end:
                break
            if now >= next_bookmark:
                send(call.watch.bookmark())
                next_bookmark = now + BOOKMARK_SECONDS
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(end, next_bookmark)):
                    await arrived.wait()
    finally:
        if unsubscribe is not None:
            unsubscribe()
    await response.write_eof()
    return response
