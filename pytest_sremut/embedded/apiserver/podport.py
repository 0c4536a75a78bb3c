"""What the API needs of the kubelet: logs, commands and ports of running pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal, Protocol

__all__ = ["ExecStream", "PodRuntime"]


class ExecStream(Protocol):
    """A running command."""

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        """The next piece of output; ``None`` at the end."""

    async def write(self, data: bytes) -> None:
        """Give the command input."""

    async def close_stdin(self) -> None:
        """End the command's input."""

    async def wait(self) -> int:
        """The exit code."""

    def resize(self, width: int, height: int) -> None:
        """Tell the command's terminal its size."""

    def kill(self) -> None:
        """End the command; nothing happens if it has ended."""


class PodRuntime(Protocol):
    """Runs the pods; every method raises `ApiStatus` for what cannot be done."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        argv: list[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> ExecStream:
        """Run a command in a container."""

    async def attach(self, namespace: str, pod: str, container: str) -> ExecStream:
        """Follow the output of a running container from now on; it takes no input."""

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        previous: bool,
        tail_lines: int | None,
        since_time: str | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """A container's log in pieces."""

    async def forward(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod."""
