"""The 27 services as forked processes on loopback, with a table in place of cluster DNS.

    with Fleet() as fleet:
        fleet.address("nginx-thrift"); fleet.stop("user-service")

The forking is done by a process of its own (this file as a script), which has no threads and no
event loop of pytest's. Each service listens on an ephemeral port that the script bound for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).resolve().parents[3]


class Fleet:
    """Owns the script. Commands go in on stdin, one line each; each is answered by one line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            text=True,
        )
        assert self._process.stdout is not None
        started = json.loads(self._process.stdout.readline())
        self.ports: dict[str, int] = started["ports"]
        self.pids: dict[str, int] = started["pids"]

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.stdout.close()
        assert self._process.wait(timeout=20) == 0

    def _ask(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def stop(self, name: str) -> int:
        """SIGTERM to one service; its exit status. The port is closed from then on."""
        return int(self._ask("stop", name))

    def start(self, name: str) -> None:
        """Starts a stopped service again, on its port."""
        self._ask("start", name)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}/"


def _bound(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _child(name: str, sockets: dict[str, socket.socket], ports: dict[str, int]) -> int:
    from pytest_sremut.demo.service import serve

    def resolver(callee: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", ports[callee])]

    pid = os.fork()
    sock = sockets.pop(name)
    if pid:
        sock.close()
        return pid
    for other in sockets.values():  # who holds a listening socket keeps its port open
        other.close()
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(2, 1)
        status = 0 if asyncio.run(serve(name, sock=sock, resolver=resolver)) else 1
    finally:
        os._exit(status)


def main() -> int:
    from pytest_sremut.demo.roles import NAMES

    sockets = {name: _bound() for name in NAMES}
    ports = {name: int(sock.getsockname()[1]) for name, sock in sockets.items()}
    for sock in sockets.values():
        sock.listen(256)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    pids = {}
    for name in NAMES:
        pids[name] = _child(name, sockets, ports)
    print(json.dumps({"ports": ports, "pids": pids}), flush=True)
    for line in sys.stdin:
        command, name = line.split()
        if command == "stop":
            os.kill(pids[name], signal.SIGTERM)
            _, status = os.waitpid(pids.pop(name), 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        else:
            sock = _bound(ports[name])
            sock.listen(256)
            pids[name] = _child(name, {name: sock}, ports)
            print(pids[name], flush=True)
    for pid in pids.values():
        os.kill(pid, signal.SIGTERM)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids.values()]
    return max(statuses, default=0)


if __name__ == "__main__":
    sys.exit(main())
