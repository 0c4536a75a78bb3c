"""A registry and an API to talk to in tests: a fixed clock, plain calls, decoded answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from pytest_sremut.embedded.apiserver.answers import Response
from pytest_sremut.embedded.apiserver.api import Api
from pytest_sremut.embedded.apiserver.authorization import Tokens
from pytest_sremut.embedded.apiserver.negotiation import write
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.registry.registry import Registry

Json = Any
START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.moment = START

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def uids() -> Callable[[], str]:
    """Uids that count up."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-0000-0000-{next(numbers):012d}"


def make_registry(clock: Callable[[], datetime] | None = None, **options: Any) -> Registry:
    """A registry with its namespaces and the default service account."""
    registry = Registry(now=clock or Clock(), uid=uids(), seed=1, **options)
    registry.bootstrap()
    registry.create("serviceaccounts", "default", {"metadata": {"name": "default"}})
    return registry


class Caller:
    """Calls an API as a client would and decodes what it answers."""

    def __init__(self, registry: Registry | None = None, token: str = "") -> None:
        self.registry = registry or make_registry()
        self.api = Api(self.registry, tokens=Tokens(token))
        self.last: Response | None = None

    def answer(
        self, method: str, target: str, body: Json = None, **headers: str
    ) -> tuple[int, Json]:
        """Status and decoded body of the answer to one request."""
        path, _, query = target.partition("?")
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        sent = {"content-type": "application/json", "accept": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(
            method=method,
            path=path,
            query=tuple(parse_qsl(query, keep_blank_values=True)),
            headers=sent,
            body=raw,
        )
        found = self.api.handle(request)
        assert isinstance(found, Response), found
        self.last = found
        if isinstance(found.body, bytes):
            return found.status, found.body.decode()
        return found.status, json.loads(write(found.body, "application/json"))

    def get(self, target: str, **headers: str) -> Json:
        """The body of a GET that succeeds."""
        status, body = self.answer("GET", target, **headers)
        assert status == 200, body
        return body

    def post(self, target: str, body: Json, **headers: str) -> Json:
        """The body of a POST that succeeds."""
        status, answer = self.answer("POST", target, body, **headers)
        assert status == 201, answer
        return answer

    def patch(self, target: str, body: Json, kind: str = "merge-patch") -> Json:
        """The body of a PATCH that succeeds."""
        media = {"content_type": f"application/{kind}+json"}
        status, answer = self.answer("PATCH", target, body, **media)
        assert status == 200, answer
        return answer


def pod(name: str = "p", **spec: Json) -> Json:
    """A small pod."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], **spec},
    }


def deployment(name: str = "web", **spec: Json) -> Json:
    """A small deployment."""
    labels = {"app": name}
    container = {"name": "main", "image": "busybox:1.36", "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def service(name: str = "web", **spec: Json) -> Json:
    """A small service."""
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}], **spec},
    }
