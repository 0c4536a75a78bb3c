"""The pods' web server: serves its directory and nothing else."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.applets import httpd


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("secret")
    home = outside / "www"
    home.mkdir()
    (home / "index.html").write_text("front\n")
    (home / "a b.txt").write_text("text\n")
    (home / "link").symlink_to(outside / "secret")
    return home.resolve()


def ask(home: Path, line: str) -> tuple[int, bytes]:
    head, _, body = httpd.answer(line.encode() + b"\r\n\r\n", home).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_files_and_the_index(home: Path) -> None:
    assert ask(home, "GET / HTTP/1.1") == (200, b"front\n")
    assert ask(home, "GET /index.html?x=y HTTP/1.0") == (200, b"front\n")
    assert ask(home, "GET /a%20b.txt HTTP/1.1") == (200, b"text\n")
    assert ask(home, "HEAD / HTTP/1.1") == (200, b"")
    assert ask(home, "GET /nope HTTP/1.1")[0] == 404
    assert ask(home, "POST / HTTP/1.1")[0] == 501
    assert ask(home, "nonsense")[0] == 400


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "//../secret", "/link", "/\0"])
def test_nothing_above_the_directory(home: Path, path: str) -> None:
    assert ask(home, f"GET {path} HTTP/1.1")[0] == 404


@given(st.binary(max_size=60))
def test_any_request_is_answered_without_the_secret(home: Path, head: bytes) -> None:
    found = httpd.answer(head, home)
    assert found.startswith(b"HTTP/1.1 ")
    assert b"secret" not in found.partition(b"\r\n\r\n")[2]


def test_arguments() -> None:
    parsed = httpd.parse_arguments(["-f", "-p", "10.0.0.1:81", "-h", "/"])
    assert parsed == (True, "10.0.0.1", 81, Path("/"))
    assert httpd.parse_arguments(["-p", "8080"])[:3] == (False, "", 8080)
    for bad in (["-p"], ["-p", "0"], ["-p", "x"], ["-x"], ["file"]):
        with pytest.raises(httpd.UsageError, match="httpd: "):
            httpd.parse_arguments(bad)


def test_it_serves_over_a_socket(home: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listener, home), daemon=True).start()
    with socket.create_connection(listener.getsockname()) as connection:
        connection.sendall(b"GET / HT")
        connection.sendall(b"TP/1.1\r\n\r\n")
        data = b""
        while piece := connection.recv(1000):
            data += piece
    assert data.endswith(b"\r\n\r\nfront\n")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _serve(listener: socket.socket, home: Path) -> None:
    try:
        httpd.serve(listener, home)
    except OSError:
        return  # the test has ended
