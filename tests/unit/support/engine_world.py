"""A whole run in memory: an application of two Deployments whose controllers are reactors of a
`FakeKube`, load pods that really answer by the state of the world, a clock that nobody waits for.

    world = EngineWorld(tmp_path)
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    world.kube.break_always("list", "Pod")        # the API goes away, and so on
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from direct_reading import direct
from fake_kube import FakeKube
from world import NS, World, deployment, replica_set

from pytest_sremut.cluster.port import ClusterFacts, ClusterIdentity, KubeApi
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps.instruments import InstrumentSet
from pytest_sremut.errors import HarnessError, SremutError
from pytest_sremut.evidence.identity import AttemptIdentity, file_digests
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Registration

__all__ = ["EngineWorld", "FakeClock", "FakeInstrument", "small_application"]

ROOT = Path(__file__).resolve().parents[3]
STUDY = PurePosixPath("audits/missing_service_social_network/study.yaml")
PINNED = PurePosixPath("audits/pinned_endpoints_social_network/study.yaml")


class FakeClock:
    """Time passes only when somebody waits, and a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        self._seconds += 0.001
        return datetime(2026, 8, 29, 10, 0, 0, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        self._seconds += 0.001
        return self._seconds

    def wait(self, seconds: float) -> None:
        self._seconds += max(0.0, seconds)


class FakeInstrument:
    """Reads like the in-process one, from the fake API; may be told what to say or to fail."""

    def __init__(self, name: str, kube: FakeKube) -> None:
        self.name = name
        self._kube = kube
        self.before: Callable[[ReadingRequest], None] = lambda request: None
        self.change: Callable[[ReadingRequest, Reading], Reading] = lambda request, reading: reading

    def start(self) -> None:
        pass

    def read(self, request: ReadingRequest) -> Reading:
        self.before(request)
        return self.change(request, direct(request, self._kube, instrument=self.name))

    def close(self) -> None:
        pass

    def hang(self, request: ReadingRequest) -> None:
        raise HarnessError(f"oracle {request.oracle.id} did not end within {request.timeout:g} s")


def small_application(_application: str, namespace: str, _image: str) -> list[dict[str, Any]]:
    """Two Deployments and the target Service, as manifests."""
    bodies: list[dict[str, Any]] = []
    for name in ("media-service", "user-service"):
        labels = {"service": name}
        bodies.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
                },
            }
        )
    bodies.append(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "user-service", "namespace": namespace},
            "spec": {
                "type": "ClusterIP",
                "selector": {"service": "user-service"},
                "ports": [{"name": "9090", "port": 9090, "targetPort": 9090, "protocol": "TCP"}],
            },
        }
    )
    return bodies


class EngineWorld(World):
    """The cluster, its controllers, its load and probe pods. A `Cluster` and a `LeasePort`."""

    name = "fake"
    context = "sremut-fake"
    kubeconfig = Path("/nonexistent/kubeconfig")

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.directory = directory
        self.deviations: list[str] = []
        self.uid = "cluster-1"
        self.rounds_fail = False  # every request of every round, whatever the world looks like
        self.hooks: list[Callable[[str, Mapping[str, Any]], None]] = []
        self.stuck: set[str] = set()  # Deployments whose pods never become ready
        self._begin()
        self.instruments = [
            FakeInstrument("in-process", self.kube),
            FakeInstrument("isolated", self.kube),
        ]
        self.marks: list[str] = []  # notes of a dirty cluster, "" for a clean one
        self.aside = b""
        self.sealed: Mapping[str, Any] | None = None  # what binds attempts of a sealed session
        self._drivers: list[Driver] = []

    def _begin(self) -> None:
        """An empty cluster with one ready node."""
        self.kube = FakeKube()
        self._addresses = 10
        self.replace_pods = True
        self.listening = {9090}
        self.kube.put(
            {
                "kind": "Node",
                "metadata": {"name": "node-1"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
        self.kube.reactors.append(self._control)
        self.kube.on_exec = self._exec

    # -- Cluster ----------------------------------------------------------------------------

    @property
    def api(self) -> KubeApi:
        return self.kube

    def identity(self) -> ClusterIdentity:
        return ClusterIdentity(kube_system_uid=self.uid, server_version="v1.36.2", server="fake")

    def kube_system_uid(self) -> str:
        return self.uid

    def facts(self) -> ClusterFacts:
        return ClusterFacts(kind="embedded", name="fake", context=self.context, values={})

    def fit_for_verdicts(self, *, timeout: float) -> Sequence[str]:
        return self.deviations

    def close(self) -> None:
        pass

    # -- a run ------------------------------------------------------------------------------

    def study(self) -> Study:
        return load_study(ROOT, STUDY)

    def pinned(self) -> Study:
        """The study of the mutant that consists of two objects."""
        return load_study(ROOT, PINNED)

    def driver(
        self,
        mutant: str,
        *,
        study: Study | None = None,
        profile: str = "embedded",
        **more: Any,
    ) -> Driver:
        """A driver for the first repetition of a mutant, its attempt opened on disk."""
        study = study or self.study()
        run = next(r for r in _runs(study) if r.mutant == mutant)
        protocol = dataclasses.replace(
            study.profiles[profile],
            deploy_timeout=2.0,
            stable_timeout=2.0,
            barrier_timeout=1.0,
            sampler_interval=0.005,
        )
        attempt = EvidenceRoot.open(self.directory, clock=self.clock).begin(
            AttemptIdentity(
                study=study.id,
                run=run.id,
                mutant=run.mutant,
                repetition=run.repetition,
                registration=Registration.EXPLORATORY,
                session="test",
                files=file_digests(ROOT, study.frozen),
                profile=profile,
                cluster={"kind": "fake", "kube_system_uid": self.uid},
                sealed=self.sealed,
            )
        )
        driver = Driver(
            study=study,
            run=run,
            protocol=protocol,
            cluster=self,
            identity=self.identity(),
            allowed_contexts=more.pop("allowed_contexts", frozenset({self.context})),
            attempt=attempt,
            instruments=InstrumentSet(self.instruments),
            registration=Registration.EXPLORATORY,
            clock=self.clock,
            progress=lambda text: None,
            lease=self,
            **more,
        )
        self._drivers.append(driver)
        return driver

    def stop(self) -> None:
        """End the threads of drivers that no test brought to their end."""
        for driver in self._drivers:
            with contextlib.suppress(SremutError):
                driver._samples.stop()

    # -- LeasePort --------------------------------------------------------------------------

    def mark_dirty(self, note: str) -> None:
        self.marks.append(note)

    def mark_clean(self) -> None:
        self.marks.append("")

    def keep_aside(self, body: bytes) -> None:
        self.aside = body

    # -- controllers ------------------------------------------------------------------------

    def _control(self, kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:  # noqa: C901  # one branch for each kind that a controller keeps
        kind, name = body["kind"], body["metadata"]["name"]
        match verb, kind:
            case "create", "Deployment":
                self._roll_out(name)
            case "delete", "Deployment":
                self._drop_workload(name)
            case "create", "Service":
                self._number(name)
            case "create", "Job":
                self._load_pod(body)
            case "delete", "Job":
                # Deletions come side by side: its pod may have been deleted by name before.
                if ("Pod", NS, f"{name}-x") in self.kube.objects:
                    self.kube.drop("Pod", NS, f"{name}-x")
            case "create", "Pod":
                self._run_pod(body)
            case "create", "Endpoints":
                self._mirror(body)
            case "delete", "Pod":
                self._replace(body)
        if kind in {"Pod", "Service", "Deployment"}:
            self.settle()
        for hook in list(self.hooks):
            hook(f"{verb} {kind}", body)

    def _run_pod(self, body: Mapping[str, Any]) -> None:
        """A bare pod runs; an oracle's probe pod ends with what it saw."""
        name = body["metadata"]["name"]
        if body["metadata"]["labels"].get("app") != "service-connectivity-check":
            address = f"10.244.9.{len(self.kube.history) % 250}"
            self.kube.change("Pod", NS, name, status=_running(address))
            return
        self.kube.change("Pod", NS, name, status={"phase": "Pending", "conditions": []})
        connected = self.connects()
        phase = "Succeeded" if connected else "Failed"
        self.kube.change("Pod", NS, name, status={"phase": phase, "conditions": []})
        self.kube.log_chunks[(NS, name)] = [b"SERVICE_OK\n"] if connected else []

    def _roll_out(self, name: str) -> None:
        known = self.kube.objects[("Deployment", NS, name)]
        full = deployment(name, 1, ready=0 if name in self.stuck else 1)
        full["metadata"] = {**full["metadata"], **known["metadata"], "generation": 1}
        self.kube.put(full)
        owned = replica_set(name)
        owned["metadata"]["ownerReferences"][0]["uid"] = full["metadata"]["uid"]
        self.kube.put(owned)
        self._pod_of(name)

    def _pod_of(self, name: str) -> None:
        body = self.new_pod(name)
        if name in self.stuck:
            conditions = [{"type": "Ready", "status": "False"}]
            pod_name = body["metadata"]["name"]
            self.kube.change(
                "Pod", NS, pod_name, status={**body["status"], "conditions": conditions}
            )

    def _drop_workload(self, name: str) -> None:
        self.kube.drop("ReplicaSet", NS, f"{name}-56f47b76b")
        for item in self.pods(name):
            self.kube.drop("Pod", NS, item["metadata"]["name"])

    def _number(self, name: str) -> None:
        self._addresses += 1
        address = f"10.96.0.{self._addresses}"
        self.kube.change("Service", NS, name, spec__clusterIP=address, spec__clusterIPs=[address])

    def _mirror(self, body: Mapping[str, Any]) -> None:
        for subset in body.get("subsets") or ():
            self.kube.put(
                {
                    "kind": "EndpointSlice",
                    "metadata": {
                        "name": "user-service-mirror",
                        "namespace": NS,
                        "labels": {"kubernetes.io/service-name": "user-service"},
                    },
                    "addressType": "IPv4",
                    "endpoints": [
                        {"addresses": [item["ip"]], "conditions": {"ready": True}}
                        for item in subset["addresses"]
                    ],
                    "ports": [dict(port) for port in subset["ports"]],
                }
            )

    def _replace(self, body: Mapping[str, Any]) -> None:
        owners = body["metadata"].get("ownerReferences")
        if not owners or not self.replace_pods:
            return
        workload = owners[0]["uid"].removeprefix("replicaset-")
        if ("Deployment", NS, workload) in self.kube.objects:
            self._pod_of(workload)

    def settle(self) -> None:
        """As the endpoint controllers; a mirrored slice goes with its Service."""
        super().settle()
        service = self.kube.objects.get(("Service", NS, "user-service"))
        mirror = ("EndpointSlice", NS, "user-service-mirror")
        if (service is None or service["spec"].get("selector")) and mirror in self.kube.objects:
            self.kube.drop(*mirror)
        controlled = ("EndpointSlice", NS, "user-service-ctl")
        unselected = service is not None and not service["spec"].get("selector")
        if unselected and controlled in self.kube.objects:
            self.kube.drop(*controlled)

    # -- load -------------------------------------------------------------------------------

    def _load_pod(self, job: Mapping[str, Any]) -> None:
        name = f"{job['metadata']['name']}-x"
        self.kube.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": NS,
                    "labels": dict(job["spec"]["template"]["metadata"]["labels"]),
                },
                "status": {"phase": "Succeeded", "conditions": []},
            }
        )
        arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
        rounds = next(int(a.split("=")[1]) for a in arguments if a.startswith("--rounds="))
        (duration,) = [a.split("=")[1] for a in arguments if a.startswith("--duration=")]
        self.kube.log_chunks[(NS, name)] = [self._log(rounds, float(duration.removesuffix("s")))]

    def _log(self, rounds: int, duration: float) -> bytes:
        lines: list[str] = []
        failures = 100 if self.rounds_fail else (0 if self.connects() else 10)
        for number in range(1, rounds + 1):
            lines.append(f"Running wrk2 on round #{number}")
            self.clock.wait(duration)
            lines.append("  Thread Stats   Avg      Stdev     99%   +/- Stdev")
            lines.append("    Latency     1.50ms    0.50ms   3.00ms   90.00%")
            lines.append(f"  100 requests in {duration:.2f}s, 10.00KB read")
            if failures:
                lines.append(f"  Non-2xx or 3xx responses: {failures}")
            lines.append(f"Requests/sec:    {100 / duration:.2f}")
            lines.append("Transfer/sec:     20.00KB")
        stamped = []
        for line in lines:
            stamp = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
            stamped.append(f"{stamp} {line}\n")
        return "".join(stamped).encode()


def _runs(study: Study) -> Any:
    from pytest_sremut.study.cells import runs

    return runs(study)


def _running(address: str) -> dict[str, Any]:
    return {
        "phase": "Running",
        "podIP": address,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
