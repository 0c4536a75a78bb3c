"""One service of the demo application: `python -m pytest_sremut.demo.service --name=user-service`.

It binds `$POD_IP` (0.0.0.0 without it) on its role's port, serves until SIGTERM or SIGINT, then
stops accepting, finishes what was begun and ends with 0. Limits, in seconds, come from the
environment: `SREMUT_DEMO_CONNECT_TIMEOUT` (3), `SREMUT_DEMO_CALL_TIMEOUT` (5) and
`SREMUT_DEMO_DRAIN_TIMEOUT` (3).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pytest_sremut.demo.behaviour import handler_of
from pytest_sremut.demo.client import Client, Resolver, resolve
from pytest_sremut.demo.roles import NAMES, ROLES
from pytest_sremut.demo.server import HttpServer

__all__ = ["Limits", "SettingsError", "main", "serve"]

ENVIRONMENT = "SREMUT_DEMO_"


class SettingsError(Exception):
    """The environment asks for something that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a service waits, in seconds."""

    connect: float = 3.0
    call: float = 5.0
    drain: float = 3.0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """What the environment says. Raises SettingsError."""
        return cls(
            connect=_seconds(environment, "CONNECT_TIMEOUT", cls().connect),
            call=_seconds(environment, "CALL_TIMEOUT", cls().call),
            drain=_seconds(environment, "DRAIN_TIMEOUT", cls().drain),
        )


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(ENVIRONMENT + name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 600:
        raise SettingsError(
            f"{ENVIRONMENT}{name}: found {text!r}; allowed: seconds from 0.01 to 600"
        )
    return value


async def serve(
    name: str,
    *,
    host: str = "",
    sock: socket.socket | None = None,
    resolver: Resolver = resolve,
    limits: Limits | None = None,
    stop: asyncio.Event | None = None,
) -> bool:
    """Serves as `name` until `stop` is set, or SIGTERM or SIGINT where no `stop` is given.

    Args:
        name: One of `NAMES`.
        host: Address to bind and to call from; empty for any.
        sock: A bound socket to serve instead of `host` and the role's port.
        resolver: How names of Services become addresses.
        limits: How long to wait.
        stop: Set by whoever runs several services in one process.

    Returns:
        Whether everything that was begun could be finished.

    Raises:
        OSError: The address cannot be bound.
    """
    role, limits = ROLES[name], limits or Limits()
    client = Client(
        {callee: ROLES[callee].port for callee in role.calls},
        connect_timeout=limits.connect,
        call_timeout=limits.call,
        source=host if ":" not in host else "",
        resolver=resolver,
        log=lambda line: print(f"{name}: {line}", flush=True),
    )
    server = HttpServer(handler_of(role, client), host=host or "0.0.0.0", port=role.port, sock=sock)  # noqa: S104
    if stop is None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    address, port = await server.start()
    print(f"{name}: listening on {address}:{port}", flush=True)
    await stop.wait()
    finished = await server.drain(limits.drain)
    client.close()
    print(f"{name}: stopped", flush=True)
    return finished


def main(argv: list[str]) -> int:
    """Runs one service. `argv` is without the program's name. Returns the exit status.

    0: ended on request; 1: the address cannot be bound; 2: misuse.
    """
    parser = argparse.ArgumentParser(prog="sremut-demo", description="One service of the demo.")
    parser.add_argument("--name", required=True, choices=NAMES, metavar="NAME")
    try:
        options = parser.parse_args(argv)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    name, host = str(options.name), os.environ.get("POD_IP", "")
    try:
        asyncio.run(serve(name, host=host, limits=Limits.of(os.environ)))
    except SettingsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{host or '0.0.0.0'}:{ROLES[name].port}"  # noqa: S104
        print(f"{name}: cannot listen on {where}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
