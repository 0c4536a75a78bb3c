"""``httpd [-f] [-v] [-p [ADDRESS:]PORT] [-h DIRECTORY]``: files of a directory over HTTP.

Rules:
- pods share one network, so "every address" means the pod's own: the one that its ``/etc/hosts``
  has for its host name. Another address is taken as it is written;
- like BusyBox: it goes into the background once it listens, unless ``-f``; ``GET`` and ``HEAD``
  only; a directory answers with its ``index.html``; nothing above the directory is ever served;
- as process 1 of a container it does not see TERM, as any program without a handler.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

USAGE = "Usage: httpd [-fv] [-p [IP:]PORT] [-h HOME]\n"
MAX_HEAD = 65536
PATIENCE = 60.0  # seconds that a client may take to say what it wants
_TITLES = {200: "OK", 400: "Bad Request", 404: "Not Found", 501: "Not Implemented"}
_TYPES = {".html": "text/html", ".txt": "text/plain", ".json": "application/json"}


class UsageError(Exception):
    """The arguments make no sense; the text goes to stderr."""


def parse_arguments(argv: Sequence[str]) -> tuple[bool, str, int, Path]:
    """(in the foreground, address or "", port, directory)."""
    foreground, where, home = False, "80", "."
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("-p", "-h"):
            if not rest:
                raise UsageError(f"httpd: option requires an argument -- '{word[1]}'\n{USAGE}")
            value = rest.pop(0)
            where, home = (value, home) if word == "-p" else (where, value)
        elif word.startswith("-") and len(word) > 1 and set(word[1:]) <= {"f", "v"}:
            foreground = foreground or "f" in word
        else:
            raise UsageError(f"httpd: unrecognized argument '{word}'\n{USAGE}")
    address, _, port = where.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"httpd: bad port '{port}'\n")
    return foreground, address, int(port), Path(home).resolve()


def own_address() -> str:
    """The pod's address, by its own name; every address where it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "0.0.0.0"  # noqa: S104 - outside of a pod, as BusyBox does


def answer(head: bytes, home: Path) -> bytes:
    """The whole answer to a request's head."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    if len(words) not in (2, 3) or not words[1].startswith("/"):
        return _response(400, b"", "text/html")
    if words[0] not in ("GET", "HEAD"):
        return _response(501, b"", "text/html")
    path = unquote(words[1].partition("?")[0], errors="replace").lstrip("/")
    try:
        found = (home / path).resolve()
        if found.is_dir():
            found /= "index.html"
        if not found.is_relative_to(home):
            raise FileNotFoundError(path)
        body = found.read_bytes()
    except (OSError, ValueError):
        return _response(404, b"The requested URL was not found\n", "text/html")
    kind = _TYPES.get(found.suffix, "application/octet-stream")
    return _response(200, body, kind, with_body=words[0] == "GET")


def _response(code: int, body: bytes, kind: str, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {code} {_TITLES[code]}\r\nConnection: close\r\n"
        f"Content-type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


def _converse(connection: socket.socket, home: Path) -> None:
    with connection:
        connection.settimeout(PATIENCE)
        head = b""
        try:
            while b"\r\n\r\n" not in head and len(head) < MAX_HEAD:
                data = connection.recv(4096)
                if not data:
                    return
                head += data
            connection.sendall(answer(head, home))
        except OSError:
            return  # the client went


def serve(listener: socket.socket, home: Path) -> None:
    """Answer until the process is ended."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_converse, args=(connection, home), daemon=True).start()


def _leave_for_the_background() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def main(argv: Sequence[str]) -> int:
    """Exit code: 1 when it cannot listen or the arguments make no sense."""
    try:
        foreground, address, port, home = parse_arguments(argv)
    except UsageError as error:
        sys.stderr.write(str(error))
        return 1
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        os.chdir(home)
        listener.bind((address or own_address(), port))
        listener.listen(128)
    except OSError as error:
        sys.stderr.write(f"httpd: {error.strerror}\n")
        return 1
    if not foreground:
        _leave_for_the_background()
    serve(listener, home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
