"""Namespaces: which level, what is said where there is none, and a container's root."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest
from embedded_netns import in_child

from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet import rootfs
from pytest_sremut.embedded.kubelet.rootfs import Binding, RootSpec
from pytest_sremut.embedded.linux import namespaces, syscalls
from pytest_sremut.embedded.linux.namespaces import Level, StepError


def _levels(monkeypatch: pytest.MonkeyPatch, *working: Level, admin: bool) -> None:
    def attempt(level: Level) -> StepError | None:
        return None if level in working else StepError(f"try {level}", errno.EPERM)

    monkeypatch.setattr(namespaces, "_try", attempt)
    monkeypatch.setattr(namespaces, "_may_administer", lambda: admin)


def test_a_user_namespace_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    _levels(monkeypatch, "userns", "root", admin=True)
    assert namespaces.find_level() == "userns"


def test_root_may_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    _levels(monkeypatch, "root", admin=True)
    assert namespaces.find_level() == "root"


@pytest.mark.parametrize("admin", [False, True])
def test_without_any_the_first_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, admin: bool
) -> None:
    _levels(monkeypatch, admin=admin)
    with pytest.raises(EmbeddedError) as caught:
        namespaces.find_level()
    assert (caught.value.step, caught.value.errno) == ("try userns", errno.EPERM)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("settings", "number", "hint"),
    [
        ({"user/max_user_namespaces": "0"}, errno.ENOSPC, "user.max_user_namespaces (here 0)"),
        ({}, errno.ENOSPC, "user.max_user_namespaces (here not readable)"),
        ({"kernel/unprivileged_userns_clone": "0"}, errno.EPERM, "unprivileged_userns_clone is 0"),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1"},
            errno.EPERM,
            "AppArmor forbids them",
        ),
        ({}, errno.EPERM, "run as root"),
    ],
)
def test_advice_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], number: int, hint: str
) -> None:
    monkeypatch.setattr(namespaces, "_sysctl", settings.get)
    monkeypatch.setattr(namespaces, "_in_container", lambda: False)
    assert hint in namespaces.advice(number)


def test_advice_names_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_sysctl", lambda _: None)
    monkeypatch.setattr(namespaces, "_in_container", lambda: True)
    assert "seccomp" in namespaces.advice(errno.EPERM)
    assert "seccomp" not in namespaces.advice(errno.ENOSPC)


def test_a_trial_leaves_this_process_alone() -> None:
    before = [Path(f"/proc/self/ns/{name}").readlink() for name in ("user", "net", "mnt", "uts")]
    namespaces._try("userns")
    namespaces._try("root")
    after = [Path(f"/proc/self/ns/{name}").readlink() for name in ("user", "net", "mnt", "uts")]
    assert before == after


def test_a_failing_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_flags: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(syscalls, "unshare", refuse)
    with pytest.raises(StepError) as caught:
        namespaces.enter("userns")
    assert (caught.value.step, caught.value.errno) == ("create a user namespace", errno.ENOSPC)
    failed = namespaces._try("root")
    assert failed is not None
    assert failed.step == "create network, mount, pid, UTS and IPC namespaces"


def test_loopback_comes_up() -> None:
    def body() -> str:
        namespaces.loopback_up()
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()
        return "up"

    assert in_child(body) == "up"


def test_calls_raise_with_the_errno() -> None:
    for call, number in (
        (lambda: syscalls.mount("x", "/no/such/place", "tmpfs"), {errno.ENOENT, errno.EPERM}),
        (lambda: syscalls.umount("/no/such/place"), {errno.ENOENT, errno.EPERM}),
        (lambda: syscalls.setns(-1, 0), {errno.EBADF}),
        (
            lambda: syscalls.set_read_only("/no/such/place", read_only=True),
            {errno.ENOENT, errno.EPERM},
        ),
        (lambda: syscalls.pivot_root("/no/such", "/no/such"), {errno.ENOENT, errno.EPERM}),
    ):
        with pytest.raises(OSError, match=r".+") as caught:
            call()
        assert caught.value.errno in number


def _in_root(directory: Path, spec: RootSpec, body: Any) -> Any:
    """Run `body` inside a container's root, in a child."""

    def enter() -> Any:
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        rootfs.protect(directory)
        for name in ("hello", "bin/tool"):
            (directory / "run" / name).write_text(name)
        rootfs.enter_root(spec, rootfs.needed_paths())
        return body()

    return in_child(enter)


@pytest.fixture
def spec(tmp_path: Path) -> RootSpec:
    run = tmp_path / "run"
    return RootSpec(
        run=str(run),
        files={"/etc/resolv.conf": "nameserver 10.96.0.10\n", "/etc/hostname": "web\n"},
        bindings=(
            Binding(source=str(run / "hello"), target="/dev/termination-log"),
            Binding(source=str(run / "hello"), target="/usr/share/none/such", read_only=True),
            Binding(source=str(run / "hello"), target="/var/run/secrets/a/b"),
        ),
        hidden=(str(tmp_path),),
    )


def test_a_containers_root(tmp_path: Path, spec: RootSpec) -> None:
    (tmp_path / "kubeconfig").write_text("mine")
    there = [path for path in rootfs.needed_paths() if Path(path).exists()]

    def body() -> dict[str, Any]:
        Path("/made").mkdir()
        Path("/tmp/made").write_text("x")
        Path("/var/made").write_text("x")
        Path("/run/made").write_text("x")
        facts: dict[str, Any] = {
            "resolv.conf": Path("/etc/resolv.conf").read_text(),
            "hostname": Path("/etc/hostname").read_text(),
            "passwd": Path("/etc/passwd").read_text() != "",
            "message": Path("/dev/termination-log").read_text(),
            "deep": Path("/usr/share/none/such").read_text(),
            "secret": Path("/run/secrets/a/b").read_text(),
            "tool": Path(f"{rootfs.TOOLS}/tool").read_text(),
            "usr": any(Path("/usr").iterdir()),
            "neighbours": any(Path("/usr/share").iterdir()),
            "mine": (tmp_path / "kubeconfig").exists(),
            "null": Path("/dev/null").is_char_device(),
            "python": [p for p in there if not Path(p).exists()],
            "old": Path("/.sremut/old").exists(),
        }
        for place in ("/usr/x", "/usr/share/none/such", f"{rootfs.TOOLS}/x"):
            try:
                Path(place).write_text("x")
            except OSError as error:
                facts[place] = errno.errorcode[error.errno or 0]
        return facts

    facts = _in_root(tmp_path, spec, body)
    assert facts == {
        "resolv.conf": "nameserver 10.96.0.10\n",
        "hostname": "web\n",
        "passwd": True,
        "message": "hello",
        "deep": "hello",
        "secret": "hello",
        "tool": "bin/tool",
        "usr": True,
        "neighbours": True,
        "mine": False,
        "null": True,
        "python": [],
        "old": False,
        "/usr/x": "EROFS",
        "/usr/share/none/such": "EROFS",
        f"{rootfs.TOOLS}/x": "EROFS",
    }
    assert (tmp_path / "kubeconfig").read_text() == "mine"
    assert not Path("/made").exists()


def test_the_machine_cannot_be_written_to(tmp_path: Path) -> None:
    def body() -> list[str]:
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        missing = rootfs.protect(tmp_path)
        try:
            Path("/usr/x").write_text("x")
        except OSError as error:
            missing.append(errno.errorcode[error.errno or 0])
        (tmp_path / "here").write_text("x")
        (tmp_path / "run" / "private").write_text("x")
        return [text for text in missing if "/proc" not in text]

    assert in_child(body) == ["EROFS"]
    assert (tmp_path / "here").exists()
    assert not (tmp_path / "run" / "private").exists()


def test_a_working_directory_is_made(tmp_path: Path, spec: RootSpec) -> None:
    def body() -> list[str]:
        places = []
        for path in ("/app/deep", "/usr/share/fresh", "/tmp"):
            rootfs.change_directory(path)
            places.append(str(Path.cwd()))
        return places

    assert _in_root(tmp_path, spec, body) == ["/app/deep", "/usr/share/fresh", "/tmp"]


def test_a_spec_survives_json(spec: RootSpec) -> None:
    assert RootSpec.from_json(spec.to_json()) == spec
