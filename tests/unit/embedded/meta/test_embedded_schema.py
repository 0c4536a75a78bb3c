from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.meta.quantity import canonical, parse
from pytest_sremut.embedded.meta.resources import RESOURCES
from pytest_sremut.embedded.meta.schema import MismatchError, conform, type_of, types

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_every_named_type_is_there() -> None:
    scalars = {"string", "bool", "int32", "int64", "number", "bytes", "time", "microtime",
               "quantity", "intstr", "any"}  # fmt: skip
    for type_ in types().values():
        for field in type_.fields.values():
            assert field.base in types() or field.base in scalars, (type_.name, field)
            if field.keys:
                assert set(field.keys) <= types()[field.base].fields.keys(), (type_.name, field)


def test_every_resource_has_a_type() -> None:
    for table in RESOURCES.values():
        type_ = type_of(table.api_version, table.kind)
        assert {"apiVersion", "kind", "metadata"} <= type_.fields.keys()


def test_the_fields_are_those_of_the_official_client() -> None:
    client = pytest.importorskip("kubernetes.client")
    missing = []
    for name, type_ in types().items():
        model = getattr(client, f"V1{name}", None)
        other = name.startswith("HorizontalPodAutoscaler")  # ours is version 2
        if model is None or other or name in ("Event", "EventSeries", "EndpointPort"):
            continue
        missing += [
            f"{name}.{field}" for field in model.attribute_map.values() if field not in type_.fields
        ]
    assert missing == []


def test_unknown_fields_are_dropped_and_named() -> None:
    value = {"spec": {"ports": [{"port": 1, "x": 1}], "nope": {}}, "kind": "Service"}
    found = conform(type_of("v1", "Service"), value)
    assert found.value == {"spec": {"ports": [{"port": 1}]}, "kind": "Service"}
    assert found.unknown == ["spec.ports[0].x", "spec.nope"]


def test_empty_and_null_are_left_out_where_the_real_encoder_leaves_them_out() -> None:
    value = {
        "metadata": {"labels": {}, "finalizers": [], "annotations": None},
        "spec": {"replicas": 0, "paused": False, "minReadySeconds": 0, "strategy": {}},
    }
    assert conform(type_of("apps/v1", "Deployment"), value).value == {
        "metadata": {},
        "spec": {"replicas": 0, "strategy": {}},
    }
    claim = {"spec": {"storageClassName": "", "accessModes": []}}
    assert conform(type_of("v1", "PersistentVolumeClaim"), claim).value == {
        "spec": {"storageClassName": ""}
    }


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "json: cannot unmarshal array into Go value of type v1.Service"),
        (
            {"spec": {"ports": "x"}},
            "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type "
            "[]v1.ServicePort",
        ),
        (
            {"spec": {"ports": [{"port": "80"}]}},
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of "
            "type int32",
        ),
        (
            {"spec": {"ports": [{"port": 80.5}]}},
            "json: cannot unmarshal number 80.5 into Go struct field ServicePort.spec.ports.port "
            "of type int32",
        ),
        (
            {"spec": {"selector": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ServiceSpec.spec.selector of type "
            "string",
        ),
        ({"metadata": {"creationTimestamp": "yesterday"}}, 'parsing time "yesterday"'),
    ],
)
def test_wrong_types_are_named_as_go_names_them(value: object, sentence: str) -> None:
    with pytest.raises(MismatchError) as caught:
        conform(type_of("v1", "Service"), value)
    assert str(caught.value).startswith(sentence)


def test_bytes_must_be_base64() -> None:
    secret = type_of("v1", "Secret")
    assert conform(secret, {"data": {"a": "YQ=="}}).value == {"data": {"a": "YQ=="}}
    with pytest.raises(MismatchError, match="illegal base64"):
        conform(secret, {"data": {"a": "!"}})


@given(json_values)
def test_nothing_else_than_a_mismatch_comes_out(value: object) -> None:
    for kind in ("Pod", "Service", "ConfigMap"):
        wrapped = {"metadata": value, "spec": value, "data": value}
        for candidate in (value, wrapped):
            try:
                conformed = conform(type_of("v1", kind), candidate)
            except MismatchError:
                continue
            again = conform(type_of("v1", kind), conformed.value)
            assert again.value == conformed.value
            assert again.unknown == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1e3", "1e3"),
        ("0", "0"), ("0Mi", "0"), ("2000k", "2M"), (".5", "500m"), ("5.", "5"), ("1025", "1025"),
        ("-1", "-1"), ("100u", "100u"), ("1n", "1n"), ("0.1n", "1n"), ("512Ki", "512Ki"),
    ],
)  # fmt: skip
def test_quantities_in_canonical_form(text: str, wanted: str) -> None:
    assert canonical(text) == wanted
    assert canonical(wanted) == wanted


@given(
    st.text(max_size=12) | st.from_regex(r"[+-]?[0-9.]{1,6}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,3}\Z")
)
def test_quantities_are_read_or_refused(text: str) -> None:
    complaint = ""
    try:
        amount = parse(text)
    except ValueError as error:
        complaint = str(error)
    else:
        assert abs(parse(canonical(text))) >= abs(amount)
    assert complaint == "" or "quantities must match" in complaint
