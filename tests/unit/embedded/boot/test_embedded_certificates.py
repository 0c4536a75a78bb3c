"""The API's certificates: verified by its own authority, for its own names, and by nobody else."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_sremut.embedded.boot import kubeconfig
from pytest_sremut.embedded.boot.certificates import ServerIdentity, create


@pytest.fixture(scope="module")
def identity() -> ServerIdentity:
    return create(now=datetime.now(UTC), addresses=("127.0.0.1",), names=("kubernetes.default",))


def handshake(identity: ServerIdentity, scratch: Path, *, trusted: str, name: str) -> None:
    """A client that trusts `trusted` speaks with the server as `name`."""
    context = identity.context(scratch)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with context.wrap_socket(theirs, server_side=True) as server:
                server.sendall(b"hello")
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client = ssl.create_default_context(cadata=trusted)
        with client.wrap_socket(ours, server_hostname=name) as connection:
            assert connection.recv(5) == b"hello"
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("name", ["127.0.0.1", "kubernetes.default"])
def test_clients_with_the_root_verify_the_server(
    identity: ServerIdentity, tmp_path: Path, name: str
) -> None:
    handshake(identity, tmp_path, trusted=identity.root, name=name)
    assert list(tmp_path.iterdir()) == []  # no key is left behind


def test_other_names_and_other_roots_do_not(identity: ServerIdentity, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(identity, tmp_path, trusted=identity.root, name="example.com")
    other = create(now=datetime.now(UTC), addresses=("127.0.0.1",), names=())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(identity, tmp_path, trusted=other.root, name="127.0.0.1")


def test_the_kubeconfig_carries_token_and_root(identity: ServerIdentity, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.write(path, name="n", server="https://x", token="t0ken", root=identity.root)
    assert kubeconfig.credentials(path) == ("t0ken", identity.root)
    assert "PRIVATE" not in path.read_text()
    kubeconfig.write(path, name="n", server="http://x")
    assert kubeconfig.credentials(path) == ("", "")
