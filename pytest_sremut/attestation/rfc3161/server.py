"""A small HTTP server in front of a self-issued authority, for tests and rehearsals.

It listens on loopback unless told otherwise, takes `POST` with `application/timestamp-query`
(RFC 3161, 3.4) at any path, and gives its root at `GET /root.pem`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority

__all__ = ["AuthorityServer", "serve"]

QUERY_TYPE = "application/timestamp-query"
REPLY_TYPE = "application/timestamp-reply"
_MAX_QUERY = 16 * 1024  # bytes; a query takes about 100
_READ_TIMEOUT = 10.0  # seconds a client may take over its request


class AuthorityServer(ThreadingHTTPServer):
    """Serves one authority until `shutdown`."""

    daemon_threads = True

    def __init__(self, authority: SelfIssuedAuthority, host: str, port: int) -> None:
        self.authority = authority
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"


@contextmanager
def serve(
    authority: SelfIssuedAuthority, *, host: str = "127.0.0.1", port: int = 0
) -> Iterator[AuthorityServer]:
    """Serve `authority` from a thread while the block runs. Port 0 takes a free one."""
    server = AuthorityServer(authority, host, port)
    thread = threading.Thread(
        target=server.serve_forever, args=(0.05,), name="sremut-tsa", daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: AuthorityServer
    timeout = _READ_TIMEOUT
    protocol_version = "HTTP/1.1"
    server_version = "sremut-tsa"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path != "/root.pem":
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"POST a query, or GET /root.pem\n")
            return
        root = x509.load_der_x509_certificate(self.server.authority.chain[-1])
        self._answer(HTTPStatus.OK, "application/x-pem-file", root.public_bytes(Encoding.PEM))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _MAX_QUERY:
            self.close_connection = True  # the body was not read
            self._answer(
                HTTPStatus.BAD_REQUEST, "text/plain", b"a query of stated length, please\n"
            )
            return
        body = self.rfile.read(int(length))
        if self.headers.get_content_type() != QUERY_TYPE:
            self._answer(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "text/plain", QUERY_TYPE.encode() + b"\n"
            )
            return
        self._answer(HTTPStatus.OK, REPLY_TYPE, self.server.authority.stamp(body))

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a test's output is not the place for an access log."""
