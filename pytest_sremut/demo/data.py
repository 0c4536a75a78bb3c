"""The application's users and what they have posted: computed, so that every process agrees.

There are `USERS` users; each has `POSTS` posts of before the beginning of time and follows some
others. Nothing here is random and nothing is read from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "PAGE",
    "POSTS",
    "USERS",
    "Seed",
    "creator",
    "seed_of",
]

USERS = 200
POSTS = 5
PAGE = 5
"""Posts on one page of a timeline."""

_FOLLOWERS = 8

Seed = Callable[[str], bytes | None]
"""What a store holds before anybody has written to it."""


def creator(user: int) -> bytes:
    """Who wrote a post, as JSON."""
    return b'{"user_id":%d,"username":"user_%d"}' % (user, user)


def _number(text: str, below: int) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        return None
    value = int(text)
    return value if value < below else None


def _post(key: str) -> bytes | None:
    post = _number(key, USERS * POSTS)
    if post is None:
        return None
    author = creator(post // POSTS)
    return b'{"post_id":%d,"creator":%s,"text":"post %d","media":[]}' % (post, author, post)


def _joined(values: list[int]) -> bytes:
    return ",".join(map(str, values)).encode()


def _own_posts(key: str) -> bytes | None:
    user = _number(key, USERS)
    if user is None:
        return None
    return _joined([user * POSTS + n for n in range(POSTS)])


def _home(key: str) -> bytes | None:
    user = _number(key, USERS)
    if user is None:
        return None
    return _joined([(user * 7 + n * 13 + 1) % USERS * POSTS + n for n in range(PAGE)])


def _followers(key: str) -> bytes | None:
    user = _number(key, USERS)
    if user is None:
        return None
    return _joined([(user * 11 + n * 17 + 1) % USERS for n in range(_FOLLOWERS)])


def _user(key: str) -> bytes | None:
    prefix, _, number = key.rpartition("_")
    user = _number(number, USERS)
    return None if prefix != "user" or user is None else creator(user)


def _media(key: str) -> bytes | None:
    media = _number(key, USERS)
    return None if media is None else b'{"media_id":%d,"type":"png"}' % media


def _nothing(_: str) -> None:
    return None


_SEEDS: dict[str, Seed] = {
    "home-timeline-redis": _home,
    "media-mongodb": _media,
    "post-storage-mongodb": _post,
    "social-graph-mongodb": _followers,
    "user-mongodb": _user,
    "user-timeline-mongodb": _own_posts,
}


def seed_of(name: str) -> Seed:
    """What the store of that name begins with; caches begin empty."""
    return _SEEDS.get(name, _nothing)
