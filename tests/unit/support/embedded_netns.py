"""Runs a test in a network namespace of its own, in a child process, without root.

Rules kept here: the parent's namespaces are never changed; a child's failure is the test's failure,
with its traceback, and a child's skip the test's skip, with its reason; where the machine forbids
namespaces the test is skipped too, or fails if ``SREMUT_REQUIRE_EMBEDDED=1`` says that they must be
there.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import functools
import os
import pickle
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import needs
import pytest

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
SO_SNDTIMEO_LONG = struct.Struct("@ll")
TOTAL_RETRANSMITS = 100  # offset of tcpi_total_retrans in struct tcp_info


def enter_namespaces() -> None:
    """New user, network and mount namespaces for this (single-threaded) process."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS):
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def in_child(body: Callable[[], Any]) -> Any:
    """What `body` returns, called in a forked child in namespaces of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        answer: tuple[str, Any]
        try:
            try:
                enter_namespaces()
            except OSError as error:
                answer = ("forbidden", str(error))
            else:
                answer = ("ok", body())
        except pytest.skip.Exception as skipped:
            answer = ("skipped", str(skipped))
        except BaseException as error:  # the parent raises it again
            answer = ("failed", "".join(traceback.format_exception(error)))
        with os.fdopen(writer, "wb") as out:
            pickle.dump(answer, out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        data = source.read()
    os.waitpid(child, 0)
    if not data:
        pytest.fail("the child process died without a word")
    kind, value = pickle.loads(data)
    if kind == "forbidden":
        needs.lacking("embedded", f"namespaces are forbidden: {value}")
    if kind == "skipped":
        pytest.skip(value)
    if kind == "failed":
        pytest.fail(f"in the namespace:\n{value}", pytrace=False)
    return value


def in_namespace(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Turn an async test into one that runs in a namespace and loop of its own."""

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        in_child(lambda: asyncio.run(test(*args, **kwargs), debug=False))

    return wrapper


@dataclass(frozen=True)
class Connect:
    """How a connect ended: ``connected``, ``refused``, ``timed out``, or the errno's name."""

    result: str
    retransmits: int = 0
    elapsed: float = 0.0
    data: bytes = b""
    source: str = ""


def connect(
    address: str,
    port: int,
    *,
    patience: float = 5.0,
    blocking: bool = True,
    source: str | None = None,
    talk: bool = False,
) -> Connect:
    """Connect as a blocking client does (or one with a timeout), in this thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        if source:
            client.bind((source, 0))
        if blocking:
            whole = int(patience)
            rest = int((patience - whole) * 1e6)
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, SO_SNDTIMEO_LONG.pack(whole, rest)
            )
        else:
            client.settimeout(patience)
        begin = time.monotonic()
        try:
            client.connect((address, port))
        except ConnectionRefusedError:
            result = "refused"
        except (BlockingIOError, TimeoutError):
            result = "timed out"
        except OSError as error:
            result = errno.errorcode.get(error.errno or 0, str(error))
        else:
            result = "connected"
        elapsed = time.monotonic() - begin
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        (retransmits,) = struct.unpack_from("=I", info, TOTAL_RETRANSMITS)
        data, own = b"", ""
        if result == "connected":
            own = client.getsockname()[0]
            if talk:
                client.settimeout(10)
                client.sendall(b"hello\n")
                client.shutdown(socket.SHUT_WR)
                while chunk := client.recv(65536):
                    data += chunk
    return Connect(result, retransmits, elapsed, data, own)


async def connecting(address: str, port: int, **options: Any) -> Connect:
    """`connect` beside the running loop."""
    return await asyncio.to_thread(functools.partial(connect, address, port, **options))


SERVER = """
import socket, sys, threading
address, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
server = socket.create_server((address, port))
print("ready", flush=True)
def serve(client, peer):
    with client:
        got = b""
        while chunk := client.recv(65536):
            got += chunk
        client.sendall(name + b" " + peer[0].encode() + b" " + got)
while True:
    threading.Thread(target=serve, args=server.accept(), daemon=True).start()
"""


class Server:
    """A real process that answers ``NAME CLIENT-ADDRESS BYTES-RECEIVED`` at the end of input."""

    def __init__(self, address: str, port: int, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", SERVER, address, str(port), name],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class FakeSource:
    """The part of the registry that routing and DNS read."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self.callbacks: list[tuple[Callable[[Any], None], tuple[str, ...]]] = []

    def list(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        items = self.objects.get(resource, {})
        return [items[key] for key in sorted(items) if not namespace or key[0] == namespace]

    def subscribe(self, callback: Callable[[Any], None], *resources: str) -> Callable[[], None]:
        entry = (callback, resources)
        self.callbacks.append(entry)
        return lambda: self.callbacks.remove(entry)

    def put(self, resource: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.objects.setdefault(resource, {})[key] = item
        self._tell(resource)

    def drop(self, resource: str, namespace: str, name: str) -> None:
        del self.objects[resource][namespace, name]
        self._tell(resource)

    def _tell(self, resource: str) -> None:
        for callback, resources in list(self.callbacks):
            if not resources or resource in resources:
                callback(None)


SERVICES, SLICES, NAMESPACES = "services", "endpointslices.discovery.k8s.io", "namespaces"


def namespace(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def service(name: str, address: str, ports: Any = ((80, ""),), **spec: Any) -> dict[str, Any]:
    listed = [
        {"port": number, **({"name": label} if label else {}), "protocol": "TCP"}
        for number, label in ports
    ]
    return {
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": listed, **spec},
    }


def endpoint(address: str, **conditions: bool) -> dict[str, Any]:
    defaults = {"ready": True, "serving": True, "terminating": False}
    return {
        "addresses": [address],
        "conditions": {**defaults, **conditions},
        "nodeName": "node-1",
    }


def piece(
    of: str, endpoints: Any, ports: Any = ((8080, ""),), *, suffix: str = "a"
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{of}-{suffix}",
            "namespace": "demo",
            "labels": {"kubernetes.io/service-name": of},
        },
        "addressType": "IPv4",
        "endpoints": [endpoint(item) if isinstance(item, str) else item for item in endpoints],
        "ports": [{"name": label, "port": number, "protocol": "TCP"} for number, label in ports],
    }
