"""``nc [-zvnu] [-w SECONDS] [-p PORT] [-s ADDRESS] HOST PORT``: as BusyBox 1.37 answers.

Rules:
- the connect blocks, with a send timeout: so a Service without endpoints (ICMP port unreachable)
  is refused after the SYN that is sent again one second later, as in any blocking program;
- 0 means connected; refused and timed out are 1 and say nothing, but for a timeout with ``-v``;
- a name is looked up once and its first address used.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence

USAGE = (
    "Usage: nc [-zvnu] [-w SEC] [-p PORT] [-s ADDR] IPADDR PORT\n\n"
    "Open a pipe to IP:PORT\n\n"
    "\t-z\tZero-I/O mode: only report whether the port is open\n"
    "\t-v\tVerbose\n"
    "\t-n\tNo name lookup\n"
    "\t-u\tUDP\n"
    "\t-w SEC\tTimeout for connects and final net reads\n"
    "\t-p PORT\tLocal port\n"
    "\t-s ADDR\tLocal address\n"
)
FLAGS = "zvnul"
VALUES = "wpsi"
CHUNK = 65536


class UsageError(Exception):
    """The arguments make no sense; the text goes to stderr."""


def parse_arguments(argv: Sequence[str]) -> tuple[set[str], dict[str, str], str, str]:
    """(flags, values, host, port)."""
    flags: set[str] = set()
    values: dict[str, str] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in FLAGS:
                flags.add(letter)
            elif letter in VALUES:
                if not letters and not rest:
                    raise UsageError(f"nc: option requires an argument -- '{letter}'\n{USAGE}")
                values[letter] = letters or rest.pop(0)
                letters = ""
            else:
                raise UsageError(f"nc: invalid option -- '{letter}'\n{USAGE}")
    if "l" in flags:
        raise UsageError("nc: listening is not offered here\n")
    if len(words) != 2:
        raise UsageError(USAGE)
    return flags, values, words[0], words[1]


def number(text: str, highest: int) -> int:
    if not text.isdigit() or int(text) > highest:
        raise UsageError(f"nc: invalid number '{text}'\n")
    return int(text)


def lookup(host: str, port: str, kind: int) -> tuple[int, tuple[str, int]] | None:
    """(family, address) or None where the name or the port is none."""
    try:
        found = socket.getaddrinfo(host, port, 0, kind)
    except (OSError, UnicodeError):
        return None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def connect(
    family: int, address: tuple[str, int], kind: int, *, seconds: int, local: tuple[str, int]
) -> socket.socket:
    """A connected socket; raises OSError (EINPROGRESS: no answer in time)."""
    connection = socket.socket(family, kind)
    try:
        if seconds:
            limit = struct.pack("ll", seconds, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        if local != ("", 0):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            connection.bind(local)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def transfer(connection: socket.socket, seconds: int) -> int:
    """Copy both ways until the other side closes, or stays silent after our end of input."""
    sources: list[socket.socket | int] = [connection, 0]
    silent_after: float | None = None
    while True:
        ready = select.select(sources, [], [], silent_after)[0]
        if not ready:
            return 0
        if connection in ready:
            data = connection.recv(CHUNK)
            if not data:
                return 0
            os.write(1, data)
        if 0 in ready:
            data = os.read(0, CHUNK)
            if data:
                connection.sendall(data)
            else:
                sources.remove(0)
                connection.shutdown(socket.SHUT_WR)
                silent_after = seconds or None


def main(argv: Sequence[str], complain: Callable[[str], object]) -> int:
    try:
        flags, values, host, service = parse_arguments(argv)
        seconds = number(values.get("w", "0"), 1_000_000)
        local = (values.get("s", ""), number(values.get("p", "0"), 65535))
    except UsageError as error:
        complain(str(error))
        return 1
    kind = socket.SOCK_DGRAM if "u" in flags else socket.SOCK_STREAM
    found = lookup(host, service, kind)
    if found is None:
        complain(f"nc: bad address '{host}'\n")
        return 1
    family, address = found
    shown = f"{host} ({address[0]}:{address[1]})"
    try:
        connection = connect(family, address, kind, seconds=seconds, local=local)
    except OSError as error:
        timed_out = error.errno in (errno.EINPROGRESS, errno.EAGAIN, errno.ETIMEDOUT)
        if timed_out and "v" in flags:
            complain(f"nc: {shown}: Connection timed out\n")
        return 1
    if "v" in flags:
        complain(f"{shown} open\n")
    with connection:
        if "z" in flags:
            return 0
        try:
            return transfer(connection, seconds)
        except OSError:
            return 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:], sys.stderr.write))
