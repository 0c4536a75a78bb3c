from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.json_patch import MAX_COPIED, apply_json_patch
from pytest_sremut.embedded.meta.jsonvalue import clone
from pytest_sremut.embedded.meta.patch import apply_merge_patch
from pytest_sremut.embedded.meta.schema import type_of
from pytest_sremut.embedded.meta.strategic import apply_strategic_patch

POD = type_of("v1", "Pod")
SERVICE = type_of("v1", "Service")
keys = st.sampled_from(["a", "b", "~", "/", "0", "1", "-"])
documents = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, documents, max_size=3)
pointers = st.lists(keys, max_size=3).map(
    lambda parts: "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
)
operations = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]),
        "path": pointers,
        # Against null the API server's library also passes for what is absent.
        "value": documents.filter(lambda value: value is not None),
        "from": pointers,
    }
)


# JSON Patch


@given(objects, st.lists(operations, max_size=4))
def test_json_patches_are_carried_out_or_refused(target: Any, patch: Any) -> None:
    before, asked = clone(target), clone(patch)
    status = 200
    try:
        apply_json_patch(target, patch)
    except ApiStatus as refused:
        status = refused.code
    assert status in (200, 422)
    assert target == before
    assert patch == asked


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [  # the examples of RFC 6902, appendix A; None where the patch does not fit
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}],
         {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}],
         {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}],
         {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
         [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
         {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
        ({"foo": ["all", "grass", "cows", "eat"]},
         [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
         {"foo": ["all", "cows", "eat", "grass"]}),
        ({"baz": "qux", "foo": ["a", 2, "c"]},
         [{"op": "test", "path": "/baz", "value": "qux"},
          {"op": "test", "path": "/foo/1", "value": 2}],
         {"baz": "qux", "foo": ["a", 2, "c"]}),
        ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], None),
        ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
         {"foo": "bar", "child": {"grandchild": {}}}),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
         {"foo": "bar", "baz": "qux"}),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], None),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], None),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
         {"foo": ["bar", ["abc", "def"]]}),
        # The server's own: what is absent equals null.
        ({"foo": ["bar"]}, [{"op": "test", "path": "/baz", "value": None}], {"foo": ["bar"]}),
        ({"foo": ["bar"]}, [{"op": "copy", "from": "/foo", "path": "/x"},
                            {"op": "add", "path": "/x/0", "value": 1}],
         {"foo": ["bar"], "x": [1, "bar"]}),
    ],
)  # fmt: skip
def test_json_patch_by_the_examples_of_the_rfc(target: Any, patch: Any, wanted: Any) -> None:
    if wanted is not None:
        assert apply_json_patch(target, patch) == wanted
        return
    with pytest.raises(ApiStatus, match="the server rejected our request due to an error"):
        apply_json_patch(target, patch)


def test_copies_of_copies_end_at_the_limit() -> None:
    target = {"a": "x" * 1024}
    double = [
        step
        for number in range(5_000)
        for step in (
            {"op": "copy", "from": "", "path": f"/{number}"},
            {"op": "test", "path": "/never", "value": None},
        )
    ]
    with pytest.raises(ApiStatus) as caught:
        apply_json_patch(target, double)
    assert caught.value.code == 422


def test_the_bytes_of_all_copies_together_are_limited() -> None:
    large = "x" * (MAX_COPIED // 3)
    copies = [{"op": "copy", "from": "/a", "path": f"/{number}"} for number in range(3)]
    assert len(apply_json_patch({"a": large}, copies[:2])) == 3
    with pytest.raises(ApiStatus) as caught:
        apply_json_patch({"a": large}, copies)  # the quotation marks are too much
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"op": "add"}, 400),
        ("x", 400),
        ([1], 400),
        ([{"op": "fly", "path": "/a"}], 422),
        ([{"op": "add", "path": "a", "value": 1}], 422),
        ([{"op": "add", "path": "/a"}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "remove", "path": "/list/7"}], 422),
        ([{"op": "add", "path": "/list/01", "value": 1}], 200),
        ([{"op": "replace", "path": "/nope", "value": 1}], 422),
        ([{"op": "test", "path": "/one", "value": True}], 422),
        ([{"op": "copy", "path": "/x", "from": "/nope"}], 422),
        ([{"op": "copy", "path": "/x", "from": "/text/0"}], 422),
        ([{"op": "copy", "path": "/x", "from": "/list/-"}], 422),
        ([{"op": "move", "path": "/list", "from": ""}], 422),
        ([{"op": "add", "path": None, "value": 1}], 422),
        ([{"op": "add", "path": "/text/0", "value": 1}], 422),
        ([{"op": "add", "path": "/x", "value": 1}] * 10_001, 413),
    ],
)
def test_bad_json_patches(patch: Any, code: int) -> None:
    target = {"one": 1, "list": [1, 2], "text": "abc"}
    if code == 200:
        assert apply_json_patch(target, patch)["list"] == [1, 1, 2]
        return
    with pytest.raises(ApiStatus) as caught:
        apply_json_patch(target, patch)
    assert caught.value.code == code


def test_a_copy_of_what_is_nested_too_deeply_is_refused() -> None:
    nest = [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 3_000)]
    with pytest.raises(ApiStatus) as caught:
        apply_json_patch({}, [*nest, {"op": "copy", "from": "/a", "path": "/b"}])
    assert caught.value.code == 422


# Merge patch


def test_merge_patch_by_the_examples_of_the_rfc() -> None:
    cases: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for target, patch, wanted in cases:
        before = clone(target)
        assert apply_merge_patch(target, patch) == wanted
        assert target == before


# Strategic merge patch


def pod(*containers: Any, **spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def test_keyed_lists_merge_by_key() -> None:
    target = pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}]}}
    before = clone(target)
    merged = apply_strategic_patch(POD, target, patch)
    assert merged["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
    ]
    assert target == before


def test_new_items_come_before_those_that_only_the_server_has() -> None:
    target = {"spec": {"ports": [{"port": 80}]}}
    merged = apply_strategic_patch(SERVICE, target, {"spec": {"ports": [{"port": 81}]}})
    assert merged["spec"]["ports"] == [{"port": 81}, {"port": 80}]


def test_element_order_is_the_patchs() -> None:
    target = pod({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "d"}],
            "containers": [{"name": "d", "image": "x"}],
        }
    }
    merged = apply_strategic_patch(POD, target, patch)
    names = [item["name"] for item in merged["spec"]["containers"]]
    assert names.index("c") < names.index("a") < names.index("d")
    assert sorted(names) == ["a", "b", "c", "d"]
    assert not [key for key in merged["spec"] if key.startswith("$")]


def test_directives() -> None:
    target = pod({"name": "a", "image": "1"}, {"name": "b"})
    delete = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert apply_strategic_patch(POD, target, delete)["spec"]["containers"] == [{"name": "b"}]
    replace = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert apply_strategic_patch(POD, target, replace)["spec"]["containers"] == [{"name": "z"}]
    whole = {"spec": {"$patch": "replace", "hostname": "h"}}
    assert apply_strategic_patch(POD, target, whole)["spec"] == {"hostname": "h"}
    retain = {"spec": {"$retainKeys": ["hostname"], "hostname": "h"}}
    assert apply_strategic_patch(POD, target, retain)["spec"] == {"hostname": "h"}
    finalizers = {"metadata": {"finalizers": ["a/a", "b/b"]}}
    drop = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}
    assert apply_strategic_patch(POD, finalizers, drop)["metadata"] == {"finalizers": ["b/b"]}
    add = {"metadata": {"finalizers": ["c/c"]}}
    merged = apply_strategic_patch(POD, finalizers, add)["metadata"]["finalizers"]
    assert sorted(merged) == ["a/a", "b/b", "c/c"]


def test_maps_merge_and_null_removes() -> None:
    target = {"spec": {"selector": {"a": "1", "b": "2"}}}
    merged = apply_strategic_patch(SERVICE, target, {"spec": {"selector": {"a": None, "c": "3"}}})
    assert merged["spec"]["selector"] == {"b": "2", "c": "3"}
    swap = {"spec": {"selector": {"$patch": "replace", "z": "1"}}}
    assert apply_strategic_patch(SERVICE, target, swap)["spec"]["selector"] == {"z": "1"}


def test_unkeyed_lists_are_replaced() -> None:
    target = pod({"name": "a", "args": ["1", "2"]}, tolerations=[{"key": "x"}])
    patch = {"spec": {"containers": [{"name": "a", "args": ["3"]}], "tolerations": [{"key": "y"}]}}
    merged = apply_strategic_patch(POD, target, patch)
    assert merged["spec"]["containers"][0]["args"] == ["3"]
    assert merged["spec"]["tolerations"] == [{"key": "y"}]


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"spec": {"$patch": "explode"}}, 400),
        ({"spec": {"containers": [{"image": "x"}]}}, 422),
        ({"spec": {"containers": ["x"]}}, 400),
    ],
)
def test_bad_strategic_patches(patch: Any, code: int) -> None:
    with pytest.raises(ApiStatus) as caught:
        apply_strategic_patch(POD, pod({"name": "a"}), patch)
    assert caught.value.code == code


words = st.sampled_from(["spec", "containers", "name", "ports", "metadata", "finalizers", "labels",
                         "$patch", "$retainKeys", "$setElementOrder/containers",
                         "$deleteFromPrimitiveList/finalizers", "selector"])  # fmt: skip
patches = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["a", "delete", "replace", "merge"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(words, patches, max_size=4), st.dictionaries(words, patches, max_size=4))
def test_strategic_patches_are_carried_out_or_refused(target: Any, patch: Any) -> None:
    before = clone(target)
    code = 200
    try:
        apply_strategic_patch(POD, target, patch)
    except ApiStatus as status:
        code = status.code
    assert code in (200, 400, 422)
    assert target == before
