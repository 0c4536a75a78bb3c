"""What a machine must offer; each lack says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kind_fakes import Fakes

from pytest_sremut import cli
from pytest_sremut.cluster.kind import preflight
from pytest_sremut.cluster.kind.preflight import Survey, refusal
from pytest_sremut.cluster.kind.settings import pins
from pytest_sremut.embedded.selftest.checks import Check
from pytest_sremut.errors import UsageError

IMAGE = pins().node_image
OWN_IMAGE = "kindest/node@sha256:" + "a" * 64


@pytest.fixture
def survey(fakes: Fakes, look: Any) -> Any:
    """Of the fake machine; arguments are the survey's, and `environ` adds to the environment."""

    def surveyed(*, environ: dict[str, str] | None = None, **more: Any) -> Survey:
        found: Survey = look({**fakes.environ, **(environ or {})}, **{"image": IMAGE, **more})
        return found

    return surveyed


def check_of(found: Survey, name: str) -> Check:
    (check,) = (check for check in found.checks if check.name == name)
    return check


def test_a_machine_that_lacks_nothing(survey: Any) -> None:
    found = survey()
    assert refusal(found) is None
    assert (found.provider, found.platform) == ("docker", "linux/amd64")
    assert [check.name for check in found.checks] == [
        "kind", "engine", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches",
        "free disk", "kubectl",
    ]  # fmt: skip
    assert all(check.ok for check in found.checks)


def test_podman_where_docker_does_not_answer(fakes: Fakes, survey: Any) -> None:
    fakes.install("podman")
    fakes.rule("docker info", stdout="|||\n", stderr="Cannot connect to the Docker daemon\n")
    found = survey()
    assert (found.provider, check_of(found, "engine").detail) == (
        "podman", "podman 5.8.1, linux/amd64",
    )  # fmt: skip


def test_the_engine_that_kind_was_told(fakes: Fakes, survey: Any) -> None:
    fakes.install("podman")
    assert survey(environ={"KIND_EXPERIMENTAL_PROVIDER": "podman"}).provider == "podman"
    assert fakes.calls("docker") == []
    with pytest.raises(UsageError, match=r"found 'nerdctl'; allowed: docker \| podman"):
        survey(environ={"KIND_EXPERIMENTAL_PROVIDER": "nerdctl"})


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("behaviour", "detail"),
    [
        ({"code": 1, "stderr": "permission denied: docker.sock\n"}, "permission denied"),
        ({"stdout": "|||\n", "stderr": "Cannot connect\n"}, "docker info: found '|||'; Cannot"),
        ({"stdout": "\x00garbage\n"}, "docker info: found '?garbage'"),
        ({"hang": True}, "docker info --format did not end within 15 s"),
        ({"stdout": "windows|x86_64|29|C:\\\n"}, "docker runs on windows/x86_64"),
        ({"stdout": "linux|riscv64|29|/\n"}, "docker runs on linux/riscv64"),
    ],
    ids=["refused", "no-daemon", "garbage", "hanging", "windows", "riscv"],
)
def test_an_engine_that_cannot_be_used(
    fakes: Fakes, survey: Any, behaviour: dict[str, Any], detail: str
) -> None:
    fakes.rule("docker info", **behaviour)
    found = survey()
    engine = check_of(found, "engine")
    assert detail in engine.detail
    assert "podman is not on PATH" in engine.detail
    assert engine.advice
    assert (found.provider, found.platform) == ("", "")
    error = refusal(found)
    assert error is not None
    assert detail in str(error)
    assert "engine: " in error.diagnostics()


def test_another_kind_release(fakes: Fakes, survey: Any) -> None:
    fakes.change(kind_version="kind v0.20.0 go1.20.4 linux/amd64")
    kind = check_of(survey(), "kind")
    assert not kind.ok
    assert f"the pinned node image is of {pins().kind}" in kind.detail
    assert "sremut_kind_image" in kind.advice
    # Who names an image of that release knows what goes with it.
    assert check_of(survey(image=OWN_IMAGE), "kind").ok


@pytest.mark.parametrize("version", ["", "garbage", "v0.33.0"])
def test_a_kind_that_tells_no_version(fakes: Fakes, survey: Any, version: str) -> None:
    fakes.change(kind_version=version)
    kind = check_of(survey(image=OWN_IMAGE), "kind")
    assert (kind.ok, kind.detail) == (False, "does not tell its version")


def test_programs_that_are_not_there(fakes: Fakes, survey: Any) -> None:
    (fakes.bin / "kind").unlink()
    (fakes.bin / "kubectl").unlink()
    found = survey()
    assert found.facts["executables"] == {"kind": None, "kubectl": None}
    assert [check.name for check in found.lacking] == ["kind"]  # kubectl is not needed
    assert f"install kind {pins().kind}" in check_of(found, "kind").advice


def test_limits_of_the_kernel(survey: Any, inotify: Path) -> None:
    (inotify / "max_user_watches").write_text("65536\n")
    check = check_of(survey(), "fs.inotify.max_user_watches")
    assert (check.ok, check.detail) == (False, "65536, needed 524288")
    assert check.advice == "sudo sysctl fs.inotify.max_user_watches=524288"
    (inotify / "max_user_watches").write_text("many\n")
    (inotify / "max_user_instances").unlink()
    found = survey()
    assert refusal(found) is None  # unknown is no lack: the engine's machine may be another one
    assert "cannot be read" in check_of(found, "fs.inotify.max_user_watches").detail


def test_disk(survey: Any) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> int:
        asked.append(path)
        if path == Path("/var/lib/docker"):
            raise PermissionError
        return 7 << 30

    disk = check_of(survey(usage=usage), "free disk")
    assert (disk.ok, disk.detail) == (True, "7168 MiB where /var/lib lies, needed 6144")
    disk = check_of(survey(usage=usage, workers=2), "free disk")
    assert (disk.ok, disk.detail) == (False, "7168 MiB where /var/lib lies, needed 10240")
    assert "docker system df" in disk.advice
    assert asked[:2] == [Path("/var/lib/docker"), Path("/var/lib")]


def test_disk_that_nobody_can_ask(survey: Any) -> None:
    def usage(path: Path) -> int:
        raise PermissionError

    assert refusal(survey(usage=usage)) is None


def test_doctor_tells_the_same_and_needs_none_of_it(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pytest_sremut.embedded.selftest.doctor.diagnose", list)
    for key, value in fakes.environ.items():
        monkeypatch.setenv(key, value)
    (fakes.bin / "kind").unlink()
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "no   kind: kind: not on PATH",
        f"     install kind {pins().kind} ({pins().source}) and put it on PATH",
    ]
    assert "OK   kind: engine: docker 29.9.2, linux/amd64" in lines
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "nerdctl")
    assert [
        check.ok for check in preflight.diagnose({"KIND_EXPERIMENTAL_PROVIDER": "nerdctl"})
    ] == [False]
