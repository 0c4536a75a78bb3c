"""Commands in pods over a WebSocket."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_script import HANG, RESET, HttpScript, Request, http, status
from hypothesis import given
from hypothesis import strategies as st
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import KubeClient, load
from pytest_sremut.cluster.pod_exec import exit_code_of
from pytest_sremut.cluster.port import ExecResult, Failed

SUCCESS = b'{"metadata":{},"status":"Success"}'


def exited(code: int) -> bytes:
    return json.dumps(
        {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()


def frame(data: bytes, *, opcode: int = 2) -> bytes:
    if len(data) < 126:
        return bytes([0x80 | opcode, len(data)]) + data
    if len(data) < 65536:
        return bytes([0x80 | opcode, 126]) + len(data).to_bytes(2, "big") + data
    return bytes([0x80 | opcode, 127]) + len(data).to_bytes(8, "big") + data


def close_frame() -> bytes:
    return frame((1000).to_bytes(2, "big"), opcode=8)


def speaks(*frames: bytes, hang: bool = False) -> Callable[[Request, socket.socket], None]:
    """A server that shakes hands, sends frames, and hangs up (or does not)."""

    def serve(request: Request, connection: socket.socket) -> None:
        key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        connection.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
        )
        connection.sendall(b"".join(frames))
        if hang:
            while connection.recv(1024):
                continue
        connection.close()

    return serve


def test_streams_stay_apart_and_the_code_comes_from_the_error_channel(
    client: KubeClient, server: HttpScript
) -> None:
    server.reply(
        speaks(
            frame(b"\x01"),  # real servers open each channel with an empty frame
            frame(b"\x02"),
            frame(b"\x01out "),
            frame(b"ping", opcode=9),
            frame(b"\x02err \xff"),
            frame(b"\x01more"),
            frame(b"\xff\x01"),  # v5: channel 1 is closed
            frame(b"\x09nobody knows this channel"),
            frame(b"\x03" + exited(3)),
            close_frame(),
            hang=True,  # until we hang up
        )
    )
    result = client.exec("ns", "p", ["sh", "-c", "a b; c"], timeout=5)
    assert isinstance(result, ExecResult)
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out more", "err \ufffd")
    assert not result.timed_out
    assert result.argv == ("sh", "-c", "a b; c")
    assert result.elapsed > 0
    request = server.requests[0]
    assert request.path == (
        "/api/v1/namespaces/ns/pods/p/exec?command=sh&command=-c&command=a+b%3B+c"
        "&stdin=false&stdout=true&stderr=true&tty=false"
    )
    assert request.headers["authorization"] == "Bearer t0k3n"
    assert request.headers["sec-websocket-protocol"] == "v5.channel.k8s.io,v4.channel.k8s.io"


def test_success_and_a_connection_that_just_ends(client: KubeClient, server: HttpScript) -> None:
    server.reply(speaks(frame(b"\x03" + SUCCESS)))
    result = client.exec("ns", "p", ["true"], timeout=5)
    assert isinstance(result, ExecResult)
    assert result.exit_code == 0


def test_an_end_without_an_exit_status_is_a_failure(client: KubeClient, server: HttpScript) -> None:
    server.reply(speaks(frame(b"\x01half an outp")))
    result = client.exec("ns", "p", ["true"], timeout=5)
    assert isinstance(result, Failed)
    assert result.reason == "Truncated"


def test_a_command_that_could_not_be_started(client: KubeClient, server: HttpScript) -> None:
    refusal = {"status": "Failure", "reason": "InternalError", "message": "no such file"}
    server.reply(speaks(frame(b"\x03" + json.dumps(refusal).encode()), close_frame()))
    result = client.exec("ns", "p", ["nope"], timeout=5)
    assert isinstance(result, Failed)
    assert result.reason == "NotRun"
    assert "no such file" in result.message


def test_a_command_that_hangs_is_ended_at_its_limit(client: KubeClient, server: HttpScript) -> None:
    server.reply(speaks(frame(b"\x01so far"), hang=True))
    result = client.exec("ns", "p", ["sleep", "60"], timeout=0.3)
    assert isinstance(result, ExecResult)
    assert result.timed_out
    assert (result.exit_code, result.stdout) == (-1, "so far")


def test_output_without_end_is_bounded(client: KubeClient, server: HttpScript) -> None:
    block = frame(b"\x01" + b"x" * 60_000)
    server.reply(speaks(*[block] * 40, frame(b"\x03" + SUCCESS), close_frame()))
    result = client.exec("ns", "p", ["yes"], timeout=10)
    assert isinstance(result, ExecResult)
    assert len(result.stdout) == 1 << 20


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (status(404, "NotFound", 'pods "p" not found', name="p", kind="pods"), 404, "NotFound"),
        (status(403, "Forbidden"), 403, "Forbidden"),
        (http(400, b"not an upgrade", content_type="text/plain"), 400, ""),
        (http(502, b"<html>", content_type="text/html"), 502, ""),
        (HANG, 0, "Timeout"),
        (RESET, 0, "Unreachable"),
        (b"garbage\r\n\r\n", 0, "Unreachable"),
    ],
)
def test_a_handshake_that_fails(
    client: KubeClient, server: HttpScript, answer: bytes, code: int, reason: str
) -> None:
    server.reply(answer)
    result = client.exec("ns", "p", ["true"], timeout=0.4)
    assert isinstance(result, Failed)
    assert (result.status, result.reason) == (code, reason)
    assert "t0k3n" not in repr(result)


def test_nobody_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    client = load(write_kubeconfig(tmp_path, address), "test")
    result = client.exec("ns", "p", ["true"], timeout=1)
    assert isinstance(result, Failed)
    assert result.reason == "Refused"


def test_frames_that_break_the_protocol(client: KubeClient, server: HttpScript) -> None:
    server.reply(speaks(b"\xf2\x7f\x00\x01\x02\x03"))
    result = client.exec("ns", "p", ["true"], timeout=1)
    assert isinstance(result, Failed)


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"[]", b"1", b'{"details": []}', b'{"details": {"causes": {}}}',
     b'{"details": {"causes": [1, {"reason": "ExitCode", "message": 3}]}}',
     b'{"details": {"causes": [{"reason": "ExitCode", "message": "-1"}]}}'],
)  # fmt: skip
def test_an_exit_status_that_is_none(body: bytes) -> None:
    assert isinstance(exit_code_of(body), str)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0123456789details', max_size=60))
def test_any_error_channel_is_read(data: Any) -> None:
    exit_code_of(data if isinstance(data, bytes) else data.encode())
