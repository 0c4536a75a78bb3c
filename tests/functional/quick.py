"""A project whose runs take seconds, real sessions in it, and what they left behind.

The studies are this repository's own with one repetition and a profile `quick`: the same states,
graders, contract and mutants, shorter waits. A session is a process of its own that is watched
and signalled by pid, never by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import needs

from pytest_sremut.embedded.linux import syscalls
from pytest_sremut.embedded.linux.processes import ProcessIdentity

ROOT = Path(__file__).resolve().parents[2]
MAIN = "missing_service_social_network"
PINNED = "pinned_endpoints_social_network"
PATIENCE = 240.0  # for what takes some seconds; only a hang reaches it

# Ten rounds of a dozen requests, of which one is compose-post. Fifty a second leave each of the
# three connections 60 ms: on a busy machine a control window must answer what was asked.
PROFILE = """\
  quick:
    settle: 300ms
    poll: 50ms
    sampler: 250ms
    deploy: 30s
    stable: 30s
    oracle: 20s
    barrier: 10s
    deadlines: {MS-I1: 1500ms, MS-I2: 1500ms, MS-I3: 1500ms, MS-I6: 8s}
    workload: {rate: 50, duration: 250ms, pause: 10ms, timeout: 2s, variant: drain}
"""
OPTIONS = (
    *("-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
    *("--sremut-exploratory", "--sremut-profile=quick"),
)
HOW = {"no xdist": ("-p", "no:xdist"), "-n0": ("-n0",), "-n2": ("-n2",)}


def require_clusters() -> None:
    """Skip where no embedded cluster can run; fail if `SREMUT_REQUIRE_EMBEDDED=1` forbids that."""
    from pytest_sremut.embedded.selftest.doctor import diagnose

    lacking = [
        f"{check.name}: {check.detail}" for check in diagnose() if check.needed and not check.ok
    ]
    if lacking:
        told = f"no embedded cluster on this machine: {'; '.join(lacking)}"
        needs.lacking("embedded", told)


def no_namespaces() -> None:
    """In the child: a user namespace in which no further namespace of any kind may be made."""
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1\n")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1\n")
    for kind in ("user", "net", "mnt", "pid"):
        Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")


def make_project(directory: Path) -> Path:
    """This repository's studies, made quick."""
    for name in ("mutants", "contracts", f"audits/{MAIN}", f"audits/{PINNED}"):
        shutil.copytree(ROOT / name, directory / name)
    for study in directory.glob("audits/*/study.yaml"):
        text = study.read_text()
        assert "\n  kind:\n" in text
        text = text.replace("repetitions: 3", "repetitions: 1")
        study.write_text(text.replace("\n  kind:\n", f"\n{PROFILE}  kind:\n"))
    (directory / "pytest.ini").write_text("[pytest]\n")
    return directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a session left behind."""

    project: Path
    code: int
    out: str
    seconds: float
    junit: Path

    def evidence(self) -> Path:
        """The one evidence directory that there is."""
        (directory,) = (self.project / ".sremut" / "evidence").iterdir()
        return directory

    def attempts(self) -> list[dict[str, Any]]:
        """The entries of the attempt ledger in order, the closing one merged over the opening."""
        found = []
        for entry in sorted((self.evidence() / "attempts").glob("*.open.json")):
            body = json.loads(entry.read_text())
            with contextlib.suppress(FileNotFoundError):
                closed = entry.with_name(entry.name.replace(".open.", ".closed."))
                body |= json.loads(closed.read_text())
            found.append(body)
        return found

    def directory(self, attempt: dict[str, Any]) -> Path:
        """Where an attempt of the ledger stands."""
        return self.evidence() / str(attempt["directory"])

    def journal(self, attempt: dict[str, Any]) -> list[dict[str, Any]]:
        """The entries of an attempt's journal, in order."""
        lines = (self.directory(attempt) / "journal.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def states(self, attempt: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The state records of an attempt, by state."""
        files = (self.directory(attempt) / "states").glob("*.json")
        return {file.stem: json.loads(file.read_text()) for file in files}

    def cells(self) -> dict[str, dict[str, str]]:
        """JUnit properties of every cell that was read, by the cell's id."""
        found: dict[str, dict[str, str]] = {}
        for case in ElementTree.parse(self.junit).iter("testcase"):
            name = case.attrib["name"].removeprefix("test_cell[").removesuffix("]")
            properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
            if properties:
                found[name] = properties
        return found

    def verdicts(self) -> dict[str, tuple[str, str]]:
        """What every instrument said, and what was violated, by the cell's id."""
        return {
            cell: (properties["sremut.observed"], properties["sremut.violated"])
            for cell, properties in self.cells().items()
        }


@dataclass(slots=True, kw_only=True)
class Session:
    """A running session."""

    project: Path
    process: subprocess.Popen[str]
    log: Path
    junit: Path
    marker: bytes
    begun: float
    seen: set[ProcessIdentity] = field(default_factory=set)

    def look(self) -> None:
        """Remember every process of the session that is there now."""
        self.seen |= {ProcessIdentity.of(pid) for pid in _family(self.process.pid)}

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the session has come so far."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.look()
            if self.process.poll() is not None:
                raise AssertionError(f"it ended before {what}:\n{self.log.read_text()}")
            assert time.monotonic() < deadline, f"{what} did not come:\n{self.log.read_text()}"
            time.sleep(0.02)  # files of another process: nothing to wait on portably

    def journals(self) -> list[Path]:
        """The journals that there are."""
        return sorted(self.project.glob(".sremut/evidence/*/*/*/*/journal.jsonl"))

    def until_journal(self, text: str) -> None:
        """Wait until an entry of a journal contains `text`."""
        self.until(lambda: any(text in j.read_text() for j in self.journals()), text)

    def signal(self, number: int) -> None:
        """Send a signal to the session's own process."""
        self.look()
        self.process.send_signal(number)

    def end(self) -> Result:
        """Wait for its end."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end:\n{self.log.read_text()}") from None
        return Result(
            project=self.project,
            code=code,
            out=self.log.read_text(),
            seconds=time.monotonic() - self.begun,
            junit=self.junit,
        )

    def left(self) -> list[str]:
        """Processes of the session that are still there, clusters' included.

        Whatever a session starts gets its TMPDIR; that finds also what was not seen before.
        """
        pids = {item.pid for item in self.seen if item.alive()}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self.marker in (entry / "environ").read_bytes():
                    pids |= {
                        item.pid for item in [ProcessIdentity.of(int(entry.name))] if item.alive()
                    }
        return sorted(f"{pid} {_command(pid)}" for pid in pids)

    def until_gone(self) -> None:
        """Wait until no process of the session is left."""
        deadline = time.monotonic() + PATIENCE
        while left := self.left():
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.05)


def _family(pid: int) -> set[int]:
    """A process, its children, theirs, and so on."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return "?"


def _hears_signals() -> None:
    """A session under `nohup` leaves hang-ups alone, and one in a shell's background Ctrl-C, and
    rightly so; these are to hear them."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def session(
    project: Path, *arguments: str, options: Sequence[str] = OPTIONS, **how: Any
) -> Iterator[Session]:
    """A session in a project. It is ended, and its clusters with it, when the block is left."""
    log, junit = project / "session.log", project / "junit.xml"
    temporary = project / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))
    }
    environment |= {
        "TMPDIR": str(temporary),
        "XDG_STATE_HOME": str(project / "state"),
        **how.pop("environment", {}),
    }
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={junit}", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **{"preexec_fn": _hears_signals, **how},
        )
    running = Session(
        project=project,
        process=process,
        log=log,
        junit=junit,
        marker=f"TMPDIR={temporary}".encode(),
        begun=time.monotonic(),
    )
    try:
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def run(project: Path, *arguments: str, **how: Any) -> Result:
    """A whole session, after which no process of it is left."""
    with session(project, *arguments, **how) as running:
        running.look()
        result = running.end()
        assert running.left() == []
    return result
