"""Our cluster as a scenario sees it: requests, commands in pods, watches.

Rules kept here: the wire only, no client library's opinions; every wait ends at a deadline and says
what it waited for.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
import websocket

Json = Any

PATIENCE = 40.0
LOOK = 0.05


class ReplayError(Exception):
    """The scenario could not be played: what it assumes did not come about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: its body is an object if it is JSON, else text."""

    status: int
    headers: Mapping[str, str]
    body: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a command in a pod."""

    exit_code: int
    stdout: str
    stderr: str
    elapsed: float


class World:
    """Requests to the cluster of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        found = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        self.server: str = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._identity = {"Authorization": f"Bearer {user['token']}"}
        self._pool = urllib3.PoolManager(retries=False, maxsize=16, ssl_context=self._tls)

    def close(self) -> None:
        self._pool.clear()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        anonymous: bool = False,
    ) -> Reply:
        """One request and its whole answer; as the admin, unless its headers say who asks."""
        sent = {**self._identity, **(headers or {})}
        if anonymous:
            del sent["Authorization"]
        answer = self._pool.request(method, self.server + path, body=body, headers=sent, timeout=60)
        return Reply(
            status=answer.status,
            headers={name.lower(): value for name, value in answer.headers.items()},
            body=_parsed(answer.data),
        )

    def get(self, path: str) -> Json:
        """The object at a path; ``None`` when there is none."""
        reply = self.send("GET", path)
        return reply.body if reply.status == 200 else None

    def make(self, path: str, body: Json) -> Json:
        """Create an object that a recording assumes."""
        reply = self.send(
            "POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        if reply.status != 201:
            raise ReplayError(f"POST {path}: {reply.status} {reply.body}")
        return reply.body

    def until(self, holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """The first true value of `holds`."""
        deadline = time.monotonic() + patience
        while True:
            value = holds()
            if value:
                return value
            if time.monotonic() > deadline:
                raise ReplayError(f"never happened: {what}")
            time.sleep(LOOK)

    def ready(self, namespace: str, selector: str, count: int = 1) -> None:
        """Wait for Ready pods."""

        def are() -> bool:
            path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
            pods = self.get(path)["items"]
            ready = [
                pod
                for pod in pods
                for condition in pod.get("status", {}).get("conditions", [])
                if condition["type"] == "Ready" and condition["status"] == "True"
            ]
            return len(ready) == count

        self.until(are, f"{count} ready pods {selector} in {namespace}")

    def is_ready(self, namespace: str, pod: str) -> bool:
        """Whether a pod is Ready."""
        found = self.get(f"/api/v1/namespaces/{namespace}/pods/{pod}") or {}
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in found.get("status", {}).get("conditions", [])
        )

    def quiet(self, span: float, patience: float) -> None:
        """Wait until nothing has been written for `span` seconds, or `patience` is over."""
        deadline = time.monotonic() + patience
        revision, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            now = self.get("/sremut/v1/status")["revision"]
            if now != revision:
                revision, since = now, time.monotonic()
            if time.monotonic() - since >= span:
                return
            time.sleep(LOOK)

    def run(self, namespace: str, pod: str, command: str, container: str = "") -> Ran:
        """Run ``sh -c COMMAND`` in a pod."""
        query = "&".join(f"command={quote(word, safe='')}" for word in ("sh", "-c", command))
        query += f"&stdout=true&stderr=true&container={container}"
        url = f"ws{self.server.removeprefix('http')}/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        begin = time.monotonic()
        try:
            session = websocket.create_connection(
                f"{url}?{query}",
                subprotocols=["v4.channel.k8s.io"],
                timeout=60,
                header=self._identity,
                sslopt={"context": self._tls},
            )
        except websocket.WebSocketBadStatusException as error:
            raise ReplayError(f"exec in {namespace}/{pod}: {error}") from error
        output = {1: bytearray(), 2: bytearray(), 3: bytearray()}
        try:
            while True:
                _, data = session.recv_data()
                if len(data) > 0 and data[0] in output:
                    output[data[0]] += data[1:]
                if data[:1] == b"\x03":
                    break
        except websocket.WebSocketConnectionClosedException:
            pass
        finally:
            session.close()
        status = json.loads(bytes(output[3]) or b"{}")
        if status.get("code"):
            output[2] += f"[{status['code']}: {status.get('message')}]".encode()
        causes = status.get("details", {}).get("causes", [])
        codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
        return Ran(
            exit_code=0 if status.get("status") == "Success" else (codes or [-1])[0],
            stdout=output[1].decode(errors="replace"),
            stderr=output[2].decode(errors="replace"),
            elapsed=time.monotonic() - begin,
        )

    def run_all(
        self, namespace: str, pod: str, commands: list[str], *, in_turn: set[int]
    ) -> list[Ran]:
        """Run several commands: those at the places `in_turn` one after another, and beside them
        each of the others."""
        found: dict[int, Ran] = {}

        def run(places: list[int]) -> None:
            for place in places:
                found[place] = self.run(namespace, pod, commands[place])

        parts = [sorted(in_turn), *([n] for n in range(len(commands)) if n not in in_turn)]
        with ThreadPoolExecutor(max_workers=max(1, min(6, len(parts)))) as pool:
            list(pool.map(run, parts))
        return [found[place] for place in range(len(commands))]

    def watch(self, path: str) -> Watching:
        """Follow a watch in the background; returns when it is open."""
        return Watching(self.server, path, self._identity, self._tls)


class Watching:
    """A watch: its lines so far."""

    def __init__(
        self, server: str, path: str, headers: Mapping[str, str], tls: ssl.SSLContext
    ) -> None:
        self.lines: list[Json] = []
        host, _, port = server.removeprefix("https://").partition(":")
        self._connection = http.client.HTTPSConnection(host, int(port), timeout=600, context=tls)
        self._connection.request("GET", path, headers=dict(headers))
        self._socket = self._connection.sock  # the response takes it over
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        line = b""
        try:
            while line := self._answer.readline():
                self.lines.append(_parsed(line))
        except (http.client.HTTPException, OSError, ValueError, AttributeError):
            return  # closed by us, or cut off: what has arrived is what counts

    def end(self, patience: float) -> list[Json]:
        """Wait for the server to end it; answers its lines."""
        self._thread.join(patience)
        return self.close()

    def close(self) -> list[Json]:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._answer.close()
        self._connection.close()
        return list(self.lines)


def _parsed(data: bytes) -> Json:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
