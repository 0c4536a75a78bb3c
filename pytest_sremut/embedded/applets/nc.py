"""``nc [-zvnu] [-w SECONDS] [-p PORT] [-s ADDRESS] HOST PORT`` and ``nc -l``: as BusyBox answers.

Rules:
- the connect blocks, with a send timeout: so a Service without endpoints (ICMP port unreachable)
  is refused after the SYN that is sent again one second later, as in any blocking program;
- 0 means connected; refused and timed out are 1 and say nothing, but for a timeout with ``-v``;
- a name is looked up once and its first address used;
- ``-l`` listens for one connection, ``-lk -e PROGRAM`` for any number, each served by a program of
  its own. Pods share one network, so "every address" means the pod's own, as in ``httpd``;
- ``-e`` ends the options: what follows is the program with its arguments.
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
    "Usage: nc [OPTIONS] HOST PORT  - connect\n"
    "nc [OPTIONS] -l -p PORT [HOST] [PORT]  - listen\n\n"
    "\t-e PROG\tRun PROG after connect (must be last)\n"
    "\t-l\tListen mode, for inbound connects\n"
    "\t-lk\tWith -e, provides persistent server\n"
    "\t-z\tZero-I/O mode: only report whether the port is open\n"
    "\t-v\tVerbose\n"
    "\t-n\tNo name lookup\n"
    "\t-u\tUDP\n"
    "\t-w SEC\tTimeout for connects and final net reads\n"
    "\t-p PORT\tLocal port\n"
    "\t-s ADDR\tLocal address\n"
)
FLAGS = "zvnulk"
VALUES = "wpsi"
CHUNK = 65536
BACKLOG = 128
LONGEST = 1_000_000


class UsageError(Exception):
    """The arguments make no sense; the text goes to stderr."""


class Call:
    """What the arguments ask for: ``words`` are host and port, ``program`` stands behind -e.

    No dataclass: importing those takes longer than everything else here.
    """

    __slots__ = ("flags", "program", "values", "words")

    def __init__(
        self,
        *,
        flags: set[str],
        values: dict[str, str],
        words: Sequence[str],
        program: Sequence[str],
    ) -> None:
        self.flags, self.values, self.words, self.program = flags, values, words, program


def parse_arguments(argv: Sequence[str]) -> Call:
    """Raises UsageError."""
    flags: set[str] = set()
    values: dict[str, str] = {}
    words: list[str] = []
    program: list[str] = []
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
            elif letter in VALUES or letter == "e":
                if not letters and not rest:
                    raise UsageError(f"nc: option requires an argument -- '{letter}'\n{USAGE}")
                value = letters or rest.pop(0)
                letters = ""
                if letter == "e":
                    program, rest = [value, *rest], []
                else:
                    values[letter] = value
            else:
                raise UsageError(f"nc: invalid option -- '{letter}'\n{USAGE}")
    if len(words) > 2 or (len(words) < 2 and "l" not in flags):
        raise UsageError(USAGE)
    return Call(flags=flags, values=values, words=words, program=program)


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


def own_address() -> str:
    """The pod's address, by its own name; every address where it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "0.0.0.0"  # noqa: S104 - outside of a pod, as BusyBox does


def shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def become(program: Sequence[str], connection: socket.socket) -> int:
    """Replace this process by the program, its input and output the connection."""
    os.dup2(connection.fileno(), 0)
    os.dup2(0, 1)
    try:
        os.execvp(program[0], list(program))  # noqa: S606 - argv is the user's own
    except OSError as error:
        os.write(2, f"nc: can't execute '{program[0]}': {error.strerror}\n".encode())
        return 127


class Listener:
    """``nc -l``: the socket, and who may connect to it."""

    def __init__(
        self, kind: int, local: tuple[str, int], *, peer: tuple[str, int] | None, seconds: int
    ) -> None:
        self._peer = peer
        self._stream = kind == socket.SOCK_STREAM
        self._socket = socket.socket(socket.AF_INET, kind)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((local[0] or own_address(), local[1]))
            if self._stream:
                self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(seconds or None)

    @property
    def address(self) -> tuple[str, int]:
        found: tuple[str, int] = self._socket.getsockname()
        return found

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        """The next connection from who may connect. Raises TimeoutError, OSError."""
        while True:
            if self._stream:
                connection, address = self._socket.accept()
            else:  # the first packet is only looked at: who serves it shall read it
                connection = self._socket
                address = connection.recvfrom(1, socket.MSG_PEEK)[1]
            if self._peer in (None, address, (address[0], 0)):
                break
            if self._stream:
                connection.close()
            else:
                connection.recv(1)
        if not self._stream:
            connection.connect(address)
        connection.settimeout(None)
        return connection, address

    def close(self) -> None:
        self._socket.close()


def serve(
    call: Call, listener: Listener, complain: Callable[[str], object], *, seconds: int
) -> int:
    """Serve one connection; with -k and a program every one."""
    if "v" in call.flags:
        complain(f"listening on {shown(listener.address)} ...\n")
    persistent = "k" in call.flags and bool(call.program)
    if persistent:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        connection, address = listener.accept()
        if persistent and os.fork():
            connection.close()
            continue
        break
    if persistent:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if "v" in call.flags:
        here = shown(connection.getsockname())
        complain(f"connect to {here} from {shown(address)} ({shown(address)})\n")
    if call.program:
        return become(call.program, connection)
    with connection:
        return transfer(connection, seconds)


def listen(call: Call, kind: int, local: tuple[str, int], complain: Callable[[str], object]) -> int:
    """``nc -l``."""
    peer = None
    if call.words:
        found = lookup(call.words[0], call.words[1] if len(call.words) > 1 else "0", kind)
        if found is None:
            complain(f"nc: bad address '{call.words[0]}'\n")
            return 1
        peer = found[1]
    seconds = number(call.values.get("w", "0"), LONGEST)
    try:
        listener = Listener(kind, local, peer=peer, seconds=seconds)
    except OSError as error:
        complain(f"nc: bind: {error.strerror}\n")
        return 1
    try:
        return serve(call, listener, complain, seconds=seconds)
    except TimeoutError:
        complain("nc: timeout\n")
        return 1
    except OSError:
        return 1
    finally:
        listener.close()


def main(argv: Sequence[str], complain: Callable[[str], object]) -> int:
    try:
        call = parse_arguments(argv)
        seconds = number(call.values.get("w", "0"), LONGEST)
        local = (call.values.get("s", ""), number(call.values.get("p", "0"), 65535))
    except UsageError as error:
        complain(str(error))
        return 1
    kind = socket.SOCK_DGRAM if "u" in call.flags else socket.SOCK_STREAM
    if "l" in call.flags:
        return listen(call, kind, local, complain)
    host, service = call.words
    found = lookup(host, service, kind)
    if found is None:
        complain(f"nc: bad address '{host}'\n")
        return 1
    family, address = found
    where = f"{host} ({shown(address)})"
    try:
        connection = connect(family, address, kind, seconds=seconds, local=local)
    except OSError as error:
        timed_out = error.errno in (errno.EINPROGRESS, errno.EAGAIN, errno.ETIMEDOUT)
        if timed_out and "v" in call.flags:
            complain(f"nc: {where}: Connection timed out\n")
        return 1
    if "v" in call.flags:
        complain(f"{where} open\n")
    if call.program:
        return become(call.program, connection)
    with connection:
        if "z" in call.flags:
            return 0
        try:
            return transfer(connection, seconds)
        except OSError:
            return 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:], sys.stderr.write))
