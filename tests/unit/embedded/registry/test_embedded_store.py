from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.registry.store import Event, Store, TooOldError


def thing(name: str, namespace: str = "a", **rest: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace}, **rest}


def test_revisions_count_every_write_and_stand_on_the_object() -> None:
    store = Store()
    first = store.put("pods", thing("x"))
    second = store.put("pods", thing("x", phase="y"))
    gone = store.remove("pods", "a", "x")
    revisions = [int(item["metadata"]["resourceVersion"]) for item in (first, second, gone)]
    assert revisions == [store.revision - 2, store.revision - 1, store.revision]
    assert store.get("pods", "a", "x") is None


def test_lists_are_sorted_and_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "z"), ("a", "y"), ("b", "a"), ("a-b", "c")):
        store.put("pods", thing(name, namespace))
    names = [
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in store.list("pods")
    ]
    assert names == [("a-b", "c"), ("a", "y"), ("b", "a"), ("b", "z")]
    assert [item["metadata"]["name"] for item in store.list("pods", "b")] == ["a", "z"]
    assert store.list("services") == []


def test_events_tell_before_and_after() -> None:
    store = Store()
    seen: list[Event] = []
    store.subscribe(seen.append, "pods")
    store.put("pods", thing("x", n=1))
    store.put("services", thing("x"))
    store.put("pods", thing("x", n=2))
    store.remove("pods", "a", "x")
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[0].old is None
    assert seen[1].old is not None
    assert (seen[1].old["n"], seen[1].object["n"]) == (1, 2)
    assert seen[2].object["metadata"]["resourceVersion"] == str(seen[2].revision)


def test_a_removing_write_shows_its_last_state() -> None:
    store = Store()
    store.put("pods", thing("x", n=1))
    shown = store.remove("pods", "a", "x", last=thing("x", n=2))
    assert shown["n"] == 2


def test_subscribers_see_events_in_order_even_when_one_writes() -> None:
    store = Store()
    seen: list[str] = []

    def write_once(event: Event) -> None:
        if event.object["metadata"]["name"] == "first":
            store.put("pods", thing("second"))

    store.subscribe(write_once)
    store.subscribe(lambda event: seen.append(event.object["metadata"]["name"]))
    store.put("pods", thing("first"))
    assert seen == ["first", "second"]


def test_unsubscribed_callbacks_are_not_called() -> None:
    store = Store()
    seen: list[Event] = []
    end = store.subscribe(seen.append)
    end()
    end()
    store.put("pods", thing("x"))
    assert seen == []


def test_a_failing_subscriber_does_not_hide_the_event_from_others() -> None:
    store = Store()
    seen: list[Event] = []

    def fail(_: Event) -> None:
        raise RuntimeError("broken subscriber")

    store.subscribe(fail)
    store.subscribe(seen.append)
    with pytest.raises(RuntimeError, match="broken subscriber"):
        store.put("pods", thing("x"))
    assert len(seen) == 1
    assert store.get("pods", "a", "x") is not None


def test_the_forgotten_past_is_refused() -> None:
    store = Store(history=2)
    for number in range(5):
        store.put("pods", thing("x", n=number))
    assert [event.object["n"] for event in store.since(store.revision - 2)] == [3, 4]
    with pytest.raises(TooOldError):
        store.since(store.revision - 3)
    with pytest.raises(TooOldError):
        store.list_at("pods", "", store.revision - 3)
    assert store.list_at("pods", "", store.revision - 2)[0]["n"] == 2
    assert store.oldest == store.revision - 2


def test_watching_the_future_tells_nothing_yet() -> None:
    store = Store()
    store.put("pods", thing("x"))
    assert list(store.since(store.revision + 10)) == []


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("put", "remove"))), max_size=40),
    st.integers(min_value=1, max_value=60),
)
def test_any_past_list_is_told_exactly(steps: list[tuple[str, str]], history: int) -> None:
    store = Store(history=history)
    past = {store.revision: store.list("pods")}
    for number, (name, action) in enumerate(steps):
        if action == "put":
            store.put("pods", thing(name, n=number))
        elif store.get("pods", "a", name) is not None:
            store.remove("pods", "a", name)
        past[store.revision] = store.list("pods")
    for revision, wanted in past.items():
        if revision >= store.oldest:
            assert store.list_at("pods", "", revision) == wanted
            replayed = {item["metadata"]["name"]: item for item in wanted}
            for event in store.since(revision):
                name = event.object["metadata"]["name"]
                if event.type == "DELETED":
                    del replayed[name]
                else:
                    replayed[name] = event.object
            assert sorted(replayed) == [item["metadata"]["name"] for item in store.list("pods")]
