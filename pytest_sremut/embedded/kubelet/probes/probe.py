"""Probes of containers, with the kubelet's words: exec, httpGet, tcpSocket, grpc as a connect.

Rules:
- the first try is made at once (after ``initialDelaySeconds``); until a readiness or startup probe
  has succeeded once it is repeated quickly, and a failure counts (thresholds, events) only at the
  probe's own period: so a pod is seen ready within milliseconds, and fails no sooner than it would
  on a real node;
- a result is reported only when it changes something: success after ``successThreshold`` in a row,
  failure after ``failureThreshold``.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

Kind = Literal["Readiness", "Liveness", "Startup"]

QUICK_FIRST = 0.02
QUICK_GROWTH = 1.5
QUICK_LONGEST = 0.5
_LONGEST_BODY = 10 * 1024

ExecRunner = Callable[[list[str], float], Awaitable[tuple[int, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe's settings, defaults filled in; times in seconds."""

    kind: Kind
    action: JsonObject
    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @classmethod
    def of(cls, kind: Kind, spec: JsonObject) -> Probe:
        return cls(
            kind=kind,
            action=spec,
            initial_delay=spec.get("initialDelaySeconds") or 0,
            period=spec.get("periodSeconds") or 10,
            timeout=spec.get("timeoutSeconds") or 1,
            successes=spec.get("successThreshold") or 1,
            failures=spec.get("failureThreshold") or 3,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One try: whether it succeeded, and why not."""

    success: bool
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a probe is aimed at: the pod's address, the container's ports, a way to run commands."""

    address: str
    ports: dict[str, int]
    run: ExecRunner


async def watch(
    probe: Probe,
    target: Target,
    *,
    on_success: Callable[[], None],
    on_failure: Callable[[str], None],
    on_try_failed: Callable[[str], None],
) -> None:
    """Probe until cancelled.

    on_success, on_failure: the threshold is reached; failure comes with the last output.
    on_try_failed: one counted try failed.
    """
    await asyncio.sleep(probe.initial_delay)
    loop = asyncio.get_running_loop()
    quick = probe.kind != "Liveness"
    pause = QUICK_FIRST
    successes = failures = 0
    next_counted = loop.time() + (probe.period if quick else 0)
    while True:
        began = loop.time()
        result = await attempt(probe, target)
        if result.success:
            quick = False
            failures = 0
            successes += 1
            if successes == probe.successes:
                on_success()
        elif not quick or began >= next_counted:
            successes = 0
            failures += 1
            on_try_failed(result.output)
            if failures == probe.failures:
                on_failure(result.output)
        if began >= next_counted or result.success:
            next_counted = began + probe.period
        if quick:
            wake = min(loop.time() + pause, next_counted)
            pause = min(pause * QUICK_GROWTH, QUICK_LONGEST, probe.period)
        else:
            wake = next_counted
        await asyncio.sleep(max(0.0, wake - loop.time()))


async def attempt(probe: Probe, target: Target) -> Result:
    """One try."""
    action = probe.action
    if action.get("exec") is not None:
        return await _exec(action["exec"], probe.timeout, target)
    if action.get("httpGet") is not None:
        return await _http(action["httpGet"], probe.timeout, target)
    chosen = action.get("tcpSocket") or action.get("grpc") or {}
    host = chosen.get("host") or target.address
    port = _port(chosen.get("port"), target)
    if port is None:
        return Result(success=False, output=f"couldn't find port: {chosen.get('port')}")
    connection, why = await _connect(host, port, probe.timeout)
    if connection is None:
        return Result(success=False, output=why)
    await _hang_up(connection[1])
    return Result(success=True)


async def _exec(action: JsonObject, timeout: float, target: Target) -> Result:
    command = [str(word) for word in action.get("command") or []]
    try:
        code, output = await target.run(command, timeout)
    except TimeoutError:
        shown = " ".join(command)
        return Result(
            success=False, output=f'command timed out: "{shown}" timed out after {timeout:g}s'
        )
    return Result(success=code == 0, output=output)


async def _http(action: JsonObject, timeout: float, target: Target) -> Result:
    scheme = action.get("scheme", "HTTP").lower()
    host = action.get("host") or target.address
    port = _port(action.get("port"), target)
    if port is None:
        return Result(success=False, output=f"couldn't find port: {action.get('port')}")
    path = action.get("path") or "/"
    if not path.startswith("/"):
        path = "/" + path
    url = f"{scheme}://{host}:{port}{path}"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    connection, why = await _connect(host, port, timeout, tls=scheme == "https")
    if connection is None:
        if why.endswith("i/o timeout"):
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Result(success=False, output=f"Get {json.dumps(url)}: {why}")
    reader, writer = connection
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*"}
        for header in action.get("httpHeaders") or []:
            headers[header["name"]] = header.get("value", "")
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        writer.write(("\r\n".join([*lines, "Connection: close", "", ""])).encode())
        async with asyncio.timeout_at(deadline):
            status = await _status(reader)
    except TimeoutError:
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Result(success=False, output=f"Get {json.dumps(url)}: {why}")
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        why = "EOF" if isinstance(error, asyncio.IncompleteReadError) else str(error)
        return Result(success=False, output=f"Get {json.dumps(url)}: {why}")
    finally:
        await _hang_up(writer)
    if 200 <= status < 400:
        return Result(success=True)
    return Result(success=False, output=f"HTTP probe failed with statuscode: {status}")


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _status(reader: asyncio.StreamReader) -> int:
    first = await reader.readuntil(b"\n")
    words = first.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError(f"malformed HTTP response {json.dumps(first.decode('latin-1').strip())}")
    return int(words[1])


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(
    host: str, port: int, timeout: float, *, tls: bool = False
) -> tuple[Streams | None, str]:
    """A connection, or why there is none in the words of Go's net package."""
    context = None
    if tls:
        import ssl

        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.open_connection(host, port, ssl=context, limit=_LONGEST_BODY), ""
    except TimeoutError:
        return None, f"dial tcp {host}:{port}: i/o timeout"
    except OSError as error:
        return None, f"dial tcp {host}:{port}: {connect_failure(error)}"


def connect_failure(error: OSError) -> str:
    """Why a connection could not be made, in the words of Go's net package."""
    number = error.errno or 0
    return _GO_ERRORS.get(number) or f"connect: {os.strerror(number).lower()}"


_GO_ERRORS = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.ECONNRESET: "connect: connection reset by peer",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.EINVAL: "connect: invalid argument",
}


def _port(port: object, target: Target) -> int | None:
    if isinstance(port, int):
        return port
    text = str(port)
    return int(text) if text.isdigit() else target.ports.get(text)
