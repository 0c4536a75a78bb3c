"""Whatever comes, only our own statements come out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.cluster import decode
from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present, WatchEvent
from pytest_sremut.cluster.transport import Answer
from pytest_sremut.errors import ClusterError

REF = ObjectRef(kind="Pod", namespace="ns", name="p")

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_keys = st.sampled_from(
    ["kind", "metadata", "name", "uid", "items", "resourceVersion", "continue", "details", "reason",
     "status", "code", "message", "type", "object"]
)  # fmt: skip
_values = _scalars | st.sampled_from(["Pod", "PodList", "Status", "p", "pods", "NotFound", "ADDED"])
_json = st.recursive(
    _values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
_bodies = st.binary(max_size=40) | _json.map(lambda value: json.dumps(value).encode())
_answers = st.builds(
    Answer,
    status=st.sampled_from([200, 201, 204, 301, 403, 404, 409, 410, 429, 500, 503]),
    content_type=st.sampled_from(["application/json", "text/html", ""]),
    body=_bodies,
)


@given(_answers)
def test_any_answer_to_a_get(answer: Answer) -> None:
    found = decode.decode_object(answer, REF, "get")
    if isinstance(found, Present):
        assert found.body["kind"] == "Pod"
        assert isinstance(found.body["metadata"]["uid"], str)
        assert found.body["metadata"]["name"] == "p"
        assert answer.status == 200
    elif isinstance(found, Absent):
        assert answer.status == 404
    else:
        assert isinstance(found.message, str)


@given(_answers)
def test_any_answer_to_a_list(answer: Answer) -> None:
    found = decode.decode_list(answer, "Pod", "list")
    if not isinstance(found, Failed):
        items, version, token = found
        assert all(isinstance(item["metadata"]["name"], str) for item in items)
        assert all(isinstance(item["metadata"]["uid"], str) for item in items)
        assert isinstance(version, str)
        assert isinstance(token, str)


@given(_answers)
def test_any_answer_to_a_write(answer: Answer) -> None:
    with pytest.raises(ClusterError, match="write"):
        decode.refuse(answer, "write")


@given(_bodies)
def test_any_line_of_a_watch(line: bytes) -> None:
    try:
        event = decode.decode_event(line, "Pod", "watch")
    except ClusterError:
        return
    assert isinstance(event, WatchEvent)
    assert isinstance(event.object["metadata"]["resourceVersion"], str)


def _absent(**status: Any) -> bool:
    base: dict[str, Any] = {
        "kind": "Status", "reason": "NotFound", "details": {"name": "p", "kind": "pods"},
    }  # fmt: skip
    body = json.dumps(base | status).encode()
    return decode.absent(Answer(status=404, content_type="application/json", body=body), REF)


def test_absence_is_about_exactly_this_object() -> None:
    assert _absent()
    assert not _absent(kind="Pod")
    assert not _absent(reason="Forbidden")
    assert not _absent(details={"name": "q", "kind": "pods"})
    assert not _absent(details={"name": "p", "kind": "services"})
    assert not _absent(details=None)
    html = Answer(status=404, content_type="text/html", body=b"NotFound p pods")
    assert not decode.absent(html, REF)
