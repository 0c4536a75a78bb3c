"""``wget [-qScT] [--spider] [-O FILE] URL...``: as BusyBox 1.37 answers, over plain HTTP.

Rules:
- 0 only if the server's last answer was a success and its body is complete; everything else is 1
  and one line on stderr, which ``-q`` does not silence;
- the connect blocks (see nc), the timeout (``-T``) is one for each silence, as BusyBox has it;
- names are looked up once and the first address used; redirects are followed, five of them.
"""

# ruff: noqa: PTH118, PTH119, PTH123
# pathlib costs a quarter of the start-up time.

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence

Say = Callable[[str], object]

DEFAULT_TIMEOUT = 900
REDIRECTS = 5
SUCCESSES = (200, 201, 202, 203, 204, 206)
MOVED = (301, 302, 303, 307, 308)
CHUNK = 65536
USAGE = (
    "Usage: wget [-cqS] [--spider] [-O FILE] [-o LOGFILE] [--header STR]\n"
    "\t[--post-data STR | --post-file FILE] [-Y on/off]\n"
    "\t[-P DIR] [-U AGENT] [-T SEC] URL...\n\n"
    "Retrieve files via HTTP\n\n"
    "\t--spider\tOnly check URL existence: $? is 0 if exists\n"
    "\t--header STR\tAdd STR (of form 'header: value') to headers\n"
    "\t--post-data STR\tSend STR using POST method\n"
    "\t--post-file FILE\tSend FILE using POST method\n"
    "\t-c\t\tContinue retrieval of aborted transfer\n"
    "\t-q\t\tQuiet\n"
    "\t-P DIR\t\tSave to DIR (default .)\n"
    "\t-S    \t\tShow server response\n"
    "\t-T SEC\t\tNetwork read timeout is SEC seconds\n"
    "\t-O FILE\t\tSave to FILE ('-' for stdout)\n"
    "\t-o LOGFILE\tLog messages to FILE\n"
    "\t-U STR\t\tUse STR for User-Agent header\n"
    "\t-Y on/off\tUse proxy\n"
)
FLAGS = "cqS"
VALUES = "OoPUTYt"
LONG_FLAGS = {"spider": "spider", "quiet": "q", "continue": "c", "server-response": "S"}
LONG_FLAGS |= {"no-check-certificate": "k", "no-verbose": "q"}
LONG_VALUES = {"header": "header", "post-data": "post-data", "post-file": "post-file"}
LONG_VALUES |= {"output-document": "O", "output-file": "o", "directory-prefix": "P"}
LONG_VALUES |= {"user-agent": "U", "timeout": "T", "tries": "t", "proxy": "Y"}


class UsageError(Exception):
    """The arguments make no sense."""


class TransferError(Exception):
    """The transfer failed; the text is what follows ``wget: ``."""


class Job:
    """The parsed command line."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.values: dict[str, str] = {}
        self.headers: list[str] = []
        self.urls: list[str] = []
        self.timeout = DEFAULT_TIMEOUT


def option_value(name: str, given: str | None, rest: list[str]) -> str:
    """The value of an option: what was given with it, or the next word, which leaves `rest`."""
    if given is None and not rest:
        raise UsageError(f"wget: option requires an argument -- '{name}'\n{USAGE}")
    return rest.pop(0) if given is None else given


def take_long(job: Job, word: str, rest: list[str]) -> None:
    """Take one ``--option`` into `job`."""
    name, equals, given = word[2:].partition("=")
    if name in LONG_FLAGS and not equals:
        job.flags.add(LONG_FLAGS[name])
    elif name == "header":
        job.headers.append(option_value(name, given if equals else None, rest))
    elif name in LONG_VALUES:
        job.values[LONG_VALUES[name]] = option_value(name, given if equals else None, rest)
    else:
        raise UsageError(f"wget: unrecognized option '{word}'\n{USAGE}")


def take_short(job: Job, letters: str, rest: list[str]) -> None:
    """Take ``-abc``: flags, and at the end perhaps one option with its value."""
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in FLAGS:
            job.flags.add(letter)
        elif letter in VALUES:
            job.values[letter] = option_value(letter, letters or None, rest)
            return
        else:
            raise UsageError(f"wget: invalid option -- '{letter}'\n{USAGE}")


def parse_arguments(argv: Sequence[str]) -> Job:
    job, rest = Job(), list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            job.urls += rest
            break
        if word.startswith("--"):
            take_long(job, word, rest)
        elif word.startswith("-") and len(word) > 1:
            take_short(job, word[1:], rest)
        else:
            job.urls.append(word)
    if not job.urls:
        raise UsageError(USAGE)
    seconds = job.values.get("T", str(DEFAULT_TIMEOUT))
    if not seconds.isdigit():
        raise UsageError(f"wget: invalid number '{seconds}'\n")
    job.timeout = int(seconds)
    return job


def split_url(url: str) -> tuple[str, str, int, str]:
    """(host, host as written with its port, port, path with query)."""
    rest = url
    if "://" in url:
        scheme, _, rest = url.partition("://")
        if scheme != "http":
            raise TransferError(f"not an http or ftp url: {url}")
    rest = rest.partition("#")[0]
    cut = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
    authority, path = rest[:cut], rest[cut:]
    if not path.startswith("/"):
        path = "/" + path
    authority = authority.rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        return authority.strip("[]"), authority, 80, path
    if not port.isdigit() or int(port) > 65535:
        raise TransferError(f"bad port '{port}'")
    return host.strip("[]"), authority, int(port), path


class Connection:
    """One HTTP exchange on one connection."""

    def __init__(self, host: str, authority: str, port: int, *, timeout: int, say: Say) -> None:
        try:
            found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise TransferError(f"bad address '{authority}'") from None
        family, _, _, _, sockaddr = found[0]
        address = (str(sockaddr[0]), int(sockaddr[1]))
        say(f"Connecting to {authority} ({address[0]}:{address[1]})\n")
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        if timeout:
            limit = struct.pack("ll", timeout, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            if error.errno in (errno.EINPROGRESS, errno.EAGAIN):
                raise TransferError("download timed out") from None
            reason = error.strerror
            raise TransferError(f"can't connect to remote host ({address[0]}): {reason}") from None
        self._buffer = b""

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _network(error) from None

    def more(self) -> bytes:
        """The next bytes; empty at the end."""
        if self._buffer:
            data, self._buffer = self._buffer, b""
            return data
        try:
            return self._socket.recv(CHUNK)
        except OSError as error:
            raise _network(error) from None

    def line(self) -> str | None:
        """The next line without its end; None where the connection ends first."""
        while b"\n" not in self._buffer:
            held = self._buffer
            self._buffer = b""
            data = self.more()
            self._buffer = held + data
            if not data:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r").decode("latin-1")

    def exactly(self, size: int) -> Iterator[bytes]:
        """`size` bytes, in pieces."""
        while size:
            data = self.more()
            if not data:
                raise TransferError("connection closed prematurely")
            piece, self._buffer = data[:size], data[size:]
            size -= len(piece)
            yield piece

    def close(self) -> None:
        self._socket.close()


def _network(error: OSError) -> TransferError:
    if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINPROGRESS):
        return TransferError("download timed out")
    return TransferError(f"error getting response: {error.strerror}")


def request_text(job: Job, authority: str, path: str) -> bytes:
    body = b""
    method = "GET"
    if "post-data" in job.values:
        method, body = "POST", job.values["post-data"].encode()
    elif "post-file" in job.values:
        try:
            with open(job.values["post-file"], "rb") as file:
                method, body = "POST", file.read()
        except OSError as error:
            name = job.values["post-file"]
            raise TransferError(f"can't open '{name}': {error.strerror}") from None
    elif "spider" in job.flags:
        method = "HEAD"
    given = {header.partition(":")[0].strip().lower() for header in job.headers}
    lines = [f"{method} {path} HTTP/1.1"]
    if "host" not in given:
        lines.append(f"Host: {authority}")
    if "user-agent" not in given:
        lines.append(f"User-Agent: {job.values.get('U', 'Wget')}")
    if "connection" not in given:
        lines.append("Connection: close")
    lines += job.headers
    if method == "POST":
        if "content-type" not in given:
            lines.append("Content-Type: application/x-www-form-urlencoded")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_head(connection: Connection, show: Say) -> tuple[int, str, dict[str, str]]:
    """(status, status line, headers) of the answer; interim answers are skipped."""
    while True:
        first = connection.line()
        if first is None:
            raise TransferError("error getting response")
        show(f"  {first}\n")
        words = first.split(None, 2)
        status = words[1] if len(words) > 1 else ""
        if not first.startswith("HTTP/") or not status.isdigit():
            raise TransferError(f"bad response from server: {first}")
        headers: dict[str, str] = {}
        if int(status) >= 400:
            return int(status), first, headers
        while True:
            line = connection.line()
            if line is None:
                raise TransferError("error getting response")
            show(f"  {line}\n")
            if not line:
                break
            name, _, content = line.partition(":")
            headers[name.strip().lower()] = content.strip()
        if int(status) >= 200:
            return int(status), first, headers


def body_of(connection: Connection, headers: dict[str, str]) -> Iterator[bytes]:
    """The body in pieces, whole or an error."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            line = connection.line()
            try:
                size = int((line or "").partition(";")[0], 16)
            except ValueError:
                raise TransferError("bad chunk in the response") from None
            if size == 0:
                return
            yield from connection.exactly(size)
            connection.line()
    elif headers.get("content-length", "").isdigit():
        yield from connection.exactly(int(headers["content-length"]))
    else:
        while data := connection.more():
            yield data


def fetch(job: Job, url: str, say: Say, show: Say) -> None:
    """One URL, redirects followed, to the end of its body."""
    for _ in range(REDIRECTS + 1):
        host, authority, port, path = split_url(url)
        connection = Connection(host, authority, port, timeout=job.timeout, say=say)
        try:
            connection.send(request_text(job, authority, path))
            status, first, headers = read_head(connection, show)
            if status in SUCCESSES:
                if "spider" in job.flags:
                    say("remote file exists\n")
                else:
                    save(job, connection, headers, path, say)
                return
        finally:
            connection.close()
        if status not in MOVED or "location" not in headers:
            raise TransferError(f"server returned error: {first}")
        target = headers["location"]
        url = target if "://" in target else f"http://{authority}{target}"
    raise TransferError("too many redirections")


def save(job: Job, connection: Connection, headers: dict[str, str], path: str, say: Say) -> None:
    name = job.values.get("O")
    if name is None:
        name = path.partition("?")[0].rpartition("/")[2] or "index.html"
        name = os.path.join(job.values.get("P", ""), name)
        how = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    else:
        how = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
    if name == "-":
        target = 1
        say("writing to stdout\n")
    else:
        try:
            target = os.open(name, how, 0o666)
        except OSError as error:
            raise TransferError(f"can't open '{name}': {error.strerror}") from None
        say(f"saving to '{name}'\n")
    total = 0
    try:
        for piece in body_of(connection, headers):
            total += len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]
    finally:
        if target != 1:
            os.close(target)
    shown = os.path.basename(name)[:20]
    say(f"{shown:<20} 100% |{'*' * 32}| {size_text(total)}  0:00:00 ETA\n")
    say("written to stdout\n" if name == "-" else f"'{name}' saved\n")


def size_text(size: float) -> str:
    """A size in five columns, as the progress bar has it."""
    if size < 100_000:
        return f"{size:5.0f}"
    for unit in "kMGT":
        size /= 1024
        if size < 9999:
            return f"{size:4.0f}{unit}"
    return f"{size:4.0f}P"


def _silent(_text: str) -> None:
    pass


def main(argv: Sequence[str], complain: Say) -> int:
    try:
        job = parse_arguments(argv)
    except UsageError as error:
        complain(str(error))
        return 1
    quiet = "q" in job.flags
    say = _silent if quiet else complain
    show = complain if "S" in job.flags else _silent
    for url in job.urls:
        try:
            fetch(job, url, say, show)
        except TransferError as error:
            complain(f"wget: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:], sys.stderr.write))
