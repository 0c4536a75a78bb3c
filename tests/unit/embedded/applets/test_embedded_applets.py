"""The applets: outputs, streams and exit codes as recorded from BusyBox 1.37 in a real pod."""

from __future__ import annotations

import errno
import itertools
import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dnslib import QTYPE, RCODE, RR, A, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.applets import nc, nslookup, wget

CORPUS = Path(__file__).parents[4].parent / "shared" / "k8s-golden" / "v1.36.2"
FOLDER = Path(nslookup.__file__).parent
RECORDED_SERVER = "10.43.0.10"


def recorded(tool: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(CORPUS.glob("*/*.probe.json")):
        for command in json.loads(file.read_text()).get("commands", []):
            if command["cmd"].split()[0] == tool and "<" not in command["cmd"]:
                yield f"{file.parent.name}/{file.name}: {command['cmd']}", command


@contextmanager
def dns(answer: Callable[[str, str], Any]) -> Iterator[int]:
    """A server on loopback; `answer` gives addresses, an rcode or raw bytes. Answers its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        port: int = udp.getsockname()[1]

        def serve() -> None:
            while True:
                packet, client = udp.recvfrom(65535)
                if not packet:
                    return
                request = DNSRecord.parse(packet)
                name, kind = str(request.q.qname).rstrip("."), QTYPE[request.q.qtype]
                found = answer(name, kind)
                if isinstance(found, bytes):
                    udp.sendto(packet[:2] + found, client)
                    continue
                reply = request.reply(ra=1, aa=1)
                if isinstance(found, int):
                    reply.header.rcode = found
                else:
                    for address in found:
                        reply.add_answer(RR(request.q.qname, QTYPE.A, rdata=A(address), ttl=5))
                udp.sendto(reply.pack(), client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield port
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"", ("127.0.0.1", port))
            thread.join()


def run(main: Callable[..., int], *argv: str, **options: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of an applet, run in this process."""
    out: list[str] = []
    err: list[str] = []
    streams = (out.append, err.append) if main is nslookup.main else (err.append,)
    code = main(list(argv), *streams, **options)
    return code, "".join(out), "".join(err)


def paragraphs(text: str) -> tuple[str, list[str]]:
    """The head, and the answers in no order: they are printed as they arrive."""
    head, _, rest = text.partition("\n\n")
    answers: list[str] = []
    for line in rest.splitlines():
        if line.startswith(("**", "Name:", "***")):
            answers.append(line)
        elif line:
            answers[-1] += f"\n{line}"
    blank = rest.count("\n") - sum(a.count("\n") + 1 for a in answers)
    return head, [*sorted(answers), f"and {blank} empty lines"]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recordings are not here")
def test_nslookup_prints_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = 0
    for where, command in recorded("nslookup"):
        zone: dict[str, list[str]] = {}
        lines = command["stdout"].splitlines()
        for line, following in itertools.pairwise(lines):
            if line.startswith("Name:"):
                zone.setdefault(line.split()[1], []).append(following.split()[1])
        namespace = where.partition("/")[0]
        for line in lines:
            if ".svc.cluster.local" in line and "can't find" in line:
                parts = line.split("'t find ")[1].split(":")[0].split(".")
                namespace = parts[1] if parts[1] != "svc" else namespace
            elif line.startswith("Name:"):
                namespace = line.split()[1].split(".")[-4]

        def answer(name: str, kind: str, zone: dict[str, list[str]] = zone) -> Any:
            if name not in zone:
                return RCODE.NXDOMAIN
            return zone[name] if kind == "A" else []

        conf = tmp_path / "resolv.conf"
        conf.write_text(
            f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
            "nameserver 127.0.0.1\noptions ndots:5\n"
        )
        with dns(answer) as port:
            monkeypatch.setattr(nslookup, "PORT", port)
            argv = command["cmd"].split()[1:]
            code, out, err = run(nslookup.main, *argv, resolv_conf=str(conf))
        wanted = command["stdout"].replace(f"{RECORDED_SERVER}:53", f"127.0.0.1:{port}")
        wanted = wanted.replace(RECORDED_SERVER, "127.0.0.1")
        assert paragraphs(out) == paragraphs(wanted), where
        assert (code, err) == (command["exit_code"], command["stderr"]), where
        checked += 1
    assert checked > 25


def test_nslookup_tries_again_after_servfail() -> None:
    asked: list[str] = []

    def answer(name: str, kind: str) -> Any:
        asked.append(kind)
        return RCODE.SERVFAIL if asked.count(kind) < 3 else (["10.0.0.1"] if kind == "A" else [])

    with dns(answer) as port:
        code, out, _ = run(nslookup.main, "a.b", f"127.0.0.1:{port}")
    assert code == 0
    assert "Address: 10.0.0.1\n" in out


def test_nslookup_gives_up_on_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nslookup, "TIMEOUT", 0.05)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        code, out, err = run(nslookup.main, "a.b", f"127.0.0.1:{silent.getsockname()[1]}")
    assert (code, err) == (1, "")
    assert out == ";; connection timed out; no servers could be reached\n\n"


def test_nslookup_says_when_nobody_listens() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{closed.getsockname()[1]}"
    code, out, err = run(nslookup.main, "a.b", server)
    assert code == 1
    assert err == f"nslookup: write to '{server}': Connection refused\n"
    assert out == ";; connection timed out; no servers could be reached\n\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], nslookup.USAGE),
        (["-type=none", "x"], 'nslookup: invalid query type "none"\n'),
        (["-what", "x"], f"nslookup: unrecognized option '-what'\n{nslookup.USAGE}"),
        (["a", "b", "c"], nslookup.USAGE),
        (["a" * 64 + ".b", "127.0.0.1"], f"nslookup: bad address '{'a' * 64}.b'\n"),
        (["a..b", "127.0.0.1"], "nslookup: bad address 'a..b'\n"),
    ],
)
def test_nslookup_refuses(argv: list[str], message: str) -> None:
    assert run(nslookup.main, *argv) == (1, "", message)


def test_nslookup_asks_for_addresses_backwards() -> None:
    assert nslookup.questions("10.42.0.4", [], ["x"]) == [("4.0.42.10.in-addr.arpa", 12)]
    assert nslookup.questions("::1", [], [])[0][0] == "1" + ".0" * 31 + ".ip6.arpa"


def _message(kind: int, data: bytes) -> bytes:
    question = b"\x01x\x00" + struct.pack(">HH", kind, 1)
    record = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 5, len(data)) + data
    return b"\x00\x00" + struct.pack(">HHHHH", 0x8580, 1, 1, 0, 0) + question + record


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("ns", b"\x01a\x00", "x\tnameserver = a\n"),
        ("cname", b"\x01a\x00", "x\tcanonical name = a\n"),
        ("ptr", b"\x01a\xc0\x0c", "x\tname = a.x\n"),
        ("mx", b"\x00\x0a\x01a\x00", "x\tmail exchanger = 10 a\n"),
        ("txt", b"\x05hello", 'x\ttext = "hello"\n'),
        ("srv", struct.pack(">HHH", 1, 2, 80) + b"\x01a\x00", "x\tservice = 1 2 80 a\n"),
        ("aaaa", b"\x00" * 15 + b"\x01", "Name:\tx\nAddress: ::1\n"),
        (
            "soa",
            b"\x01a\x00\x01b\x00" + struct.pack(">IIIII", 1, 2, 3, 4, 70000),
            "x\n\torigin = a\n\tmail addr = b\n\tserial = 1\n\trefresh = 2\n\tretry = 3\n"
            "\texpire = 4\n\tminimum = 70000\n",
        ),
    ],
)
def test_nslookup_shows_records(kind: str, data: bytes, text: str) -> None:
    assert nslookup.answer_text(_message(nslookup.TYPES[kind], data), "x") == (text, 0)


def test_nslookup_marks_answers_without_authority() -> None:
    message = bytearray(_message(1, bytes(4)))
    message[2] &= ~0x04
    text, _ = nslookup.answer_text(bytes(message), "x")
    assert text.startswith("Non-authoritative answer:\nName:\tx\n")


@given(st.binary(max_size=300))
def test_nslookup_survives_any_answer(data: bytes) -> None:
    for message in (data, b"\x00\x00" + struct.pack(">HHHHH", 0x8580, 1, 3, 0, 0) + data):
        try:
            nslookup.answer_text(message, "x")
        except nslookup.AnswerError:
            continue


# nc


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def test_nc_connects(listening: int) -> None:
    assert run(nc.main, "-z", "-w", "3", "127.0.0.1", str(listening)) == (0, "", "")
    shown = f"127.0.0.1 (127.0.0.1:{listening}) open\n"
    assert run(nc.main, "-zvw3", "127.0.0.1", str(listening)) == (0, "", shown)
    shown = f"localhost (127.0.0.1:{listening}) open\n"
    assert run(nc.main, "-zv", "localhost", str(listening)) == (0, "", shown)


def test_nc_is_refused_without_a_word(closed: int) -> None:
    for flags in ("-z", "-zv"):
        assert run(nc.main, flags, "-w", "3", "127.0.0.1", str(closed)) == (1, "", "")


def test_nc_does_not_know_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(nc.socket, "getaddrinfo", unknown)
    assert run(nc.main, "-z", "web", "80") == (1, "", "nc: bad address 'web'\n")


def test_nc_says_that_it_timed_out_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> Any:
        raise BlockingIOError(errno.EINPROGRESS, "in progress")

    monkeypatch.setattr(nc, "connect", connect)
    assert run(nc.main, "-z", "-w", "3", "127.0.0.1", "80") == (1, "", "")
    message = "nc: 127.0.0.1 (127.0.0.1:80): Connection timed out\n"
    assert run(nc.main, "-zv", "-w", "3", "127.0.0.1", "80") == (1, "", message)


def test_nc_carries_data_both_ways() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        received: list[bytes] = []

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(1000):
                    received.append(data)
                connection.sendall(b"answer")

        thread = threading.Thread(target=serve)
        thread.start()
        argv = [sys.executable, "-ISE", str(FOLDER / "nc.py"), "127.0.0.1"]
        done = subprocess.run(
            [*argv, str(server.getsockname()[1])],
            input=b"question",
            capture_output=True,
            check=True,
        )
        thread.join()
    assert (b"".join(received), done.stdout, done.stderr) == (b"question", b"answer", b"")


@pytest.mark.parametrize(
    ("argv", "start"),
    [
        ([], "Usage: nc"),
        (["-w"], "nc: option requires an argument -- 'w'\n"),
        (["-Q", "h", "1"], "nc: invalid option -- 'Q'\n"),
        (["-w", "x", "h", "1"], "nc: invalid number 'x'\n"),
        (["-l", "h", "1", "2"], "Usage: nc"),
        (["-lk", "-e"], "nc: option requires an argument -- 'e'\n"),
        (["-l", "-s", "127.0.0.1", "-p", "65536"], "nc: invalid number '65536'\n"),
        (["-l", "-s", "192.0.2.1", "-p", "1"], "nc: bind: "),
        (["-l", "-w", "1", "-s", "127.0.0.1"], "nc: timeout\n"),
        (["h"], "Usage: nc"),
    ],
)
def test_nc_refuses(argv: list[str], start: str) -> None:
    code, _, err = run(nc.main, *argv)
    assert code == 1
    assert err.startswith(start)


@contextmanager
def listener(*argv: str, **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``nc -v -s 127.0.0.1`` with further arguments, and the port that it says it listens on."""
    command = [sys.executable, "-ISE", str(FOLDER / "nc.py"), "-v", "-s", "127.0.0.1", *argv]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | options
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            assert line.startswith("listening on 127.0.0.1:"), line
            yield process, int(line.removesuffix(" ...\n").rpartition(":")[2])
        finally:
            process.kill()


def converse(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1000), b""))


@pytest.mark.parametrize("flags", [["-lk"], ["-l", "-k"]])
def test_nc_serves_every_connection_with_a_program_of_its_own(flags: list[str]) -> None:
    with (
        listener(*flags, "-p", "0", "-e", "cat") as (_, port),
        socket.create_connection(("127.0.0.1", port), timeout=30) as held,
    ):
        for data in (b"one", b"two"):  # beside one that is still being served
            assert converse(port, data) == data
        held.sendall(b"held")
        assert held.recv(10) == b"held"


def test_nc_passes_arguments_to_the_program_and_says_who_connected() -> None:
    with listener("-le", "sh", "-c", 'read -r word; echo "$0 $word"', "got") as (process, port):
        assert converse(port, b"it\n") == b"got it\n"
        assert process.wait(30) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert said.startswith(f"connect to 127.0.0.1:{port} from 127.0.0.1:")


def test_nc_says_when_there_is_no_such_program() -> None:
    with listener("-l", "-e", "/no/such") as (process, port):
        assert converse(port, b"") == b""
        assert process.wait(30) == 127
        assert process.stderr is not None
        last = process.stderr.read().decode().splitlines()[-1]
        assert last == "nc: can't execute '/no/such': No such file or directory"


def test_nc_listens_once_without_a_program() -> None:
    with listener("-lk", stdin=subprocess.DEVNULL) as (process, port):
        assert converse(port, b"question") == b""
        assert process.wait(30) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"question"


def test_nc_takes_only_the_caller_that_it_was_told() -> None:
    with listener("-l", "-e", "cat", "127.0.0.2") as (process, port):  # `-e` takes all that follows
        assert converse(port, b"") == b""
        assert process.wait(30) == 1  # cat has no such file
    with listener("-l", "127.0.0.2", "-e", "echo", "hello") as (process, port):
        assert converse(port, b"") == b""
        assert process.poll() is None
        with socket.socket() as caller:
            caller.bind(("127.0.0.2", 0))
            caller.connect(("127.0.0.1", port))
            assert caller.recv(10) == b"hello\n"


def test_nc_answers_packets() -> None:
    with (
        listener("-lu", "-p", "0", "-e", "cat") as (_, port),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller,
    ):
        caller.settimeout(30)
        caller.sendto(b"echo\n", ("127.0.0.1", port))
        assert caller.recv(100) == b"echo\n"


def test_nc_listens_on_the_pods_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nc.socket, "gethostbyname", lambda _: "127.0.0.3")
    made = nc.Listener(socket.SOCK_STREAM, ("", 0), peer=None, seconds=0)
    assert made.address[0] == "127.0.0.3"
    made.close()

    def unknown(_: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(nc.socket, "gethostbyname", unknown)
    assert nc.own_address() == "0.0.0.0"


# wget


@contextmanager
def http(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that gives these answers, one a connection; answers port and requests."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        requests: list[bytes] = []

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    data = b""
                    while b"\r\n\r\n" not in data and (piece := connection.recv(65536)):
                        data += piece
                    requests.append(data)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], requests
        finally:
            thread.join()


PLAIN = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n3;x\r\nlo\n\r\n0\r\n\r\n"
)
OPEN_ENDED = b"HTTP/1.0 200 OK\r\n\r\nhello\n"


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, OPEN_ENDED])
def test_wget_fetches(answer: bytes, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with http(answer) as (port, requests):
        assert run(wget.main, "-T", "3", "-qO-", f"http://127.0.0.1:{port}/a?b=c#d") == (0, "", "")
    assert capfdbinary.readouterr().out == b"hello\n"
    assert requests == [
        f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: Wget\r\n"
        "Connection: close\r\n\r\n".encode()
    ]


def test_wget_tells_what_it_does(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with http(PLAIN) as (port, _):
        code, _, err = run(wget.main, "-S", "-O", "-", f"http://127.0.0.1:{port}/")
    assert code == 0
    assert err == (
        f"Connecting to 127.0.0.1:{port} (127.0.0.1:{port})\n"
        "  HTTP/1.0 200 OK\n  Content-Length: 6\n  \n"
        "writing to stdout\n"
        "-                    100% |********************************|     6  0:00:00 ETA\n"
        "written to stdout\n"
    )
    assert capfdbinary.readouterr().out == b"hello\n"


def test_wget_saves_under_the_last_part(tmp_path: Path) -> None:
    with http(PLAIN, PLAIN) as (port, _):
        url = f"http://127.0.0.1:{port}/dir/file.txt?x"
        assert run(wget.main, "-q", "-P", str(tmp_path), url)[0] == 0
        code, _, err = run(wget.main, "-q", "-P", str(tmp_path), url)
    assert (tmp_path / "file.txt").read_bytes() == b"hello\n"
    assert (code, err) == (1, f"wget: can't open '{tmp_path}/file.txt': File exists\n")


def test_wget_spider_asks_for_the_head_only() -> None:
    with http(b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 404 Gone\r\n\r\n") as (port, requests):
        url = f"http://127.0.0.1:{port}/"
        assert run(wget.main, "-q", "--spider", url) == (0, "", "")
        error = "wget: server returned error: HTTP/1.0 404 Gone\n"
        assert run(wget.main, "-q", "--spider", url) == (1, "", error)
    assert requests[0].startswith(b"HEAD / ")


def test_wget_posts() -> None:
    with http(PLAIN) as (port, requests):
        argv = ["-qO/dev/null", "--post-data", "a=b", "--header", "X-Mark: 1", "-U", "me"]
        assert run(wget.main, *argv, f"127.0.0.1:{port}") == (0, "", "")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST / HTTP/1.1\r\n")
    assert b"\r\nX-Mark: 1\r\n" in head
    assert b"\r\nUser-Agent: me\r\n" in head
    assert b"\r\nContent-Length: 3" in head
    assert body in (b"a=b", b"")


def test_wget_follows_redirects() -> None:
    moved = b"HTTP/1.0 302 Found\r\nLocation: /there\r\n\r\n"
    with http(moved, PLAIN) as (port, requests):
        assert run(wget.main, "-qO/dev/null", f"http://127.0.0.1:{port}/here") == (0, "", "")
    assert requests[1].startswith(b"GET /there ")
    with http(*[moved] * 6) as (port, _):
        code, _, err = run(wget.main, "-qO-", f"http://127.0.0.1:{port}/here")
    assert (code, err) == (1, "wget: too many redirections\n")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            b"HTTP/1.0 400 Bad Request\r\nX: y\r\n\r\n",
            "server returned error: HTTP/1.0 400 Bad Request",
        ),
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "server returned error: HTTP/1.1 503 Service Unavailable",
        ),
        (b"", "error getting response"),
        (b"HTTP/1.0 200 OK\r\n", "error getting response"),
        (b"nonsense\r\n", "bad response from server: nonsense"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nhello", "connection closed prematurely"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "bad chunk in the response",
        ),
        (b"HTTP/1.0 302 Found\r\n\r\n", "server returned error: HTTP/1.0 302 Found"),
    ],
)
def test_wget_fails_with_one_line(answer: bytes, error: str) -> None:
    with http(answer) as (port, _):
        code, _, err = run(wget.main, "-qO/dev/null", f"http://127.0.0.1:{port}/")
    assert (code, err) == (1, f"wget: {error}\n")


def test_wget_is_refused_in_the_recorded_words(closed: int) -> None:
    error = "wget: can't connect to remote host (127.0.0.1): Connection refused\n"
    assert run(wget.main, "-T", "3", "-qO-", f"http://127.0.0.1:{closed}/") == (1, "", error)


def test_wget_does_not_know_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(wget.socket, "getaddrinfo", unknown)
    assert run(wget.main, "-T3", "-qO-", "http://web/") == (1, "", "wget: bad address 'web'\n")


def test_wget_gives_up_on_silence(listening: int) -> None:
    url = f"http://127.0.0.1:{listening}/"
    assert run(wget.main, "-T", "1", "-qO-", url) == (1, "", "wget: download timed out\n")


@pytest.mark.parametrize(
    ("argv", "start"),
    [
        ([], "Usage: wget"),
        (["-Z", "x"], "wget: invalid option -- 'Z'\n"),
        (["--what", "x"], "wget: unrecognized option '--what'\n"),
        (["-T", "x", "y"], "wget: invalid number 'x'\n"),
        (["-O"], "wget: option requires an argument -- 'O'\n"),
        (["https://x/"], "wget: not an http or ftp url: https://x/\n"),
        (["http://x:y/"], "wget: bad port 'y'\n"),
        (["--post-file", "/no/such", "x"], "wget: "),
    ],
)
def test_wget_refuses(argv: list[str], start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(wget.socket, "getaddrinfo", unknown)
    code, _, err = run(wget.main, *argv)
    assert code == 1
    assert err.startswith(start)


@pytest.mark.parametrize(
    ("size", "text"), [(6, "    6"), (99999, "99999"), (204800, " 200k"), (3 << 30, "3072M")]
)
def test_wget_sizes_have_five_columns(size: int, text: str) -> None:
    assert wget.size_text(size) == text


@pytest.mark.parametrize("name", ["nslookup", "nc", "wget"])
def test_applets_need_nothing_but_a_bare_interpreter(name: str) -> None:
    argv = [sys.executable, "-ISE", str(FOLDER / f"{name}.py")]
    done = subprocess.run(argv, capture_output=True, check=False, env={})
    assert done.returncode == 1
    assert done.stderr.startswith(f"Usage: {name}".encode())
