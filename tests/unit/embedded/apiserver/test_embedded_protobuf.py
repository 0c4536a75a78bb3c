from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.apiserver.protobuf import MAGIC, UnreadableError, read


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def text(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def body(kind: bytes, raw: bytes, version: bytes = b"v1") -> bytes:
    return MAGIC + text(1, text(1, version) + text(2, kind)) + text(2, raw)


META = text(1, b"x")


def test_a_config_map() -> None:
    entry = text(1, b"k") + text(2, b"v")
    binary = text(1, b"b") + text(2, b"\0\1")
    raw = text(1, META + text(11, entry)) + text(2, entry) + text(3, binary) + number(4, 1)
    assert read(body(b"ConfigMap", raw)) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "x", "labels": {"k": "v"}},
        "data": {"k": "v"},
        "binaryData": {"b": "AAE="},
        "immutable": True,
    }


def test_numbers_times_and_ports() -> None:
    port = text(1, b"http") + number(3, 80) + text(4, number(1, 1) + text(3, b"web"))
    plain = number(3, 81) + text(4, number(2, 8080))
    raw = text(1, META + text(8, number(1, 1_796_000_000))) + text(
        2, text(1, port) + text(1, plain)
    )
    value = read(body(b"Service", raw))
    assert value["metadata"]["creationTimestamp"].startswith("2026-")
    assert value["spec"]["ports"] == [
        {"name": "http", "port": 80, "targetPort": "web"},
        {"port": 81, "targetPort": 8080},
    ]
    replicas = text(2, varint(1 << 3) + varint(2**64 - 1))
    assert read(body(b"Deployment", replicas, b"apps/v1"))["spec"] == {"replicas": -1}


def test_quantities_in_maps() -> None:
    entry = text(1, b"pods") + text(2, text(1, b"2"))
    value = read(body(b"ResourceQuota", text(1, META) + text(2, text(1, entry))))
    assert value["spec"] == {"hard": {"pods": "2"}}


def test_a_deletion_as_helm_sends_it() -> None:
    raw = number(1, 0) + text(2, text(1, b"uid-1")) + text(4, b"Background") + text(5, b"All")
    assert read(body(b"DeleteOptions", raw, b"policy/v1")) == {
        "kind": "DeleteOptions",
        "apiVersion": "policy/v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "uid-1"},
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    }
    assert read(body(b"DeleteOptions", b"")) == {"kind": "DeleteOptions", "apiVersion": "v1"}


def test_fields_that_say_nothing_are_passed_over() -> None:
    raw = text(1, META) + text(2, text(24, b"") + number(39, 0))
    assert read(body(b"Service", raw))["metadata"] == {"name": "x"}


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"{}", "does not begin"),
        (body(b"Widget", b""), "'Widget' are not read"),
        (body(b"ConfigMap", text(99, b"x")), "field 99 of ConfigMap"),
        (body(b"ConfigMap", b"\x0a\xff"), "ends in the middle"),
        (body(b"ConfigMap", number(1, 5)), "not written as one"),
        (body(b"ConfigMap", text(1, text(1, b"\xff"))), "not UTF-8"),
        (body(b"ConfigMap", varint(1 << 3 | 7)), "wire type 7"),
    ],
)
def test_what_cannot_be_read_without_loss_is_refused(data: bytes, part: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(data)
    assert part in str(caught.value)


@given(st.binary(max_size=60), st.sampled_from([b"ConfigMap", b"Deployment", b"Job", b"Role"]))
def test_any_bytes_are_read_or_refused(data: bytes, kind: bytes) -> None:
    for candidate in (data, MAGIC + data, body(kind, data), body(kind, text(1, data))):
        try:
            assert isinstance(read(candidate), dict)
        except UnreadableError as error:
            assert str(error)  # noqa: PT017 - any refusal with a reason will do
