"""A real cluster goes up and down, with everything that may end it in between."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
from real_cluster import core, eventually, start

from pytest_sremut.embedded import EmbeddedCluster, EmbeddedError, Options, attach, up


def processes(directory: Path) -> list[int]:
    """Every process that has something of the cluster's open: its log, at least."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            links = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith(f"{directory}/") for link in links):
            found.append(int(entry.name))
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with start(tmp_path) as running:
        yield running


def test_up_and_down(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    assert cluster.alive()
    # One look can miss a process that closes a descriptor just then.
    eventually(lambda: len(processes(tmp_path)) >= 4, "supervisor, init, daemon, zygote")
    (node,) = core(cluster).list_node().items
    assert {c.type: c.status for c in node.status.conditions}["Ready"] == "True"
    cluster.close()
    assert processes(tmp_path) == []
    assert not cluster.alive()
    cluster.close()


def test_facts_and_self_test(cluster: EmbeddedCluster) -> None:
    report = cluster.selftest(timeout=60)
    assert report.deviations == []
    assert report.ok
    assert {probe.argv[0] for probe in report.probes} == {"nslookup", "nc", "wget"}
    facts = cluster.facts()
    assert facts["isolation"] in ("userns", "root")
    assert facts["routing"]["mode"] in ("nft", "forwarder")
    for name in ("nslookup", "nc", "wget"):
        tool = facts["tools"][name]
        assert tool["origin"] in ("own", "machine")
        assert len(tool["sha256"]) == 64
    assert json.loads(json.dumps(facts)) == facts
    status = cluster.status()
    assert status["selftest"] == "done"
    assert status["failures"] == []


def test_the_kubeconfig_is_private(cluster: EmbeddedCluster) -> None:
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
    document = json.loads(cluster.kubeconfig.read_text())
    assert document["current-context"] == cluster.context == "sremut-test"
    assert document["clusters"][0]["cluster"]["server"] == cluster.server


@pytest.mark.parametrize("routing", ["forwarder", "nft"])
def test_both_ways_of_routing_behave_as_recorded(tmp_path: Path, routing: str) -> None:
    try:
        cluster = start(tmp_path, options=Options(routing=routing, tools="own"))
    except EmbeddedError as error:
        if routing == "nft" and "nft" in str(error):
            needs.lacking("nft", str(error))
        raise
    with cluster:
        report = cluster.selftest(timeout=60)
        assert report.deviations == []
        assert report.routing["mode"] == routing


def test_several_nodes(tmp_path: Path) -> None:
    with start(tmp_path, options=Options(nodes=3)) as cluster:
        names = [node.metadata.name for node in core(cluster).list_node().items]
        assert names == ["node-1", "node-2", "node-3"]
        assert cluster.facts()["nodes"]["node-3"] == "192.0.2.4"


def test_one_cluster_a_directory(cluster: EmbeddedCluster) -> None:
    with pytest.raises(EmbeddedError, match="a cluster already runs in"):
        up(directory=cluster.directory, name="second", images={})
    assert cluster.status()["name"] == "test"


def test_a_cluster_can_follow_another_in_its_directory(tmp_path: Path) -> None:
    for _ in range(2):
        with start(tmp_path) as cluster:
            assert cluster.status()["pods"] == 0


def test_a_detached_cluster_outlives_its_launcher(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from pytest_sremut.embedded import up
        cluster = up(directory=Path(sys.argv[1]), name="far", images={}, detach=True)
        print(cluster.pid)
        """
    )
    start(tmp_path / "probe").close()  # skips where there are no clusters
    place = tmp_path / "c"
    done = subprocess.run(
        [sys.executable, "-c", program, str(place)], check=True, capture_output=True, text=True
    )
    cluster = attach(place)
    try:
        assert cluster.pid == int(done.stdout)
        assert cluster.status()["name"] == cluster.name == "far"
        assert core(cluster).list_namespace().items
        with pytest.raises(EmbeddedError, match="a cluster already runs in"):
            up(directory=place, name="far", images={})
    finally:
        cluster.close()
    assert processes(place) == []
    with pytest.raises(EmbeddedError, match="no cluster runs in"):
        attach(place)


def test_a_detached_cluster_that_was_killed_is_not_attached_to(tmp_path: Path) -> None:
    cluster = start(tmp_path, detach=True)
    os.kill(cluster.pid, signal.SIGKILL)
    eventually(lambda: processes(tmp_path) == [], "all processes are gone")
    with pytest.raises(EmbeddedError, match="is gone"):
        attach(tmp_path)
    cluster.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_death_of_the_launcher_is_the_end_of_all(tmp_path: Path, number: int) -> None:
    start(tmp_path / "probe").close()
    program = textwrap.dedent(
        """
        import os, signal, sys, time
        from pathlib import Path
        from pytest_sremut.embedded import up
        # A shell's background job ignores it, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cluster = up(directory=Path(sys.argv[1]), name="near", images={})
        if os.fork() == 0:      # a child that holds a copy of the control socket
            time.sleep(1000)
        print(cluster.pid, flush=True)
        time.sleep(1000)
        """
    )
    place = tmp_path / "c"
    launcher = subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert launcher.stdout is not None
        assert int(launcher.stdout.readline()) > 0
        assert processes(place)
        launcher.send_signal(number)
        launcher.wait(20)
        eventually(lambda: processes(place) == [], "all processes are gone")
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.communicate()


def test_the_end_of_the_thread_that_started_it_is_not_the_end(tmp_path: Path) -> None:
    start(tmp_path / "probe").close()
    made: list[EmbeddedCluster] = []
    thread = threading.Thread(target=lambda: made.append(start(tmp_path / "c")))
    thread.start()
    thread.join()
    with made[0] as cluster:
        assert cluster.status()["name"] == "test"


def test_a_killed_supervisor_takes_all_with_it(cluster: EmbeddedCluster) -> None:
    os.kill(cluster.pid, signal.SIGKILL)
    eventually(lambda: processes(cluster.directory) == [], "all processes are gone")
    with pytest.raises(EmbeddedError, match="does not answer") as caught:
        cluster.status()
    assert "is gone" in caught.value.advice


def test_a_supervisor_that_does_not_react_is_killed(cluster: EmbeddedCluster) -> None:
    os.kill(cluster.pid, signal.SIGSTOP)
    cluster.close()
    assert processes(cluster.directory) == []


def test_a_killed_daemon_is_the_end(cluster: EmbeddedCluster) -> None:
    (init,) = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
    (daemon,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
    os.kill(int(daemon), signal.SIGKILL)
    eventually(lambda: not cluster.alive(), "the supervisor has ended")
    assert processes(cluster.directory) == []


def test_no_descriptor_of_the_launcher_is_left_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    start(tmp_path).close()
    before = open_files()
    start(tmp_path).close()
    with pytest.raises(EmbeddedError):
        up(directory=tmp_path, name="n", images={}, timeout=0)
    assert open_files() == before
    eventually(lambda: processes(tmp_path) == [], "all processes are gone")


def test_a_start_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    start(tmp_path).close()
    with pytest.raises(EmbeddedError, match=r"was not ready within 0\.01 s"):
        up(directory=tmp_path, name="n", images={}, timeout=0.01)
    assert processes(tmp_path) == []


# Where namespaces are forbidden: simulated in a user namespace that may not have another.

_PROGRAM = """
import json, sys
from pathlib import Path
from pytest_sremut.embedded import EmbeddedError, up
try:
    with up(directory=Path(sys.argv[1]), name="n", images={}) as cluster:
        print(json.dumps({"isolation": cluster.facts()["isolation"]}))
except EmbeddedError as error:
    print(error.to_json())
"""
_FORBIDDEN = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
if libc.unshare(0x10000000):
    sys.exit("no user namespace")
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
Path("/proc/sys/user/max_user_namespaces").write_text("0")
if sys.argv[1] == "powerless":
    libc.prctl(28, 0x3)                     # root has no special powers after exec
    for capability in range(64):
        libc.prctl(24, capability)          # and cannot get any back
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[2:]])
"""


def _forbidden(directory: Path, power: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", _FORBIDDEN, power, _PROGRAM, str(directory)],
        check=False,
        capture_output=True,
        text=True,
    )
    if "no user namespace" in done.stderr:
        start(directory)  # skips or fails, as it should be
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_forbidden_user_namespaces_are_said_with_step_and_errno(tmp_path: Path) -> None:
    answer = _forbidden(tmp_path, "powerless")
    assert answer["step"] == "create a user namespace"
    assert answer["errno"] == errno.ENOSPC
    assert "user.max_user_namespaces (here 0)" in str(answer["advice"])
    assert processes(tmp_path) == []


def test_root_does_without_user_namespaces(tmp_path: Path) -> None:
    assert _forbidden(tmp_path, "root") == {"isolation": "root"}
