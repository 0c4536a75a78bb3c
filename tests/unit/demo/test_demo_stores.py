"""The stores: what they hold, what they lack, and that they stay small."""

from __future__ import annotations

from pytest_sremut.demo.data import POSTS, USERS, seed_of
from pytest_sremut.demo.stores import CAPACITY, LIST, Store
from pytest_sremut.demo.wire import Reply, Request


def ask(store: Store, target: str, body: bytes = b"") -> Reply:
    path, _, query = target.partition("?")
    return store(Request("POST" if body else "GET", path, query, body, True))


def test_a_cache_begins_empty_and_says_what_is_missing() -> None:
    store = Store(seed_of("post-storage-memcached"))
    assert ask(store, "/get?keys=1,2") == Reply(404, b"1,2")
    assert ask(store, "/set", b"1 one\n2 two words").status == 200
    assert ask(store, "/get?keys=2,1") == Reply(200, b"[two words,one]")
    assert ask(store, "/get?keys=2,3") == Reply(404, b"3")
    assert ask(store, "/some?keys=2,3") == Reply(200, b"[two words]")
    assert ask(store, "/lines?keys=3,1") == Reply(200, b"1 one")


def test_seeded_data_is_there_from_the_beginning() -> None:
    posts = Store(seed_of("post-storage-mongodb"))
    assert ask(posts, f"/get?keys={USERS * POSTS - 1}").status == 200
    assert ask(posts, f"/get?keys={USERS * POSTS}").status == 404
    assert ask(posts, "/get?keys=-1,x,1e3").status == 404
    users = Store(seed_of("user-mongodb"))
    assert ask(users, "/get?keys=user_7").body == b'[{"user_id":7,"username":"user_7"}]'
    assert ask(users, "/get?keys=admin_7").status == 404


def test_lists_grow_at_the_front_once_and_are_cut() -> None:
    store = Store(seed_of("home-timeline-redis"))
    before = ask(store, "/list?key=3").body
    for _ in range(2):  # sent again after a broken connection: nothing changes
        assert ask(store, "/push?keys=3,4", b"900").status == 200
    assert ask(store, "/list?key=3").body == b"900," + before
    for number in range(2 * LIST):
        ask(store, "/push?keys=3", b"%d" % (1000 + number))
    assert len(ask(store, "/list?key=3").body.split(b",")) == LIST


def test_memory_is_bounded() -> None:
    store = Store(seed_of("url-shorten-mongodb"))
    for number in range(CAPACITY + 10):
        ask(store, "/set", b"%d x" % number)
    assert len(store._values) == CAPACITY
    assert ask(store, "/get?keys=0").status == 404
    assert ask(store, f"/get?keys={CAPACITY + 9}").status == 200


def test_unknown_operations() -> None:
    store = Store(seed_of("user-mongodb"))
    assert ask(store, "/drop").status == 404
    assert ask(store, "/set").status == 404  # a GET does not write
    assert ask(store, "/list?key=1").status == 404
