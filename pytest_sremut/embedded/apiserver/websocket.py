"""Commands and forwarded ports over WebSockets, by the ``channel.k8s.io`` protocols.

Rules kept here:

* every message begins with the number of its channel: 0 input, 1 output, 2 errors, 3 the final
  ``Status``, 4 the size of the terminal; in version 5 a message on 255 ends a channel;
* how the command ended is always sent on channel 3, success included, before the socket closes;
* a client that goes takes its command with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_sremut.embedded.apiserver.answers import ExecCall, ForwardCall
from pytest_sremut.embedded.apiserver.podport import ExecStream, PodRuntime
from pytest_sremut.embedded.apiserver.tunnel import PROTOCOL, serve_tunnel
from pytest_sremut.embedded.meta.errors import ApiStatus, bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["serve_exec", "serve_forward"]

EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
FORWARD_PROTOCOLS = (PROTOCOL, "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
MAX_FRAME = 1024 * 1024
CHUNK = 32 * 1024


async def serve_exec(
    http: web.BaseRequest, call: ExecCall, runtime: PodRuntime
) -> web.StreamResponse:
    """Run a command and speak with it until it ends.

    Raises:
        ApiStatus: the request cannot be carried out at all.
    """
    _check_upgrade(http)
    try:
        if call.argv:
            stream = await runtime.exec(
                call.namespace,
                call.pod,
                call.container,
                list(call.argv),
                stdin=call.stdin,
                tty=call.tty,
            )
        else:
            stream = await runtime.attach(call.namespace, call.pod, call.container)
    except ApiStatus as status:
        if status.code < 500:
            raise
        # What fails in the container is sent on the error channel, as a real kubelet does.
        socket = await _upgrade(http, EXEC_PROTOCOLS)
        await _finish(socket, status.body())
        return socket
    try:
        socket = await _upgrade(http, EXEC_PROTOCOLS)
        await _converse(socket, call, stream)
    finally:
        stream.kill()
    return socket


async def _converse(socket: web.WebSocketResponse, call: ExecCall, stream: ExecStream) -> None:
    listening = asyncio.create_task(_listen(socket, call, stream))
    try:
        while (piece := await stream.read()) is not None:
            name, data = piece
            wanted = call.stdout if name == "stdout" else call.stderr
            if wanted and data:
                channel = STDOUT if name == "stdout" else STDERR
                await socket.send_bytes(bytes((channel,)) + data)
        code = await stream.wait()
        await _finish(socket, _status(code))
    except ConnectionError:
        pass  # the client has gone; the caller ends the command
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _listen(socket: web.WebSocketResponse, call: ExecCall, stream: ExecStream) -> None:
    from aiohttp import WSMsgType

    async for message in socket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            continue
        data = message.data
        payload = data.encode() if isinstance(data, str) else bytes(data)
        if not payload:
            continue
        channel, rest = payload[0], payload[1:]
        if channel == STDIN and call.stdin:
            await stream.write(rest)
        elif channel == RESIZE and call.tty:
            _resize(stream, rest)
        elif channel == CLOSE and rest[:1] == bytes((STDIN,)):
            await stream.close_stdin()
    # The client closed or vanished before the command ended.
    stream.kill()


def _resize(stream: ExecStream, payload: bytes) -> None:
    with suppress(ValueError, TypeError):
        size = json.loads(payload)
        if isinstance(size, dict):
            stream.resize(int(size.get("Width", 0)), int(size.get("Height", 0)))


def _status(code: int) -> JsonObject:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _finish(socket: web.WebSocketResponse, status: JsonObject) -> None:
    with suppress(ConnectionError):
        await socket.send_bytes(bytes((ERROR,)) + encode(status))
        await socket.close()


def _check_upgrade(http: web.BaseRequest) -> None:
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required: commands and ports are served over WebSockets")


async def _upgrade(http: web.BaseRequest, protocols: Sequence[str]) -> web.WebSocketResponse:
    from aiohttp import web

    offered = http.headers.get("Sec-WebSocket-Protocol", "")
    asked = [word.strip() for word in offered.split(",") if word.strip()]
    if asked and not any(word in protocols for word in asked):
        raise bad_request(
            f"unable to upgrade: none of the protocols asked for ({', '.join(asked)}) is served: "
            f"{', '.join(protocols)}"
        )
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=MAX_FRAME, compress=False, timeout=1.0
    )
    await socket.prepare(http)
    return socket


async def serve_forward(
    http: web.BaseRequest, call: ForwardCall, runtime: PodRuntime
) -> web.StreamResponse:
    """Forward ports: channel 2n carries the data of port n, channel 2n+1 its errors.

    Raises:
        ApiStatus: the request cannot be carried out at all.
    """
    _check_upgrade(http)
    tunnelled = PROTOCOL in http.headers.get("Sec-WebSocket-Protocol", "")
    if not call.ports and not tunnelled:
        raise bad_request('query parameter "ports" is required')
    socket = await _upgrade(http, FORWARD_PROTOCOLS)
    if tunnelled:
        with suppress(ConnectionError):
            await serve_tunnel(socket, call, runtime)
        return socket
    forward = _Forward(socket, call, runtime)
    try:
        await forward.run()
    except ConnectionError:
        pass  # the client has gone
    finally:
        forward.close()
    return socket


class _Forward:
    """The connections behind one forwarding socket."""

    def __init__(
        self, socket: web.WebSocketResponse, call: ForwardCall, runtime: PodRuntime
    ) -> None:
        self._socket = socket
        self._call = call
        self._runtime = runtime
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Carry data until the client closes."""
        from aiohttp import WSMsgType

        for index, port in enumerate(self._call.ports):
            mark = port.to_bytes(2, "little")
            for channel in (2 * index, 2 * index + 1):
                await self._socket.send_bytes(bytes((channel,)) + mark)
            await self._connect(2 * index, port)
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            writer = self._writers.get(message.data[0])
            if writer is not None:
                writer.write(message.data[1:])
                with suppress(ConnectionError):
                    await writer.drain()

    def close(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers.values():
            writer.close()

    async def _connect(self, channel: int, port: int) -> None:
        try:
            reader, writer = await self._runtime.forward(self._call.namespace, self._call.pod, port)
        except ApiStatus as status:
            await self._socket.send_bytes(bytes((channel + 1,)) + status.message.encode())
            return
        self._writers[channel] = writer
        task = asyncio.create_task(self._pump(channel, reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(self, channel: int, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                await self._socket.send_bytes(bytes((channel,)) + data)
            if len(self._call.ports) == 1:
                await self._socket.close()
