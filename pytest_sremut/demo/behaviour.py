"""What each service of the demo does with a request: calls to others, and an answer.

A dependency that does not answer 200 makes the service answer 500 with the reason, and so on up
to the frontend. All calls of one step are begun together and awaited together.
"""

from __future__ import annotations

import itertools
import json
import time
import zlib
from asyncio import Future
from collections.abc import Callable, Coroutine
from typing import Any

from pytest_sremut.demo.client import Client
from pytest_sremut.demo.data import PAGE, USERS, creator, seed_of
from pytest_sremut.demo.roles import Role
from pytest_sremut.demo.server import Handler
from pytest_sremut.demo.stores import Store
from pytest_sremut.demo.wire import Reply, Request, parameters

__all__ = ["Calls", "handler_of"]

_HEALTHY = Reply(200, b'{"status":"ok"}')
_NOT_FOUND = Reply(404, b'{"error":"not found"}')
_DONE = Reply(200, b"{}")

Answer = Coroutine[Any, Any, Reply]


class Calls:
    """The calls that a role may make. KeyError: its role does not name that service."""

    def __init__(self, role: Role, client: Client) -> None:
        self._allowed = frozenset(role.calls)
        self._client = client

    def __call__(self, name: str, target: str, body: bytes = b"") -> Future[Reply]:
        if name not in self._allowed:
            raise KeyError(name)
        return self._client.call(name, target, body)


def handler_of(role: Role, client: Client) -> Handler:
    """The handler of one service. `/healthz` says that the process serves; it calls nobody."""
    service = _service(role, Calls(role, client))

    def handle(request: Request) -> Reply | Answer:
        if request.path == "/healthz":
            return _HEALTHY
        return service(request)

    return handle


def _service(role: Role, calls: Calls) -> Handler:
    if role.kind in ("memcached", "mongodb", "redis"):
        return Store(seed_of(role.name))
    if role.kind == "idle":
        return lambda request: _HEALTHY if request.path == "/" else _NOT_FOUND
    return _SERVICES[role.name](calls)


def _failed(*replies: Reply) -> Reply | None:
    """A 500 with the first failure among `replies`; None when all are 200."""
    for reply in replies:
        if reply.status != 200:
            return Reply(500, reply.body or b'{"error":"a dependency failed"}')
    return None


def _user_of(values: dict[str, str]) -> int:
    text = values.get("user_id", "")
    return int(text) % USERS if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _page(ids: bytes) -> str:
    return ",".join(ids.decode("ascii", "replace").split(",")[:PAGE])


async def _cached(calls: Calls, cache: str, store: str, keys: str) -> Reply:
    """The values of `keys` from the cache, what it lacks from the store and into the cache.

    A 200 is a JSON array of those that exist, anything else the first failure.
    """
    hit = await calls(cache, f"/get?keys={keys}")
    if hit.status != 404:
        return hit
    lines = await calls(store, f"/lines?keys={hit.body.decode('ascii', 'replace')}")
    if lines.status != 200:
        return lines
    if lines.body:
        put = await calls(cache, "/set", lines.body)
        if put.status != 200:
            return put
    return await calls(cache, f"/some?keys={keys}")


def _nginx_thrift(calls: Calls) -> Handler:
    rotation = itertools.count()  # whose page it is when the client does not say

    def values_of(request: Request) -> dict[str, str]:
        values = parameters(request.query)
        if request.method == "POST":
            values.update(parameters(request.body.decode("utf-8", "replace")))
        values.setdefault("user_id", str(next(rotation) % USERS))
        return values

    async def read(service: str, values: dict[str, str]) -> Reply:
        reply = await calls(service, f"/read?user_id={_user_of(values)}")
        return _failed(reply) or reply

    async def compose(values: dict[str, str]) -> Reply:
        user = _user_of(values)
        text = values.get("text") or f"hello @user_{(user + 1) % USERS} http://example.test/{user}"
        body = text.encode()[:4096]
        reply = await calls("compose-post-service", f"/compose?user_id={user}", body)
        return _failed(reply) or reply

    def handle(request: Request) -> Reply | Answer:
        match request.path:
            case "/wrk2-api/home-timeline/read":
                return read("home-timeline-service", values_of(request))
            case "/wrk2-api/user-timeline/read":
                return read("user-timeline-service", values_of(request))
            case "/wrk2-api/post/compose":
                return compose(values_of(request))
            case "/":
                return Reply(200, b'{"application":"social-network"}')
            case _:
                return _NOT_FOUND

    return handle


def _media_frontend(calls: Calls) -> Handler:
    async def get(key: str) -> Reply:
        found = await _cached(calls, "media-memcached", "media-mongodb", key)
        return _NOT_FOUND if found.body == b"[]" else _failed(found) or found

    def handle(request: Request) -> Reply | Answer:
        if request.path != "/get-media":
            return _HEALTHY if request.path == "/" else _NOT_FOUND
        return get(str(_user_of({"user_id": parameters(request.query).get("filename", "")})))

    return handle


def _compose_post(calls: Calls) -> Handler:
    async def compose(user: int, text: bytes) -> Reply:
        begun = (
            calls("unique-id-service", "/id"),
            calls("media-service", f"/media?ids={user}"),
            calls("user-service", f"/creator?user_id={user}"),
            calls("text-service", "/text", text or b"-"),
        )
        unique, media, author, body = [await future for future in begun]
        failure = _failed(unique, media, author, body)
        if failure is not None:
            return failure
        post = unique.body.decode("ascii")
        document = b'{"post_id":%s,"creator":%s,"text":%s,"media":%s}' % (
            unique.body,
            author.body,
            body.body,
            media.body,
        )
        written = (
            calls("post-storage-service", "/store", unique.body + b" " + document),
            calls("user-timeline-service", f"/write?user_id={user}&post_id={post}"),
            calls("home-timeline-service", f"/write?user_id={user}&post_id={post}"),
        )
        replies = [await future for future in written]
        return _failed(*replies) or Reply(200, b'{"post_id":%s}' % unique.body)

    def handle(request: Request) -> Reply | Answer:
        if request.path != "/compose":
            return _NOT_FOUND
        return compose(_user_of(parameters(request.query)), request.body)

    return handle


def _timeline(
    calls: Calls, read: Callable[[int], Answer], write: Callable[[int, str], Answer]
) -> Handler:
    """What the two timelines share: ids of posts from `read`, the posts from their storage."""

    async def page(user: int) -> Reply:
        ids = await read(user)
        failure = _failed(ids)
        if failure is not None:
            return failure
        if not ids.body:
            return Reply(200, b"[]")
        posts = await calls("post-storage-service", f"/posts?ids={_page(ids.body)}")
        return _failed(posts) or posts

    def handle(request: Request) -> Reply | Answer:
        values = parameters(request.query)
        if request.path == "/read":
            return page(_user_of(values))
        if request.path == "/write":
            return write(_user_of(values), values.get("post_id", "0"))
        return _NOT_FOUND

    return handle


def _home_timeline(calls: Calls) -> Handler:
    async def read(user: int) -> Reply:
        return await calls("home-timeline-redis", f"/list?key={user}")

    async def write(user: int, post: str) -> Reply:
        followers = await calls("social-graph-service", f"/followers?user_id={user}")
        failure = _failed(followers)
        if failure is not None:
            return failure
        keys = followers.body.decode("ascii", "replace")
        pushed = await calls("home-timeline-redis", f"/push?keys={keys}", post.encode())
        return _failed(pushed) or _DONE

    return _timeline(calls, read, write)


def _user_timeline(calls: Calls) -> Handler:
    async def read(user: int) -> Reply:
        cached = await calls("user-timeline-redis", f"/list?key={user}")
        if cached.status != 404:
            return cached
        stored = await calls("user-timeline-mongodb", f"/list?key={user}")
        if stored.status != 200:
            return stored
        body = b"%d %s" % (user, stored.body)
        put = await calls("user-timeline-redis", "/set", body)
        return stored if put.status == 200 else put

    async def write(user: int, post: str) -> Reply:
        known = await read(user)  # so that the cache holds the whole list before it grows
        failure = _failed(known)
        if failure is not None:
            return failure
        target = f"/push?keys={user}"
        stored, cached = (
            calls("user-timeline-mongodb", target, post.encode()),
            calls("user-timeline-redis", target, post.encode()),
        )
        return _failed(await stored, await cached) or _DONE

    return _timeline(calls, read, write)


def _post_storage(calls: Calls) -> Handler:
    cache, store = "post-storage-memcached", "post-storage-mongodb"

    async def read(ids: str) -> Reply:
        posts = await _cached(calls, cache, store, ids)
        return _failed(posts) or posts

    async def write(document: bytes) -> Reply:
        reply = await calls(store, "/set", document)
        return _failed(reply) or _DONE

    def handle(request: Request) -> Reply | Answer:
        if request.path == "/posts":
            return read(parameters(request.query).get("ids", ""))
        if request.path == "/store":
            return write(request.body)
        return _NOT_FOUND

    return handle


def _social_graph(calls: Calls) -> Handler:
    async def followers(user: int) -> Reply:
        cached = await calls("social-graph-redis", f"/list?key={user}")
        if cached.status != 404:
            return _failed(cached) or cached
        stored = await calls("social-graph-mongodb", f"/list?key={user}")
        failure = _failed(stored)
        if failure is not None:
            return failure
        put = await calls("social-graph-redis", "/set", b"%d %s" % (user, stored.body))
        return _failed(put) or stored

    return lambda request: followers(_user_of(parameters(request.query)))


def _text(calls: Calls) -> Handler:
    async def compose(text: str) -> Reply:
        words = text.split()
        urls = [word for word in words if word.startswith(("http://", "https://"))]
        names = [word[1:] for word in words if word.startswith("@") and _plain(word[1:])]
        begun = []
        if urls:
            begun.append(calls("url-shorten-service", "/shorten", " ".join(urls).encode()))
        if names:
            begun.append(calls("user-mention-service", "/mentions", " ".join(names).encode()))
        replies = [await future for future in begun]
        return _failed(*replies) or Reply(200, json.dumps(text).encode())

    return lambda request: compose(request.body.decode("utf-8", "replace"))


def _plain(name: str) -> bool:
    """Whether a name can be part of a query and of a key as it is."""
    return name.isascii() and name.replace("_", "").isalnum()


def _url_shorten(calls: Calls) -> Handler:
    async def shorten(urls: list[bytes]) -> Reply:
        lines = b"\n".join(b"%08x %s" % (zlib.crc32(url), url) for url in urls)
        begun = [calls("url-shorten-mongodb", "/set", lines)]
        begun.append(calls("url-shorten-memcached", "/set", lines))
        replies = [await future for future in begun]
        return _failed(*replies) or _DONE

    return lambda request: shorten(request.body.split())


def _user_mention(calls: Calls) -> Handler:
    async def mentions(names: str) -> Reply:
        if not names:
            return _DONE
        users = await _cached(calls, "user-memcached", "user-mongodb", names)
        return _failed(users) or users  # who does not exist is left out, and that is no failure

    def handle(request: Request) -> Reply | Answer:
        words = request.body.decode("utf-8", "replace").split()[:8]
        return mentions(",".join(word for word in words if _plain(word)))

    return handle


def _unique_id(_: Calls) -> Handler:
    counter = itertools.count(1)

    def handle(_: Request) -> Reply:
        # Milliseconds and a counter: two processes one after the other never give the same id.
        stamp = (int(time.time() * 1000) << 20) | (next(counter) & 0xFFFFF)
        return Reply(200, b"%d" % stamp)

    return handle


def _user(_: Calls) -> Handler:
    def handle(request: Request) -> Reply:
        if request.path != "/creator":
            return _NOT_FOUND
        return Reply(200, creator(_user_of(parameters(request.query))))

    return handle


def _media(_: Calls) -> Handler:
    def handle(request: Request) -> Reply:
        media = _user_of({"user_id": parameters(request.query).get("ids", "")})
        return Reply(200, b'[{"media_id":%d,"type":"png"}]' % media)

    return handle


_SERVICES: dict[str, Callable[[Calls], Handler]] = {
    "compose-post-service": _compose_post,
    "home-timeline-service": _home_timeline,
    "media-frontend": _media_frontend,
    "media-service": _media,
    "nginx-thrift": _nginx_thrift,
    "post-storage-service": _post_storage,
    "social-graph-service": _social_graph,
    "text-service": _text,
    "unique-id-service": _unique_id,
    "url-shorten-service": _url_shorten,
    "user-mention-service": _user_mention,
    "user-service": _user,
    "user-timeline-service": _user_timeline,
}
