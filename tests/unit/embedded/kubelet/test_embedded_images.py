"""Image names and what they stand for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.kubelet.images import (
    Image,
    ImageNameError,
    ImageRegistry,
    images_from_json,
    parse_reference,
)

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("docker.io/library/busybox:latest", "docker.io/library/busybox:latest"),
        ("sremut/demo:1", "docker.io/sremut/demo:1"),
        ("localhost/a", "localhost/a:latest"),
        ("registry.example:5000/a/b-c_d.e:v1", "registry.example:5000/a/b-c_d.e:v1"),
        (f"a/b@{DIGEST}", f"docker.io/a/b@{DIGEST}"),
        (f"a/b:tag@{DIGEST}", f"docker.io/a/b@{DIGEST}"),
    ],
)
def test_a_name_gets_the_defaults_of_container_runtimes(name: str, expected: str) -> None:
    assert str(parse_reference(name)) == expected


def test_upper_case_is_refused_in_the_recorded_words() -> None:
    with pytest.raises(ImageNameError) as caught:
        parse_reference("UPPER:bad")
    assert str(caught.value) == (
        'Failed to apply default image tag "UPPER:bad": couldn\'t parse image name "UPPER:bad": '
        "invalid reference format: repository name (library/UPPER) must be lowercase"
    )


@pytest.mark.parametrize(
    "name", ["", ":", "a:", "a:b c", "a//b", "/a", "a/", "a@sha256:12", "ä", "a b", "a:\n", "-a"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ImageNameError):
        parse_reference(name)


@given(st.text())
def test_only_the_named_error_comes_out(name: str) -> None:
    try:
        reference = parse_reference(name)
    except ImageNameError:
        return
    assert str(parse_reference(str(reference))) == str(reference)


def test_an_image_is_found_by_any_of_its_names() -> None:
    image = Image(kind="commands")
    registry = ImageRegistry({"busybox": image})
    for name in ("busybox", "busybox:latest", "library/busybox", "docker.io/library/busybox"):
        assert registry.find(name) is image
    assert registry.find("busybox:1.36") is None
    with pytest.raises(ImageNameError):
        registry.find("Busybox")


def test_equal_images_have_equal_ids_and_others_do_not() -> None:
    assert Image(kind="commands").digest == Image(kind="commands").digest
    one = Image(kind="python", module="a", function="main")
    assert one.digest.startswith("sha256:")
    assert one.digest != Image(kind="python", module="b", function="main").digest


def test_only_python_images_name_modules() -> None:
    registry = ImageRegistry(
        {
            "a": Image(kind="python", module="z"),
            "b": Image(kind="python", module="y"),
            "c": Image(kind="python", module="z", function="other"),
            "d": Image(kind="commands"),
        }
    )
    assert registry.modules() == ["y", "z"]


def test_images_survive_json() -> None:
    images = {"a": Image(kind="python", module="m", function="f"), "b": Image(kind="pause")}
    sent = json.loads(json.dumps({name: image.to_json() for name, image in images.items()}))
    assert images_from_json(sent) == images
