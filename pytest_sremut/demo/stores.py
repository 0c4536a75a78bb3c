"""The redis, memcached and mongodb of the demo: one in-memory key-value store with HTTP verbs.

    GET  /get?keys=a,b,c   200 and the values, as a JSON array in that order, if all are there;
                           404 and the missing keys, joined by commas, otherwise
    GET  /some?keys=a,b,c  200 and a JSON array of those that are there
    GET  /lines?keys=a,b,c 200 and those that are there as lines `key value`, ready for /set
    GET  /list?key=a       200 and a comma-joined list, or 404
    POST /set              body: lines `key value`
    POST /push?keys=a,b    body: an item, put in front of each of these lists

Memory is bounded: the oldest key goes when there are more than `CAPACITY`, and a list keeps its
first `LIST` items.
"""

from __future__ import annotations

from pytest_sremut.demo.data import Seed
from pytest_sremut.demo.wire import Reply, Request, parameters

__all__ = ["CAPACITY", "LIST", "Store"]

CAPACITY = 4096
LIST = 32

_STORED = Reply(200, b"{}")


class Store:
    """One store. `seed` says what it holds before anybody has written."""

    def __init__(self, seed: Seed) -> None:
        self._seed = seed
        self._values: dict[str, bytes] = {}

    def __call__(self, request: Request) -> Reply:
        """Answers one request."""
        match request.path:
            case "/get":
                return self._get(parameters(request.query).get("keys", ""))
            case "/some":
                found = self._found(parameters(request.query).get("keys", ""))
                return Reply(200, b"[%s]" % b",".join(value for _, value in found))
            case "/lines":
                found = self._found(parameters(request.query).get("keys", ""))
                return Reply(200, b"\n".join(b"%s %s" % (k.encode(), v) for k, v in found))
            case "/list":
                return self._list(parameters(request.query).get("key", ""))
            case "/set" if request.method == "POST":
                return self._set(request.body)
            case "/push" if request.method == "POST":
                return self._push(parameters(request.query).get("keys", ""), request.body)
            case _:
                return Reply(404, b'{"error":"no such operation"}')

    def _read(self, key: str) -> bytes | None:
        value = self._values.get(key)
        return self._seed(key) if value is None else value

    def _write(self, key: str, value: bytes) -> None:
        self._values[key] = value
        if len(self._values) > CAPACITY:
            del self._values[next(iter(self._values))]

    def _found(self, joined: str) -> list[tuple[str, bytes]]:
        pairs = ((key, self._read(key)) for key in joined.split(",") if key)
        return [(key, value) for key, value in pairs if value is not None]

    def _get(self, joined: str) -> Reply:
        keys = [key for key in joined.split(",") if key]
        found = dict(self._found(joined))
        missing = [key for key in keys if key not in found]
        if missing:
            return Reply(404, ",".join(missing).encode())
        return Reply(200, b"[%s]" % b",".join(found[key] for key in keys))

    def _list(self, key: str) -> Reply:
        value = self._read(key)
        return Reply(404, b"") if value is None else Reply(200, value)

    def _set(self, body: bytes) -> Reply:
        for line in body.split(b"\n"):
            key, _, value = line.partition(b" ")
            if key:
                self._write(key.decode("utf-8", "replace"), value)
        return _STORED

    def _push(self, joined: str, item: bytes) -> Reply:
        for key in joined.split(","):
            if key:
                held = self._read(key)
                items = held.split(b",") if held else []
                if item not in items:  # a call that is sent again changes nothing
                    items.insert(0, item)
                self._write(key, b",".join(items[:LIST]))
        return _STORED
