"""Kill sessions with SIGKILL at many instants, recover, and check that nothing was lost.

    python benchmarks/kills.py --instants 300 --seed 1 --result kills.json

Half of the kills strike at an exact step: the n-th append to a journal (before it, within its line,
between its write and its fsync, after it) or the n-th write to the API (before and after it is
sent), by a pytest plugin that lies in the script's own project only. The other half come from
outside after a random time. Some hit a worker under `-n 2`, some the recovery itself, which is
then started again.

After each recovery: the namespace is empty, what stood under the target's name at last was the
captured object, bystanders have the UIDs and resourceVersions that they had, the contract passed
where the system was mutated, every file that stood there at the kill is still there byte for byte
and the journal continues it, every attempt is closed and its evidence holds together, no mark is
left, and nothing printed a traceback. A kill that fails keeps its directory and says how to make
it again (`--only INDEX`).

Exit code 0 when every instant was recovered, 1 otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "functional")]

from quick import OPTIONS, make_project  # noqa: E402

from pytest_sremut.cluster.client import KubeClient, load  # noqa: E402
from pytest_sremut.cluster.port import Listing  # noqa: E402
from pytest_sremut.cluster.transport import Answer, Transport  # noqa: E402
from pytest_sremut.demo.manifests import deployment, service  # noqa: E402
from pytest_sremut.demo.roles import ROLES  # noqa: E402
from pytest_sremut.engine.recovery import rebuild  # noqa: E402
from pytest_sremut.engine.steps.capture import restorable  # noqa: E402
from pytest_sremut.evidence.journal import JournalStatus, read_journal  # noqa: E402
from pytest_sremut.evidence.load import load_entry  # noqa: E402
from pytest_sremut.evidence.root import EvidenceRoot  # noqa: E402
from pytest_sremut.ground.formats.canonical import sha256  # noqa: E402

NAMESPACE, THEIRS = "social-network", "bystanders"
MUTANTS = ("ms-m01", "ms-m02", "ms-m03", "ms-m04")
JOURNAL_STEPS = ("before", "torn", "unsynced", "after")
API_STEPS = ("before", "after")
PATIENCE = 300.0

KILLER = '''\
"""Kills its process at the step that SREMUT_KILL names, once: KIND:NUMBER:WHEN."""
import os
import signal

from pytest_sremut.cluster.client import KubeClient
from pytest_sremut.evidence import journal

kind, number, when = (os.environ.get("SREMUT_KILL") or "none:0:never").split(":")
once, counts = os.environ["SREMUT_KILL_FILE"], {"journal": 0, "api": 0}


def tell():
    with open(once + ".counts", "w") as file:
        file.write(f"{counts['journal']} {counts['api']}")


def strike():
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def due(what):
    counts[what] += 1
    if kind == "none":
        tell()
    return kind == what and counts[what] == int(number) and not os.path.exists(once)


def write(self, line, whole=journal.Journal._write):
    if not due("journal"):
        return whole(self, line)
    if when == "before":
        strike()
    elif when in {"torn", "unsynced"}:
        os.write(self._descriptor, line[: len(line) // 2] if when == "torn" else line)
        strike()
    whole(self, line)
    strike()


journal.Journal._write = write


def wrapped(call):
    def api(*arguments, **named):
        mine = due("api")
        if mine and when == "before":
            strike()
        answer = call(*arguments, **named)
        if mine:
            strike()
        return answer

    return api


for name in ("create", "delete", "replace"):
    setattr(KubeClient, name, wrapped(getattr(KubeClient, name)))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One instant, decided by seed and index alone."""

    index: int
    mutant: str
    step: str  # "journal:…", "api:…" as fractions of a whole run, or "time:FRACTION"
    victim: str  # "session", "worker"
    again: str  # the same for the recovery; "": it is left alone
    by: str  # "recover" or "session": what recovers


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of one instant."""

    plan: Plan
    struck: str = ""  # the exact step or the seconds
    phase: str = ""  # of the run when it was killed
    at: str = ""  # where in an operation
    outcome: str = ""
    recoveries: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def plan_of(seed: int, index: int) -> Plan:
    """The plan of an instant."""
    choice = random.Random(f"{seed}/{index}")
    worker = index % 8 == 7
    return Plan(
        index=index,
        mutant=MUTANTS[index % len(MUTANTS)],
        step=_step(choice, exact=index % 2 == 0 or worker),
        victim="worker" if worker else "session",
        again="" if worker or index % 4 != 1 else _step(choice, exact=index % 8 == 1),
        by="session" if worker or index % 16 == 10 else "recover",
    )


def _step(choice: random.Random, *, exact: bool) -> str:
    where = choice.random()
    if not exact:
        return f"time:{where:.4f}"
    if choice.random() < 0.65:
        return f"journal:{where:.4f}:{choice.choice(JOURNAL_STEPS)}"
    return f"api:{where:.4f}:{choice.choice(API_STEPS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """How much there is of a run, or of a recovery, that nobody kills."""

    journal: int
    api: int
    seconds: float

    def exact(self, step: str) -> str:
        """The step that a fraction stands for."""
        kind, fraction, *when = step.split(":")
        if kind == "time":
            return f"time:{max(0.05, float(fraction) * self.seconds):.3f}"
        total = self.journal if kind == "journal" else self.api
        return f"{kind}:{1 + int(float(fraction) * (total - 1))}:{when[0]}"


def _make_small(project: Path) -> None:
    """The same studies with an application of two Deployments and a ConfigMap; the load asks the
    target itself. Every phase and every kind of operation is there, and a tenth of the objects."""
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"settings.json": "{}\n"},
        }
    ]
    for name in ("user-service", "media-service"):
        bodies += [deployment(ROLES[name], NAMESPACE), service(ROLES[name], NAMESPACE)]
    directory = _made(project / "apps" / "small")
    (directory / "all.yaml").write_text("".join(f"---\n{json.dumps(body)}\n" for body in bodies))
    for study in project.glob("audits/*/study.yaml"):
        text = study.read_text()
        mix = text[text.index("  mix:\n") : text.index("\nprofiles:")]
        for old, new in (
            ("demo:social-network", "manifests:apps/small"),
            ("http://nginx-thrift:8080", "http://user-service:9090"),
            (mix, "  mix: [{name: health, path: /healthz, weight: 100}]\n"),
        ):
            text = text.replace(old, new)
        study.write_text(text)


class Bench:
    """One cluster, one project, and the cycles on it."""

    def __init__(self, directory: Path, name: str, *, small: bool) -> None:
        self.directory = directory
        self.name = name
        self.state = directory / "state"
        self.project = make_project(_made(directory / "project"))
        if small:
            _make_small(self.project)
        (self.project / "killer.py").write_text(KILLER)
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTEST", "COV", "SREMUT", "KUBE"))
        } | {"XDG_STATE_HOME": str(self.state), "PYTHONPATH": f"{ROOT}:{self.project}"}
        self._sremut("cluster", "up", "--name", name)
        self.kubeconfig = Path(self._sremut("cluster", "kubeconfig", "--name", name).strip())
        self.environment["KUBECONFIG"] = str(self.kubeconfig)
        self.context = f"sremut-{name}"
        self.client: KubeClient = load(self.kubeconfig, self.context)
        self.transport = Transport.load(self.kubeconfig, self.context)
        self.bystanders = self._plant()
        self.logs = _made(directory / "logs")

    def close(self) -> None:
        """Take the cluster down."""
        self._sremut("cluster", "down", "--name", self.name)

    def _sremut(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_sremut.cli", *arguments],
            env=self.environment, cwd=self.project, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"sremut {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    # -- bystanders -------------------------------------------------------------------------

    def _plant(self) -> dict[str, tuple[str, str]]:
        """Objects of somebody else, in a namespace of their own and of the cluster's scope."""
        where = f"/api/v1/namespaces/{THEIRS}"
        meta = {"name": "user-service", "namespace": THEIRS}
        port = {"name": "9090", "port": 9090, "targetPort": 9090}
        for path, body in (
            ("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": THEIRS}}),
            (f"{where}/services", {"kind": "Service", "metadata": meta, "spec": {"ports": [port]}}),
            (f"{where}/configmaps", {"kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}),
            (
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"kind": "PriorityClass", "metadata": {"name": "theirs"}, "value": 7},
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {"kind": "ClusterRole", "metadata": {"name": "theirs"}, "rules": []},
            ),
        ):
            group = path.split("/namespaces/")[0].removeprefix("/apis/").rpartition("/")[0]
            version = "v1" if path.startswith("/api/") else group
            answer = self.transport.request(
                "POST", path, body={"apiVersion": version, **body}, timeout=30
            )
            assert isinstance(answer, Answer), answer
            assert answer.status == 201, answer
        return self._seen()

    def _seen(self) -> dict[str, tuple[str, str]]:
        seen = {}
        for path in (
            f"/api/v1/namespaces/{THEIRS}",
            f"/api/v1/namespaces/{THEIRS}/services/user-service",
            f"/api/v1/namespaces/{THEIRS}/configmaps/user-service",
            "/apis/scheduling.k8s.io/v1/priorityclasses/theirs",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/theirs",
        ):
            answer = self.transport.request("GET", path, timeout=30)
            if not isinstance(answer, Answer) or answer.status != 200:
                seen[path] = ("gone", str(answer))
                continue
            metadata = json.loads(answer.body)["metadata"]
            seen[path] = (metadata["uid"], metadata["resourceVersion"])
        return seen

    # -- processes --------------------------------------------------------------------------

    def _start(
        self, command: list[str], log: Path, *, kill: str, once: Path
    ) -> subprocess.Popen[bytes]:
        environment = self.environment | {
            "SREMUT_KILL": "" if kill.startswith("time") else kill,
            "SREMUT_KILL_FILE": str(once),
        }
        with log.open("ab") as output:
            return subprocess.Popen(
                command, cwd=self.project, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _session(self, plan: Plan, evidence: Path, log: Path, *, kill: str, once: Path) -> Any:
        distribution = ["-n2"] if plan.victim == "worker" else ["-p", "no:xdist"]
        command = [
            sys.executable, "-m", "pytest", *OPTIONS, "-p", "killer", *distribution,
            f"--sremut-cluster=context:{self.context}", f"--sremut-allow-context={self.context}",
            f"--sremut-evidence={evidence}", "-m", "mutant", "-k", plan.mutant,
        ]  # fmt: skip
        return self._start(command, log, kill=kill, once=once)

    def _recover(self, log: Path, *, kill: str, once: Path) -> Any:
        code = "import killer, sys; from pytest_sremut.cli import main; sys.exit(main(['recover']))"
        return self._start([sys.executable, "-c", code], log, kill=kill, once=once)

    # -- a cycle ----------------------------------------------------------------------------

    def measure(self) -> tuple[Whole, Whole]:
        """A run that nobody kills, and the recovery of one that was killed late."""
        plan = Plan(index=-1, mutant="ms-m02", step="", victim="session", again="", by="recover")
        once, log = self.logs / "measure", self.logs / "measure.log"
        begun = time.monotonic()
        _ended(self._session(plan, self.directory / "measure", log, kill="none:0:x", once=once))
        whole = _whole(once, time.monotonic() - begun)
        kill = whole.exact("journal:0.6:after")
        evidence = self.directory / "measure-killed"
        _ended(self._session(plan, evidence, log, kill=kill, once=self.logs / "killed"))
        begun = time.monotonic()
        code = _ended(self._recover(log, kill="none:0:x", once=once))
        if code:
            raise RuntimeError(f"the first recovery failed:\n{log.read_text()}")
        return whole, _whole(once, time.monotonic() - begun)

    def cycle(self, plan: Plan, run: Whole, recovery: Whole) -> Result:
        """Kill, recover, check."""
        begun = time.monotonic()
        result = Result(plan=plan)
        directory = _made(self.directory / f"instant-{plan.index:04d}")
        evidence, log = directory / "evidence", directory / "session.log"
        version = self._version()
        kill = run.exact(plan.step)
        while not self._killed(plan, kill, evidence, log):
            # It was over before: not every run is as long as the one that was measured.
            kill = _earlier(kill)
            shutil.rmtree(evidence, ignore_errors=True)
            version = self._version()
        result.struck = kill
        before = _files(evidence)
        result.phase, result.at = _where(evidence, died_only=plan.victim == "session")
        if plan.victim == "session":
            result.recoveries = self._recover_all(plan, recovery, directory, result)
        self._check(result, evidence, before, version, directory)
        result.outcome = ", ".join(_outcomes(evidence))
        result.seconds = round(time.monotonic() - begun, 3)
        if not result.problems:
            shutil.rmtree(directory)
        return result

    def _killed(self, plan: Plan, kill: str, evidence: Path, log: Path) -> bool:
        """Whether the session, or its worker, was killed before it was over."""
        once = evidence.parent / "once"
        process = self._session(plan, evidence, log, kill=kill, once=once)
        if kill.startswith("time"):
            self._kill_later(process, float(kill.partition(":")[2]))
        code = _ended(process)
        self._until_quiet(evidence, plan)
        return code == -signal.SIGKILL or once.exists()

    def _kill_later(self, process: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)

    def _until_quiet(self, evidence: Path, plan: Plan) -> None:
        """No process of the session is left that could still write."""
        marker = f"SREMUT_KILL_FILE={evidence.parent / 'once'}".encode()
        deadline = time.monotonic() + PATIENCE
        while _alive(marker):
            if time.monotonic() > deadline:
                raise RuntimeError(f"instant {plan.index}: processes of the session do not end")
            time.sleep(0.02)

    def _recover_all(self, plan: Plan, whole: Whole, directory: Path, result: Result) -> int:
        log = directory / "recover.log"
        count = 0
        if plan.again:
            kill = whole.exact(plan.again)
            result.struck += f", recovery {kill}"
            process = self._recover(log, kill=kill, once=directory / "again")
            if kill.startswith("time"):
                self._kill_later(process, float(kill.partition(":")[2]))
            _ended(process)
            count += 1
        if plan.by == "session":
            healthy = Plan(
                index=plan.index, mutant="ms-m01 and healthy", step="", victim="session", again="",
                by="",
            )  # fmt: skip
            process = self._session(
                healthy, directory / "next", log, kill="", once=directory / "none"
            )
        else:
            process = self._recover(log, kill="", once=directory / "none")
        code = _ended(process)
        if code:
            result.problems.append(f"recovery by {plan.by} ended with {code}")
        return count + 1

    # -- checks -----------------------------------------------------------------------------

    def _version(self) -> str:
        listing = self.client.list("Service", NAMESPACE)
        assert isinstance(listing, Listing), listing
        return listing.resource_version

    def _check(  # noqa: C901  # each finding is one question asked of a killed run
        self, result: Result, evidence: Path, before: dict[str, str], version: str, directory: Path
    ) -> None:
        problems = result.problems
        for kind in ("Deployment", "Service", "Job", "Pod", "Endpoints"):
            listing = self.client.list(kind, NAMESPACE)
            if not isinstance(listing, Listing):
                problems.append(f"{kind}: {listing}")
            elif listing.items and kind != "Endpoints":
                names = [item["metadata"]["name"] for item in listing.items]
                problems.append(f"left over: {kind} {', '.join(names[:3])}")
        seen = self._seen()
        problems += [f"bystander {p}" for p, was in self.bystanders.items() if seen[p] != was]
        problems += [f"mark: {mark}" for mark in self.state.rglob("*.dirty")]
        problems += [f"kept aside: {one}" for one in self.state.rglob("*.target")]
        for log in directory.glob("*.log"):
            if "Traceback" in log.read_text(errors="replace"):
                problems.append(f"a traceback in {log.name}")
        problems += _changed(before, evidence)
        if not (evidence / "attempts").is_dir():
            return
        for entry in EvidenceRoot.existing(evidence).attempts():
            if entry.directory is None or not (entry.directory / "attempt.json").exists():
                continue  # it died before it said who it is, and before it touched anything
            if entry.outcome is None and not _touched(entry.directory):
                continue  # no mark leads there yet: read as DIED, closed by the next session
            if entry.outcome is None:
                problems.append(f"{entry.run} attempt {entry.attempt} is not closed")
                continue
            problems += [f"{entry.run}: {line}" for line in load_entry(entry).problems]
            problems += self._restored(entry.directory, version)

    def _restored(self, directory: Path, version: str) -> list[str]:
        """The target's last body was the captured one; where it was mutated, it was verified."""
        journal = read_journal(directory / "journal.jsonl")
        if journal.status is not JournalStatus.INTACT:
            return [f"journal: {journal.status}: {journal.problem}"]
        state = rebuild(journal.entries)
        passed = [entry.transition for entry in journal.entries]
        found = []
        if state.open:
            found.append(f"intents without a receipt: {[one.id for one in state.open]}")
        if not state.over:
            found.append(f"the run ended in {state.phase}")
        if "MUTANT_INJECTED" in passed and "RESTORE_VERIFIED" not in passed:
            found.append("mutated, and no restoration verified")
        if state.target is None:
            return found
        own = {item.uid for item in state.creations} | {state.target.object.uid}
        bodies = [
            event.object
            for event in self.client.watch(
                "Service", NAMESPACE, resource_version=version, timeout=0.5
            )
            if event.type in {"ADDED", "MODIFIED"}
            and event.object["metadata"]["name"] == state.target.object.ref.name
            and event.object["metadata"]["uid"] in own
        ]
        last = {"kind": "Service", "apiVersion": "v1", **bodies[-1]} if bodies else {}
        if not bodies or sha256(restorable(last)) != state.target.body:
            found.append(f"the target's last body is not the captured one: {last}")
        return found


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _ended(process: Any) -> int:
    try:
        return int(process.wait(PATIENCE))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise RuntimeError(f"it does not end: {process.args}") from None


def _earlier(kill: str) -> str:
    kind, number, *when = kill.split(":")
    if kind == "time":
        return f"time:{float(number) * 0.7:.3f}"
    return f"{kind}:{max(1, int(int(number) * 0.8))}:{when[0]}"


def _whole(once: Path, seconds: float) -> Whole:
    journal, api = map(int, Path(f"{once}.counts").read_text().split())
    return Whole(journal=journal, api=api, seconds=seconds)


def _alive(marker: bytes) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def _files(evidence: Path) -> dict[str, str]:
    """SHA-256 by path, of the whole lines of a journal."""
    found = {}
    for path in evidence.rglob("*"):
        if path.is_file() and ".tmp-" not in path.name:
            data = path.read_bytes()
            if path.name == "journal.jsonl":
                data = data[: data.rfind(b"\n") + 1]
                found[f"{path}\n{len(data)}"] = hashlib.sha256(data).hexdigest()
            else:
                found[str(path)] = hashlib.sha256(data).hexdigest()
    return found


def _changed(before: dict[str, str], evidence: Path) -> list[str]:
    changed = []
    for name, digest in before.items():
        path, _, length = name.partition("\n")
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            changed.append(f"evidence: {error}")
            continue
        if hashlib.sha256(data[: int(length)] if length else data).hexdigest() != digest:
            changed.append(f"evidence: {Path(path).relative_to(evidence)} was changed")
    return changed


def _where(evidence: Path, *, died_only: bool) -> tuple[str, str]:
    """The phase in which a run was killed, and where in an operation."""
    journals = sorted(evidence.glob("*/*/a*/journal.jsonl"), key=lambda one: one.stat().st_mtime)
    if not journals:
        return "before the journal", "-"
    reading = read_journal(journals[-1] if died_only else journals[0])
    entries = reading.entries
    if not died_only:  # up to where the worker died
        begun = next((n for n, e in enumerate(entries) if e.transition == "RECOVERY_STARTED"), None)
        entries = entries[:begun]
    if not entries:
        return "before the first entry", reading.status.value
    state = rebuild(entries)
    last = entries[-1]
    at = last.transition
    if at in {"INTENT", "RECEIPT"}:
        kind = next(o.kind for o in state.operations if o.id == last.facts["operation"])
        at = f"{at} {kind}"
    if reading.status is JournalStatus.TORN_TAIL:
        at += " +torn"
    return state.phase.value, at


def _touched(attempt: Path) -> bool:
    """Whether the run had announced a write to the cluster; its mark stood before that."""
    journal = attempt / "journal.jsonl"
    entries = read_journal(journal).entries if journal.exists() else ()
    return bool(rebuild(entries).operations)


def _outcomes(evidence: Path) -> list[str]:
    if not (evidence / "attempts").is_dir():
        return ["no attempt"]
    entries = EvidenceRoot.existing(evidence).attempts()
    return [entry.outcome.value if entry.outcome else "nothing begun" for entry in entries] or [
        "no attempt"
    ]


# -- all of them --------------------------------------------------------------------------------


def work(bench: Bench, plans: queue.SimpleQueue[Plan], done: list[Result], total: int) -> None:
    """Cycles on one cluster until there are none left."""
    run, recovery = bench.measure()
    print(
        f"{bench.name}: a run is {run.journal} entries, {run.api} writes, {run.seconds:.1f} s; a "
        f"recovery {recovery.journal}, {recovery.api}, {recovery.seconds:.1f} s",
        flush=True,
    )
    while True:
        try:
            plan = plans.get_nowait()
        except queue.Empty:
            return
        try:
            result = bench.cycle(plan, run, recovery)
        except Exception as error:
            result = Result(plan=plan, problems=[f"{type(error).__name__}: {error}"])
        done.append(result)
        verdict = "FAILED" if result.problems else "ok"
        print(
            f"[{len(done):3}/{total}] #{plan.index} {plan.mutant} {plan.victim} {result.struck}: "
            f"{result.phase}, {result.at} -> {result.outcome} {verdict} {result.seconds:.1f} s",
            flush=True,
        )
        for problem in result.problems:
            print(f"      {problem}", flush=True)


def summary(results: list[Result], seed: int) -> str:
    """The figures, for a person."""
    failed = [result for result in results if result.problems]
    lines = [f"{len(failed)}/{len(results)} instants failed (seed {seed})"]
    tables = {
        "phase at the kill": Counter(result.phase for result in results),
        "last entry at the kill": Counter(re.sub(r" \+torn", "", r.at) for r in results),
        "kind of step": Counter(":".join(r.struck.split(",")[0].split(":")[::2]) if
                                not r.struck.startswith("time") else "time" for r in results),
        "victim": Counter(result.plan.victim for result in results),
        "recovery killed, too": Counter(bool(result.plan.again) for result in results),
        "outcome": Counter(result.outcome for result in results),
    }  # fmt: skip
    for title, counts in tables.items():
        lines.append(f"{title}:")
        lines += [f"  {count:4}  {name}" for name, count in counts.most_common()]
    for result in failed:
        lines.append(f"again: python benchmarks/kills.py --seed {seed} --only {result.plan.index}")
    return "\n".join(lines)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", help="an instant by its index")
    parser.add_argument(
        "--small", action="store_true", help="an application of two Deployments instead of 27"
    )
    parser.add_argument("--clusters", type=int, default=1, choices=range(1, 9))
    parser.add_argument("--result", type=Path, help="where figures go, as JSON")
    parser.add_argument("--directory", type=Path, help="where to work (default: a temporary one)")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="sremut-kills-"))
    indices = arguments.only or range(arguments.instants)
    plans: queue.SimpleQueue[Plan] = queue.SimpleQueue()
    for index in indices:
        plans.put(plan_of(arguments.seed, index))
    benches: list[Bench] = []
    done: list[Result] = []
    begun = time.monotonic()
    try:
        for number in range(arguments.clusters):
            benches.append(
                Bench(_made(directory / f"c{number}"), f"kills-{number}", small=arguments.small)
            )
        threads = [
            threading.Thread(target=work, args=(bench, plans, done, len(indices)))
            for bench in benches
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for bench in benches:
            bench.close()
    failed = any(result.problems for result in done) or len(done) < len(indices)
    print(summary(done, arguments.seed))
    print(
        f"{time.monotonic() - begun:.0f} s; {'kept ' + str(directory) if failed else 'all is well'}"
    )
    if arguments.result:
        document = {
            "seed": arguments.seed,
            "instants": len(done),
            "failed": sum(bool(result.problems) for result in done),
            "seconds": round(time.monotonic() - begun, 1),
            "results": [asdict(result) for result in sorted(done, key=lambda r: r.plan.index)],
        }
        arguments.result.write_text(json.dumps(document, indent=1) + "\n")
    if not failed:
        shutil.rmtree(directory)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
