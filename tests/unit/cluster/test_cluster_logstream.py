"""A log over connections that break, repeat, rotate and talk nonsense, at every point."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from http_script import HttpScript, Request, http, status
from hypothesis import given
from hypothesis import strategies as st
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import KubeClient
from pytest_sremut.cluster.logstream import LogAssembly, LogRead, read_log
from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.cluster.transport import Transport
from pytest_sremut.errors import ClusterError, ClusterUnavailableError

POD = ObjectRef(kind="Pod", namespace="ns", name="load")
START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def line(second: int, nanoseconds: int, text: str) -> bytes:
    at = (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{at}.{nanoseconds:09d}Z {text}".encode()


def since(lines: Sequence[bytes], moment: str) -> list[bytes]:
    """What a server sends that is asked from a whole second on."""
    return [item for item in lines if item[:19].decode() >= moment[:19]]


def served(lines: Sequence[bytes]) -> bytes:
    return b"".join(item + b"\n" for item in lines)


logs = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["", "a", "b", "Requests"])),
    max_size=20,
).map(lambda items: [line(*item) for item in sorted(items, key=lambda i: i[:2])])


def feed(assembly: LogAssembly, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        assert assembly.feed(data[start : start + size])


@given(log=logs, cuts=st.lists(st.integers(0, 400), max_size=6), size=st.integers(1, 64))
def test_no_line_is_lost_and_none_is_doubled(log: list[bytes], cuts: list[int], size: int) -> None:
    """Wherever connections break, and however often a line stands there by right."""
    assembly = LogAssembly()
    for cut in cuts:
        feed(assembly, served(since(log, assembly.connect()))[:cut], size)
    feed(assembly, served(since(log, assembly.connect())), size)
    result = assembly.result()
    assert result.data == served(log)
    assert result.gaps == ()
    assert result.noise == ()
    assert result.connections == len(cuts) + 1


@given(
    log=logs.map(lambda items: sorted(set(items))),
    steps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 400)), max_size=6),
)
def test_history_that_was_cut_is_told(log: list[bytes], steps: list[tuple[int, int]]) -> None:
    """A rotation takes the oldest lines away before a connection: none goes missing unseen."""
    assembly = LogAssembly()
    gone = 0
    begun = False
    for rotated, cut in [*steps, (0, 1 << 20)]:
        gone = max(gone, min(rotated, len(log)))
        feed(assembly, served(since(log[gone:], assembly.connect()))[:cut], 7)
        begun = begun or bool(assembly.data)
    kept = assembly.data.splitlines()
    assert kept == sorted(set(kept))
    # What came before the first line that was ever seen nobody can know of here: the numbers of
    # the rounds tell. And where nothing follows, nothing shows that something is missing.
    expected = [item for item in log if kept and kept[0] <= item <= kept[-1]]
    assert (expected != kept) <= bool(assembly.result().gaps)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    assembly = LogAssembly()
    assembly.connect()
    for chunk in chunks:
        assembly.feed(chunk)
    assembly.whole()
    for kept in assembly.data.splitlines():
        assert LogAssembly().feed(kept + b"\n")


def test_where_the_next_connection_begins() -> None:
    assembly = LogAssembly()
    assert assembly.connect() == ""
    assembly.feed(b"2026-11-30T12:00:01.999999999+02:00 x\n2026-11-30T12:00:09Z torn")
    assert assembly.connect() == "2026-11-30T12:00:01+02:00"
    assert assembly.data == b"2026-11-30T12:00:01.999999999+02:00 x\n"


def test_what_is_no_line_of_a_log() -> None:
    assembly = LogAssembly()
    assembly.connect()
    assert not assembly.feed(b"failed to create fsnotify watcher: too many open files\n")
    assert not assembly.feed(b"x" * (1 << 20) + b"y")
    assert assembly.result().noise == ("failed to create fsnotify watcher: too many open files",)


# -- over a socket -------------------------------------------------------------------------------

LOG = [line(number // 3, number, f"{number}: Running wrk2") for number in range(8)]
WHOLE = served(LOG)


class LogServer:
    """Serves the pod and its log; each connection for the log ends as the next of `endings` says.

    An ending is how many bytes are sent, and how the connection ends then: `close` (as if that
    were all), `truncate` (in the middle of a chunk), `reset`.
    """

    def __init__(self, script: HttpScript, *endings: tuple[int, str]) -> None:
        self.endings = list(endings)
        self.log = list(LOG)
        self.phase = "Running"
        self.asked: list[tuple[str, bool]] = []
        self.before: Callable[[], None] = lambda: None
        script.always(self._answer)

    def _answer(self, request: Request, connection: socket.socket) -> None:
        address = urlsplit(request.path)
        if not address.path.endswith("/log"):
            meta = {"name": "load", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
            body = {"kind": "Pod", "metadata": meta, "status": {"phase": self.phase}}
            connection.sendall(http(200, json.dumps(body).encode(), close=True))
            connection.close()
            return
        query = parse_qs(address.query)
        begin = query.get("sinceTime", [""])[0]
        self.asked.append((begin, "follow" in query))
        self.before()
        data = served(since(self.log, begin))
        size, how = self.endings.pop(0) if self.endings else (len(data), "close")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(head + b"Connection: close\r\n\r\n")
        part = data[:size]
        if part:
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if how == "close":
            connection.sendall(b"0\r\n\r\n")
        elif how == "truncate":
            connection.sendall(b"ff\r\nhalf")
        else:
            linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()


@pytest.fixture
def client(server: HttpScript, tmp_path: Path) -> Iterator[KubeClient]:
    made = KubeClient(Transport.load(write_kubeconfig(tmp_path, server.address), "test"))
    yield made
    made.close()


def read(client: KubeClient, *, wanted: int = len(LOG), timeout: float = 60) -> LogRead:
    return read_log(
        client, POD, enough=lambda data: data.count(b"\n") >= wanted, timeout=timeout, outage=60
    )


@pytest.mark.parametrize("how", ["close", "truncate", "reset"])
def test_broken_at_every_point(client: KubeClient, server: HttpScript, how: str) -> None:
    for size in (0, 1, 25, *range(30, len(WHOLE), 41), len(WHOLE) - 1):
        double = LogServer(server, (size, how), (size // 2, how))
        result = read(client)
        assert result.data == WHOLE, size
        assert result.gaps == ()
        assert double.asked[0] == ("", True)


def test_a_pod_that_has_ended_is_read_once_more_without_following(
    client: KubeClient, server: HttpScript
) -> None:
    """Its last line may have no newline, and a stream that was following may miss the end."""
    double = LogServer(server, (len(WHOLE) - 20, "close"))
    double.phase = "Succeeded"
    assert read(client, wanted=99).data == WHOLE
    assert [following for _, following in double.asked] == [True, False]
    assert double.asked[1][0] == "2026-11-30T12:00:02Z"


def test_a_log_that_was_rotated_meanwhile(client: KubeClient, server: HttpScript) -> None:
    double = LogServer(server, (len(served(LOG[:3])), "close"))
    double.before = lambda: double.log.__delitem__(slice(0, 5)) if len(double.asked) == 2 else None
    double.phase = "Succeeded"
    result = read(client)
    assert result.data == served([*LOG[:3], *LOG[5:]])
    (gap,) = result.gaps
    assert gap == f"between {LOG[2][:30].decode()} and {LOG[5][:30].decode()}"


def test_an_api_that_stays_away_is_no_short_log(client: KubeClient, server: HttpScript) -> None:
    server.always(status(503, "ServiceUnavailable"))
    with pytest.raises(ClusterUnavailableError, match="following the log of Pod ns/load"):
        read_log(client, POD, enough=lambda data: False, timeout=60, outage=0.1)


def test_a_pod_that_is_gone_has_no_log(client: KubeClient, server: HttpScript) -> None:
    LogServer(server, (10, "close"))
    server.reply(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
        status(404, "NotFound", name="load", kind="pods"),
    )
    with pytest.raises(ClusterError, match="gone"):
        read(client)


def test_time_is_over(client: KubeClient, server: HttpScript) -> None:
    double = LogServer(server, *[(40, "close")] * 50)
    assert read(client, timeout=0).data == b""
    assert len(double.asked) == 1


def test_complaints_of_the_kubelet_are_no_lines(client: KubeClient, server: HttpScript) -> None:
    body = served(LOG[:2]) + b"unable to retrieve container logs for containerd://x\n"
    LogServer(server)
    server.reply(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    result = read(client)
    assert result.data == WHOLE
    assert result.noise == ("unable to retrieve container logs for containerd://x",)
