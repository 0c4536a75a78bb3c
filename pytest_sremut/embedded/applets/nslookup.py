"""``nslookup [-type=TYPE] HOST [SERVER]``: BusyBox's output, streams and exit codes.

Rules:
- every query is sent at once (A of each search name, then AAAA of each), answers are printed in
  the order in which they arrive; the exit code is 1 if any of them is an error, so a short name
  that exists in one search domain of three exits with 1;
- search domains apply to names without a dot, and only when no server is named.
"""

# ruff: noqa: PTH123
# pathlib costs a quarter of the start-up time.

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence

TIMEOUT = 5.0  # seconds until nobody is expected to answer any more
RESEND = 2.5
PORT = 53
RESOLV_CONF = "/etc/resolv.conf"
TYPES = {
    "a": 1,
    "ns": 2,
    "cname": 5,
    "soa": 6,
    "ptr": 12,
    "mx": 15,
    "txt": 16,
    "aaaa": 28,
    "srv": 33,
    "any": 255,
}
RCODES = (
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
)
SERVFAIL = 2
SERVFAIL_RETRIES = 2
USAGE = (
    "Usage: nslookup [-type=QUERY_TYPE] [-debug] HOST [DNS_SERVER]\n\n"
    "Query DNS about HOST\n\n"
    "QUERY_TYPE: soa,ns,a,aaaa,cname,mx,txt,ptr,srv,any\n"
)


class AnswerError(Exception):
    """The bytes are no DNS answer."""


class Query:
    """One question under way."""

    def __init__(self, number: int, name: str, kind: int) -> None:
        """Raises ValueError for a name that does not fit into a question."""
        self.packet = encode_query(number, name, kind)
        self.name = name
        self.failures = 0
        self.done = False
        self.failed = False


def encode_query(number: int, name: str, kind: int) -> bytes:
    labels = b""
    for label in name.rstrip(".").split("."):
        raw = label.encode("utf-8", "surrogateescape")
        if not 0 < len(raw) < 64:
            raise ValueError(name)
        labels += bytes([len(raw)]) + raw
    if len(labels) > 254:
        raise ValueError(name)
    header = number.to_bytes(2, "big") + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    return header + labels + b"\x00" + kind.to_bytes(2, "big") + b"\x00\x01"


def read_name(message: bytes, start: int) -> tuple[str, int]:
    """The name at `start` and where it ends."""
    labels: list[str] = []
    end: int | None = None
    jumps, at = 0, start
    while True:
        if at >= len(message):
            raise AnswerError
        size = message[at]
        if size >= 0xC0:
            if at + 1 >= len(message) or jumps > 64:
                raise AnswerError
            end = at + 2 if end is None else end
            at = (size & 0x3F) << 8 | message[at + 1]
            jumps += 1
        elif size == 0:
            return ".".join(labels), at + 1 if end is None else end
        else:
            label = message[at + 1 : at + 1 + size]
            if len(label) < size:
                raise AnswerError
            labels.append(label.decode("ascii", "backslashreplace"))
            at += 1 + size


def u16(message: bytes, at: int) -> int:
    if at + 2 > len(message):
        raise AnswerError
    return int.from_bytes(message[at : at + 2], "big")


NAMING = {TYPES["ns"]: "nameserver", TYPES["cname"]: "canonical name", TYPES["ptr"]: "name"}
"""Kinds of records that hold a name and nothing else."""


def record_text(message: bytes, name: str, kind: int, start: int, size: int) -> str:
    """One line (or several) of output for a resource record; empty for kinds never shown."""
    data = message[start : start + size]
    if len(data) < size:
        raise AnswerError
    if kind in (TYPES["a"], TYPES["aaaa"]):
        family = socket.AF_INET if kind == TYPES["a"] else socket.AF_INET6
        try:
            address = socket.inet_ntop(family, data)
        except ValueError as error:
            raise AnswerError from error
        return f"Name:\t{name}\nAddress: {address}\n"
    if kind in NAMING:
        return f"{name}\t{NAMING[kind]} = {read_name(message, start)[0]}\n"
    if kind == TYPES["mx"]:
        target = read_name(message, start + 2)[0]
        return f"{name}\tmail exchanger = {u16(message, start)} {target}\n"
    if kind == TYPES["txt"]:
        text = data[1 : 1 + data[0]].decode("utf-8", "backslashreplace") if data else ""
        return f'{name}\ttext = "{text}"\n'
    if kind == TYPES["srv"]:
        numbers = " ".join(str(u16(message, start + 2 * i)) for i in range(3))
        return f"{name}\tservice = {numbers} {read_name(message, start + 6)[0]}\n"
    if kind == TYPES["soa"]:
        origin, at = read_name(message, start)
        mail, at = read_name(message, at)
        lines = [name, f"\torigin = {origin}", f"\tmail addr = {mail}"]
        for index, field in enumerate(("serial", "refresh", "retry", "expire", "minimum")):
            value = u16(message, at + 4 * index) << 16 | u16(message, at + 4 * index + 2)
            lines.append(f"\t{field} = {value}")
        return "\n".join(lines) + "\n"
    return ""


def answer_text(message: bytes, name: str) -> tuple[str, int]:
    """What is printed for one answer, and its rcode."""
    if len(message) < 12:
        raise AnswerError
    rcode = message[3] & 0x0F
    if rcode:
        reason = RCODES[rcode] if rcode < len(RCODES) else str(rcode)
        return f"** server can't find {name}: {reason}\n", rcode
    text = "" if message[2] & 0x04 else "Non-authoritative answer:\n"
    at = 12
    for _ in range(u16(message, 4)):
        at = read_name(message, at)[1] + 4
    for _ in range(u16(message, 6)):
        owner, at = read_name(message, at)
        size = u16(message, at + 8)
        text += record_text(message, owner, u16(message, at), at + 10, size)
        at += 10 + size
    return text, 0


def read_resolv_conf(path: str) -> tuple[list[str], list[str]]:
    """Name servers and search domains."""
    servers: list[str] = []
    search: list[str] = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        words = line.split()
        if words and words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words and words[0] in ("search", "domain"):
            search = words[1:]
    return servers, search


def reverse_name(host: str) -> str | None:
    """The name under which an address is looked up, or None for a name."""
    try:
        raw = socket.inet_pton(socket.AF_INET, host)
        return ".".join(str(byte) for byte in reversed(raw)) + ".in-addr.arpa"
    except OSError:
        pass
    try:
        raw = socket.inet_pton(socket.AF_INET6, host)
    except OSError:
        return None
    return ".".join(reversed(raw.hex())) + ".ip6.arpa"


def server_address(text: str) -> tuple[int, tuple[str, int]] | None:
    """(family, (address, port)) of a server as a person writes it; None where it is none."""
    host, port = text, PORT
    if text.count(":") == 1:
        host, digits = text.split(":")
        port = int(digits) if digits.isdigit() else PORT
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_DGRAM)
    except OSError:
        return None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def questions(host: str, kinds: list[int], search: Sequence[str]) -> list[tuple[str, int]]:
    """(name, kind) of every query, in the order in which they are sent."""
    reverse = reverse_name(host)
    if not kinds:
        kinds = [TYPES["ptr"]] if reverse else [TYPES["a"], TYPES["aaaa"]]
    if reverse and kinds == [TYPES["ptr"]]:
        return [(reverse, TYPES["ptr"])]
    names = [host]
    if search and "." not in host:
        names = [f"{host}.{domain}" for domain in search]
    return [(name, kind) for kind in kinds for name in names]


def ask(
    server: tuple[int, tuple[str, int]], queries: Sequence[Query], write: Callable[[str], object]
) -> bool:
    """Send all, print answers as they come; True when every query has an answer."""
    family, address = server
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.connect(address)
        by_number = {query.packet[:2]: query for query in queries}
        started = time.monotonic()
        resend_at = started
        while True:
            waiting = [query for query in queries if not query.done]
            if not waiting:
                return True
            now = time.monotonic()
            if now - started >= TIMEOUT:
                return False
            if now >= resend_at:
                for query in waiting:
                    udp.send(query.packet)
                resend_at = now + RESEND
            if not select.select([udp], [], [], min(resend_at, started + TIMEOUT) - now)[0]:
                continue
            message = udp.recv(65535)
            asked = by_number.get(message[:2])
            if asked is not None and not asked.done:
                receive(udp, asked, message, write)


def receive(
    udp: socket.socket, query: Query, message: bytes, write: Callable[[str], object]
) -> None:
    try:
        text, rcode = answer_text(message, query.name)
    except AnswerError:
        text, rcode = f"*** Can't find {query.name}: Parse error\n", 1
    if rcode == SERVFAIL and query.failures < SERVFAIL_RETRIES:
        query.failures += 1
        udp.send(query.packet)
        return
    query.done = True
    query.failed = bool(rcode)
    write(text + "\n")


def parse_arguments(argv: Sequence[str]) -> tuple[list[int], str, str | None]:
    """(types, host, server); raises ValueError with what to print on stderr."""
    kinds: list[int] = []
    words: list[str] = []
    for word in argv:
        if not word.startswith("-") or words:
            words.append(word)
            continue
        option, _, value = word.lstrip("-").partition("=")
        if option in ("type", "querytype"):
            if value.lower() not in TYPES:
                raise ValueError(f'nslookup: invalid query type "{value}"\n')
            kinds.append(TYPES[value.lower()])
        elif option != "debug":
            raise ValueError(f"nslookup: unrecognized option '{word}'\n{USAGE}")
    if not 1 <= len(words) <= 2:
        raise ValueError(USAGE)
    return kinds, words[0], words[1] if len(words) > 1 else None


def nameservers(resolv_conf: str) -> tuple[list[str], list[str]]:
    """The servers to ask and the search domains; without a server, this machine is asked."""
    servers, search = read_resolv_conf(resolv_conf)
    return servers or ["127.0.0.1"], search


def main(
    argv: Sequence[str],
    write: Callable[[str], object],
    complain: Callable[[str], object],
    resolv_conf: str = RESOLV_CONF,
) -> int:
    try:
        kinds, host, server = parse_arguments(argv)
    except ValueError as error:
        complain(str(error))
        return 1
    servers, search = ([server], []) if server else nameservers(resolv_conf)
    first = int.from_bytes(os.urandom(2), "big")
    try:
        queries = [
            Query((first + index) & 0xFFFF, name, kind)
            for index, (name, kind) in enumerate(questions(host, kinds, search))
        ]
    except ValueError:
        complain(f"nslookup: bad address '{host}'\n")
        return 1
    for text in servers:
        address = server_address(text)
        if address is None:
            complain(f"nslookup: bad address '{text}'\n")
            return 1
        host_part = f"[{address[1][0]}]" if address[0] == socket.AF_INET6 else address[1][0]
        shown = f"{host_part}:{address[1][1]}"
        pieces: list[str] = []
        try:
            answered = ask(address, queries, pieces.append)
        except OSError as error:
            complain(f"nslookup: write to '{text}': {error.strerror}\n")
            answered = False
        if pieces:
            write(f"Server:\t\t{text}\nAddress:\t{shown}\n\n" + "".join(pieces))
        if answered:
            return 1 if any(query.failed for query in queries) else 0
        if pieces:
            break
    write(";; connection timed out; no servers could be reached\n\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout.write, sys.stderr.write))
