"""A command in a pod, over the WebSocket protocol that the API server speaks.

`kubernetes.stream` swaps methods of a shared client for the time of a call and has no time limit
on the handshake, so the socket is opened here, with the TLS settings of the same Configuration.

Rules: standard output and error stay apart; the exit code comes from the error channel and from
nowhere else (a connection that ends without it is a failure, not an exit); the time limit covers
everything, and what we end because of it is marked as timed out.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from pytest_sremut.cluster.port import ExecResult, Failed, ObjectRef
from pytest_sremut.cluster.resources import object_path
from pytest_sremut.cluster.transport import Transport

__all__ = ["exit_code_of", "run_in_pod"]

_STDOUT: Final = 1
_STDERR: Final = 2
_ERROR: Final = 3
_CLOSE: Final = 255
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_KEPT: Final = 1 << 20  # bytes of each stream


def run_in_pod(
    transport: Transport, namespace: str, pod: str, argv: Sequence[str], *, timeout: float
) -> ExecResult | Failed:
    """Run `argv` in the pod's default container and wait for its end, at most `timeout` seconds."""
    import websocket

    what = f"exec in Pod {namespace}/{pod}"
    started = time.monotonic()
    socket: Any = websocket.WebSocket(sslopt=_tls(transport.configuration))
    try:
        socket.connect(
            _url(transport.server, namespace, pod, argv),
            header=[f"{key}: {value}" for key, value in transport.authorization().items()],
            subprotocols=list(_PROTOCOLS),
            timeout=timeout,
        )
    except websocket.WebSocketBadStatusException as error:
        return _refused(what, error)
    except (websocket.WebSocketTimeoutException, TimeoutError) as error:
        return Failed(what=what, status=0, reason="Timeout", message=f"handshake: {error}")
    except (websocket.WebSocketException, OSError, ValueError) as error:
        reason = "Refused" if isinstance(error, ConnectionRefusedError) else "Unreachable"
        return Failed(what=what, status=0, reason=reason, message=f"handshake: {error}")
    try:
        streams, ended = _collect(socket, started + timeout)
    except (websocket.WebSocketException, OSError) as error:
        return Failed(what=what, status=0, reason="Reset", message=str(error))
    finally:
        # Not `close()`: that waits for the peer's goodbye, which a hung one never says.
        socket.shutdown()
    exit_code = exit_code_of(bytes(streams[_ERROR])) if ended else -1
    if isinstance(exit_code, str):
        reason = "NotRun" if streams[_ERROR] else "Truncated"
        return Failed(what=what, status=0, reason=reason, message=exit_code)
    return ExecResult(
        argv=tuple(argv),
        exit_code=exit_code,
        stdout=streams[_STDOUT].decode("utf-8", "replace"),
        stderr=streams[_STDERR].decode("utf-8", "replace"),
        elapsed=time.monotonic() - started,
        timed_out=not ended,
    )


def exit_code_of(error_channel: bytes) -> int | str:
    """The exit code that the error channel's Status tells, or a sentence why it tells none."""
    try:
        status = json.loads(error_channel)
    except (ValueError, RecursionError):
        return f"the connection ended without an exit status ({error_channel[:80]!r})"
    if not isinstance(status, dict):
        return f"the exit status is no Status: {error_channel[:80]!r}"
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            text = cause.get("message")
            if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 10:
                return int(text)
    return str(status.get("message") or "the command was not run")


def _collect(socket: Any, deadline: float) -> tuple[dict[int, bytearray], bool]:
    """Read frames until the peer closes (True) or the deadline passes (False)."""
    import websocket

    streams = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return streams, False
        socket.settimeout(remaining)
        try:
            opcode, frame = socket.recv_data_frame(control_frame=True)
        except (websocket.WebSocketTimeoutException, TimeoutError):
            return streams, False
        except (websocket.WebSocketException, OSError) as error:
            # The peer may hang up right after the exit status, without waiting for our goodbye.
            if streams[_ERROR] or isinstance(error, websocket.WebSocketConnectionClosedException):
                return streams, True
            raise
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return streams, True
        data = frame.data
        if opcode not in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) or not data:
            continue
        stream = streams.get(data[0])
        if data[0] != _CLOSE and stream is not None:
            stream += data[1 : 1 + max(0, _KEPT - len(stream))]


def _refused(what: str, error: Any) -> Failed:
    body = error.resp_body or b""
    if error.status_code is None:  # no status line that could be read
        return Failed(what=what, status=0, reason="Malformed", message="handshake: not HTTP")
    reason, message = "", f"HTTP {error.status_code}"
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        reason, message = str(status.get("reason") or ""), str(status.get("message") or message)
    return Failed(what=what, status=int(error.status_code), reason=reason, message=message)


def _url(server: str, namespace: str, pod: str, argv: Sequence[str]) -> str:
    scheme, rest = server.split("://", 1)
    query = [("command", argument) for argument in argv]
    query += [("stdin", "false"), ("stdout", "true"), ("stderr", "true"), ("tty", "false")]
    path = object_path(ObjectRef(kind="Pod", namespace=namespace, name=pod))
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}{path}/exec?{urlencode(query)}"


def _tls(configuration: Any) -> dict[str, Any]:
    if not configuration.verify_ssl:
        options: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    else:
        options = {"cert_reqs": ssl.CERT_REQUIRED}
        if configuration.ssl_ca_cert:
            options["ca_certs"] = configuration.ssl_ca_cert
        if configuration.assert_hostname is not None:
            options["check_hostname"] = configuration.assert_hostname
    for option, value in (
        ("certfile", configuration.cert_file),
        ("keyfile", configuration.key_file),
        ("server_hostname", getattr(configuration, "tls_server_name", None)),
    ):
        if value:
            options[option] = value
    return options
