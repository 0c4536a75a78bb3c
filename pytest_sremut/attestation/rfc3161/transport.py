"""Asking an authority over HTTP (RFC 3161, 3.4).

The client is the standard library's `urllib.request`: one small POST needs no event loop and no
connection pool, and it honours `http_proxy`, `https_proxy` and `no_proxy` and verifies TLS by the
system's roots without being told to (aiohttp, the other client among our dependencies, honours no
proxy unless asked and would have to be driven by a loop of its own).

Rules: every wait is bounded; only what may pass by itself is tried again (no connection, a server
error), with growing pauses; no redirect is followed, since a POST would become a GET of some page;
a body is read to a limit; what is not declared a timestamp reply is not taken for one. Whether the
reply is any good is for `verify`.
"""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_sremut.attestation.errors import (
    AuthorityAnswerError,
    AuthorityUnreachableError,
    NotATimestampError,
)
from pytest_sremut.attestation.rfc3161.reply import MAX_REPLY
from pytest_sremut.attestation.rfc3161.trust import PinnedRoot
from pytest_sremut.errors import UsageError

__all__ = ["HttpAuthority"]

_QUERY_TYPE = "application/timestamp-query"
_REPLY_TYPE = "application/timestamp-reply"
_CHUNK = 16 * 1024
_SHOWN = 60  # bytes of a foreign body that a message quotes


def _wait(seconds: float) -> None:
    """A pause that only the clock ends; nothing on our side can be watched instead."""
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAuthority:
    """An authority at a URL.

    Args:
        url: http or https, without credentials.
        timeout: Seconds for one connect, one read, and for one whole answer.
        attempts: How often a connection or server error is tried in all.
        pause: Seconds before the second try; doubled before each further one.
        wait: How a pause is made.
    """

    url: str
    timeout: float = 15.0
    attempts: int = 4
    pause: float = 0.5
    wait: Callable[[float], None] = _wait

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"--tsa {self.url!r} is no URL: {error}") from error
        printable = self.url.isascii() and self.url.isprintable() and " " not in self.url
        if parts.scheme not in ("http", "https") or not host or not printable:
            raise UsageError(f"--tsa {self.url!r}: allowed are `self` and an http or https URL")
        if parts.username is not None or parts.password is not None:
            raise UsageError("--tsa: a URL with credentials would end up in records; not allowed")

    @property
    def name(self) -> str:
        """The URL without query and fragment, which may hold a key."""
        parts = urllib.parse.urlsplit(self.url)
        return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))

    @property
    def root(self) -> PinnedRoot | None:
        """None: its root is pinned by people, before."""
        return None

    def stamp(self, query: bytes) -> bytes:
        """Post a query and give the reply as it came.

        Raises:
            AuthorityUnreachableError: No answer came, to the last try.
            AuthorityAnswerError: An answer that is an error or a redirect.
            NotATimestampError: An answer of another media type, or too long.
        """
        failures: list[str] = []
        for attempt in range(self.attempts):
            if attempt:
                self.wait(self.pause * 2 ** (attempt - 1))
            try:
                return self._post(query)
            except _PassingError as error:
                failures.append(f"try {attempt + 1}: {error}")
        raise AuthorityUnreachableError(
            f"no answer from {self.name} in {self.attempts} tries: {failures[-1]}",
            details=failures,
        )

    def _post(self, query: bytes) -> bytes:
        deadline = time.monotonic() + self.timeout
        request = urllib.request.Request(
            self.url,
            data=query,
            method="POST",
            headers={
                "Content-Type": _QUERY_TYPE,
                "Accept": _REPLY_TYPE,
                "User-Agent": "pytest-sremut",
            },
        )
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.timeout) as response:
                kind = response.headers.get_content_type()
                body = self._read(response, deadline)
                # http.client ends a sized body that was cut off silently when read in pieces.
                if response.length:
                    raise AuthorityUnreachableError(f"the answer of {self.name} was cut off")
        except urllib.error.HTTPError as error:
            with error:
                message = f"{self.name} answered {error.code} {error.reason}"
                if error.code >= 500:
                    raise _PassingError(message) from error
                if 300 <= error.code < 400:
                    target = error.headers.get("Location", "nowhere")
                    message += f", moved to {target}; name that URL if you trust it"
                raise AuthorityAnswerError(message) from error
        except urllib.error.URLError as error:  # no connection, or the query could not be sent
            raise _PassingError(f"cannot connect to {self.name}: {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:  # after the query was sent
            raise AuthorityUnreachableError(
                f"no answer from {self.name}: {type(error).__name__}: {error}"
            ) from error
        if kind != _REPLY_TYPE:
            raise NotATimestampError(
                f"not a timestamp: {self.name} answered {kind}, not {_REPLY_TYPE}",
                details=[f"{len(body)} bytes: {body[:_SHOWN]!r}"],
            )
        return body

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """The body, at most MAX_REPLY bytes and none after the deadline."""
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_REPLY:
                raise NotATimestampError(
                    f"not a timestamp: {self.name} answered more than {MAX_REPLY} bytes"
                )
            if time.monotonic() > deadline:
                raise AuthorityUnreachableError(
                    f"the answer of {self.name} took more than {self.timeout:g} s"
                )
        return b"".join(chunks)


class _PassingError(Exception):
    """A failure that may pass by itself."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes every redirect the error that it is for a POST."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None
