"""The whole application as 27 processes, and one service as a program."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import REPOSITORY, Fleet

from pytest_sremut.demo.roles import ROLES
from pytest_sremut.demo.service import Limits, SettingsError, main

HOME, USER, COMPOSE = (
    "wrk2-api/home-timeline/read",
    "wrk2-api/user-timeline/read",
    "wrk2-api/post/compose",
)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as running:
        yield running


def get(fleet: Fleet, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(fleet.url("nginx-thrift") + path, data=body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_timelines_show_posts(fleet: Fleet) -> None:
    for path in (HOME, USER):
        status, body = get(fleet, f"{path}?user_id=3&start=0&stop=10")
        assert status == 200
        assert len(json.loads(body)) == 5
    assert get(fleet, HOME)[0] == 200, "a client need not say whose page it wants"


def test_a_composed_post_appears_in_both_timelines(fleet: Fleet) -> None:
    text = "text=hello+@user_8+http://example.test/1+%22quoted%22%0aline&user_id=5"
    status, body = get(fleet, COMPOSE, text.encode())
    assert status == 200
    post = json.loads(body)["post_id"]
    own = json.loads(get(fleet, f"{USER}?user_id=5")[1])
    assert own[0]["post_id"] == post
    assert own[0]["text"] == 'hello @user_8 http://example.test/1 "quoted"\nline'
    assert own[0]["creator"]["username"] == "user_5"
    follower = (5 * 11 + 1) % 200
    assert json.loads(get(fleet, f"{HOME}?user_id={follower}")[1])[0]["post_id"] == post


def test_mentioning_nobody_or_somebody_unknown_is_fine(fleet: Fleet) -> None:
    for text in ("-", "@nobody", "@user_1 @nobody @user_1", "@", "@a,b&c http://", "\N{SNOWMAN}"):
        body = f"text={urllib.request.quote(text)}&user_id=1"
        assert get(fleet, COMPOSE, body.encode())[0] == 200, text


def test_other_paths(fleet: Fleet) -> None:
    assert get(fleet, "")[0] == 200
    assert get(fleet, "wrk2-api/nothing")[0] == 404
    assert get(fleet, f"{HOME}?user_id=-1&user_id=%ff")[0] == 200
    for name, path, expected in (
        ("jaeger", "", 200),
        ("jaeger", "api", 404),
        ("media-frontend", "get-media?filename=3", 200),
    ):
        try:
            with urllib.request.urlopen(fleet.url(name) + path, timeout=30) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        assert status == expected, (name, path)


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("user-service", {COMPOSE}),
        ("home-timeline-redis", {HOME, COMPOSE}),
        ("post-storage-service", {HOME, USER, COMPOSE}),
        ("url-shorten-mongodb", {COMPOSE}),
        ("jaeger", set()),
    ],
)
def test_a_stopped_service_fails_exactly_who_needs_it_until_it_is_back(
    fleet: Fleet, name: str, fails: set[str]
) -> None:
    assert fleet.stop(name) == 0
    failed = {}
    for path in (HOME, USER, COMPOSE):
        status, body = get(fleet, path)
        if status != 200:
            assert status == 500
            failed[path] = json.loads(body)["error"]
    assert set(failed) == fails
    assert set(failed.values()) <= {f"{name}: connect: Connection refused"}
    fleet.start(name)
    assert [get(fleet, path)[0] for path in (HOME, USER, COMPOSE)] == [200, 200, 200]


def test_every_service_answers_its_readiness_probe(fleet: Fleet) -> None:
    for name in ROLES:
        with urllib.request.urlopen(fleet.url(name) + "healthz", timeout=30) as answer:
            assert answer.status == 200


def free_address() -> str:
    """A loopback address of our own, so that a role's fixed port is free on it."""
    return f"127.{1 + os.getpid() % 200}.{os.getpid() // 200 % 250}.77"


def test_a_service_as_a_program_ends_with_0_on_sigterm() -> None:
    host = free_address()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_sremut.demo.service", "--name=user-service"],
        env={**os.environ, "POD_IP": host, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"user-service: listening on {host}:9090\n"
    with urllib.request.urlopen(f"http://{host}:9090/creator?user_id=2", timeout=30) as answer:
        assert json.load(answer) == {"user_id": 2, "username": "user_2"}
    process.send_signal(signal.SIGTERM)
    assert process.stdout.read() == "user-service: stopped\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 0


def test_the_image_holds_all_that_a_service_needs(tmp_path: Path) -> None:
    demo = REPOSITORY / "pytest_sremut" / "demo"
    (copied,) = re.findall(r"^COPY (\S+) (\S+)$", (demo / "Dockerfile").read_text(), re.MULTILINE)
    inside = tmp_path / copied[1]
    inside.mkdir(parents=True)
    for file in demo.glob(copied[0]):
        shutil.copy(file, inside)
    # -S: no site-packages, so the standard library is all there is.
    found = subprocess.run(
        [sys.executable, "-S", "-m", "pytest_sremut.demo.service", "--name=nobody"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "invalid choice: 'nobody'" in found.stderr


def test_misuse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--name=nobody"]) == 2
    assert "user-timeline-service" in capsys.readouterr().err
    assert main([]) == 2
    monkeypatch.setenv("SREMUT_DEMO_CALL_TIMEOUT", "soon")
    assert main(["--name=jaeger"]) == 2
    assert "SREMUT_DEMO_CALL_TIMEOUT: found 'soon'; allowed: seconds" in capsys.readouterr().err


def test_an_address_that_is_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = free_address()
    monkeypatch.setenv("POD_IP", host)
    with socket.socket() as taken:
        taken.bind((host, 16686))
        taken.listen()
        assert main(["--name=jaeger"]) == 1
    assert f"jaeger: cannot listen on {host}:16686" in capsys.readouterr().err


def test_limits_come_from_the_environment() -> None:
    assert Limits.of({}) == Limits(connect=3.0, call=5.0, drain=3.0)
    assert Limits.of({"SREMUT_DEMO_CONNECT_TIMEOUT": "0.5"}).connect == 0.5
    for bad in ("", "nan", "inf", "0", "-1", "1e9"):
        with pytest.raises(SettingsError):
            Limits.of({"SREMUT_DEMO_DRAIN_TIMEOUT": bad})
