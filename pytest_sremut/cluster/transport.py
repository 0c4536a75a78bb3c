"""HTTP to an API server: bytes out, bytes or a named reason in.

Rules: every call has its own time limit, for connecting and for the whole answer. Nothing is
retried, but for two things: a read whose connection was reset (as a kept-alive one is that the
server has closed meanwhile) is sent once more, on a new connection; a read that is told to come
again (429 with `Retry-After`) does so, twice at most and within its time. A request that could have
changed something is never sent twice. No redirect is followed.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from pytest_sremut.errors import UsageError
from pytest_sremut.ground.durable.text_redaction import protect, redact_text

if TYPE_CHECKING:
    import urllib3

__all__ = ["Answer", "NoAnswer", "NoAnswerError", "Transport"]

_CONNECT_TIMEOUT: Final = 5.0
_CHUNK: Final = 1 << 16
_LARGEST_ANSWER: Final = 256 << 20
_COMES_AGAIN: Final = 2  # times, for a read that is told to


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    content_type: str  # lower case, without parameters
    body: bytes
    retry_after: float | None = None  # seconds after which a throttled caller may come again


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """No whole answer came.

    `reason` is one of Refused, Reset, Timeout, Truncated, TLS, Unreachable.
    """

    reason: str
    message: str


class NoAnswerError(Exception):
    """Carries a `NoAnswer` out of a stream."""

    def __init__(self, answer: NoAnswer) -> None:
        self.answer = answer
        super().__init__(f"{answer.reason}: {answer.message}")


class Transport:
    """One server as one kubeconfig context describes it. Safe to use from several threads."""

    def __init__(self, configuration: Any) -> None:
        from kubernetes.client import ApiClient

        # Not the library's defaults: urllib3 would send a failed request three times more.
        configuration.retries = False
        # The proxy stays the one that was found when the file was read. The library would look for
        # it in the environment again with each token it refreshes, in whatever thread, while the
        # main one takes a variable away after a reading.
        configuration.proxy = configuration.proxy
        self._configuration = configuration
        self._client = ApiClient(configuration=configuration)
        self._pool = self._client.rest_client.pool_manager

    @classmethod
    def load(cls, kubeconfig: Path, context: str) -> Transport:
        """Read one context of one kubeconfig file, never the library's global default.

        Raises:
            UsageError: The file or the context cannot be used; the message says why.
        """
        import yaml
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config

        configuration = type.__call__(Configuration)
        read: Any = load_kube_config  # untyped in some versions of the library
        try:
            read(
                config_file=str(kubeconfig),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        except (ConfigException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
            # A YAML error quotes the line that it does not like.
            cause = redact_text(" ".join(str(error).split())) or type(error).__name__
            raise UsageError(f"kubeconfig {kubeconfig}, context {context!r}: {cause}") from error
        return cls(configuration)

    @property
    def server(self) -> str:
        """Base address of the API server."""
        return str(self._configuration.host).rstrip("/")

    @property
    def configuration(self) -> Any:
        """The library's Configuration, for the WebSocket's TLS settings."""
        return self._configuration

    def authorization(self) -> dict[str, str]:
        """Headers that authenticate; refreshed by the library where a token expires."""
        headers: dict[str, str] = {}
        for setting in self._configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        protect(secret for value in headers.values() for secret in _secrets_in(value))
        return headers

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout: float,
    ) -> Answer | NoAnswer:
        """Send one request and read its whole answer within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        answer = self._request_once(method, path, query, body, deadline)
        reset = isinstance(answer, NoAnswer) and answer.reason == "Reset"
        if reset and method == "GET" and time.monotonic() < deadline:
            self._pool.clear()
            answer = self._request_once(method, path, query, body, deadline)
        for _ in range(_COMES_AGAIN if method == "GET" else 0):
            pause = answer.retry_after if isinstance(answer, Answer) else None
            if pause is None or time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)  # the server names no event to wait for, only a time
            answer = self._request_once(method, path, query, body, deadline)
        return answer

    def stream(
        self, path: str, *, query: Mapping[str, str], content_type: str, timeout: float
    ) -> Iterator[Answer | bytes]:
        """GET whose answer is read as it comes.

        Yields either one `Answer` (the status was not 200, or it is of another content type than
        this one or none) or chunks of the body. Ends when the server ends it, or quietly at
        `timeout`. Raises NoAnswerError.
        """
        deadline = time.monotonic() + timeout
        try:
            response = self._send("GET", path, query, None, deadline)
        except _transport_errors() as error:
            raise NoAnswerError(_name(error)) from error
        try:
            if response.status != 200 or _content_type(response) not in (content_type, ""):
                yield _answer(response, self._read(response, deadline))
                return
            yield from self._chunks(response, deadline)
        except _transport_errors() as error:
            no_answer = _name(error)
            if no_answer.reason == "Timeout" and time.monotonic() >= deadline - 0.05:
                return
            raise NoAnswerError(no_answer) from error
        finally:
            response.close()

    def close(self) -> None:
        """Close every kept connection."""
        self._pool.clear()

    # -- inside ----------------------------------------------------------------------------------

    def _request_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        deadline: float,
    ) -> Answer | NoAnswer:
        try:
            response = self._send(method, path, query, body, deadline)
            try:
                answer = _answer(response, self._read(response, deadline))
            except BaseException:
                response.close()
                raise
            response.release_conn()
        except _transport_errors() as error:
            return _name(error)
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        deadline: float,
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        remaining = max(deadline - time.monotonic(), 0.001)
        headers = {"Accept": "application/json", **self.authorization()}
        payload = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            payload = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        url = f"{self.server}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        response: urllib3.BaseHTTPResponse = self._pool.request(
            method,
            url,
            body=payload,
            headers=headers,
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=min(_CONNECT_TIMEOUT, remaining), read=remaining),
        )
        return response

    @staticmethod
    def _read(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        for chunk in response.stream(_CHUNK, decode_content=True):
            parts.append(chunk)
            size += len(chunk)
            # The socket's own limit is per read: a server that trickles is stopped here.
            if time.monotonic() > deadline:
                raise TimeoutError("the answer did not end in time")
            if size > _LARGEST_ANSWER:
                raise _TooLargeError(f"the answer is larger than {_LARGEST_ANSWER} bytes")
        return b"".join(parts)

    @staticmethod
    def _chunks(response: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
        if response.chunked:
            pieces: Iterator[bytes] = response.stream(_CHUNK, decode_content=True)
        else:  # `stream` would wait until a whole block is there
            pieces = iter(lambda: response.read1(_CHUNK, decode_content=True), b"")
        for piece in pieces:
            yield piece
            if time.monotonic() >= deadline:
                return


def _secrets_in(header: str) -> list[str]:
    """The credential of an `Authorization` header; of a basic one also the password in it."""
    scheme, _, credential = header.rpartition(" ")
    if scheme.lower() != "basic":
        return [credential]
    with contextlib.suppress(ValueError):
        return [credential, base64.b64decode(credential).decode().partition(":")[2]]
    return [credential]


class _TooLargeError(Exception):
    pass


def _transport_errors() -> tuple[type[BaseException], ...]:
    import urllib3.exceptions

    return (urllib3.exceptions.HTTPError, OSError, _TooLargeError)


def _answer(response: urllib3.BaseHTTPResponse, body: bytes) -> Answer:
    after = response.headers.get("Retry-After", "") if response.status == 429 else ""
    return Answer(
        status=response.status,
        content_type=_content_type(response),
        body=body,
        retry_after=float(after) if after.isascii() and after.isdigit() else None,
    )


def _content_type(response: urllib3.BaseHTTPResponse) -> str:
    return response.headers.get("Content-Type", "").split(";")[0].strip().lower()


def _name(error: BaseException) -> NoAnswer:
    """Tell the ways apart in which no answer came; the innermost cause decides."""
    from urllib3 import exceptions

    chain = list(_causes(error))
    message = redact_text(" ".join(str(chain[-1]).split())) or type(chain[-1]).__name__
    kinds: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
        ("Refused", (ConnectionRefusedError,)),
        ("TLS", (exceptions.SSLError,)),
        # Before the timeouts: in some versions of urllib3 it is one of them by inheritance.
        ("Unreachable", (exceptions.NewConnectionError,)),
        ("Timeout", (exceptions.TimeoutError, TimeoutError)),
        ("Truncated", (http.client.IncompleteRead, _TooLargeError)),
        ("Reset", (ConnectionError,)),
        ("Truncated", (exceptions.ProtocolError, exceptions.DecodeError)),
    )
    for reason, types in kinds:
        if any(isinstance(link, types) for link in chain):
            return NoAnswer(reason=reason, message=message)
    return NoAnswer(reason="Unreachable", message=message)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        nested = next((a for a in link.args if isinstance(a, BaseException)), None)
        link = nested or link.__cause__ or link.__context__
