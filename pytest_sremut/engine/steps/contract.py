"""The contract's view of one state: its probe pod, its windows, and its one guarded deletion.

The probe pod is created only now, after every oracle of the state has returned, and is verified
gone before the state ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import ExecResult, Failed, ObjectRef
from pytest_sremut.cluster.waiting import (
    Objects,
    WaitTimeoutError,
    change_seen,
    object_gone,
    wait_for,
)
from pytest_sremut.contract.contract_port import ContractReading
from pytest_sremut.contract.evaluate import evaluate
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.observe.stability import pod_is_ready
from pytest_sremut.engine.observe.windows import TakenWindow, take_window
from pytest_sremut.engine.own_pods import ROLE_LABEL, image_of
from pytest_sremut.engine.state import Role
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.study.jobs import fresh_rounds, least_requests
from pytest_sremut.study.names import Check
from pytest_sremut.study.verdict import Evaluation, Outcome, State
from pytest_sremut.workload.window import Window

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Kind, KubeApi
    from pytest_sremut.engine.state import Owned, RunContext
    from pytest_sremut.evidence.rawref import RawRef
    from pytest_sremut.study.model import Protocol, Target

__all__ = ["EvaluatedContract", "Occasion", "evaluate_contract"]

_PROBE_READY: Final = 60.0
_POD_NAME: Final = "sremut-probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """In which state, and on what, a contract is evaluated."""

    state: State
    name: str  # of its windows and its probe pod
    window: Window  # that was taken in this state
    baseline: Mapping[str, int]  # Deployment -> replicas, while healthy


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedContract:
    """What the contract said, and what was read for it alone."""

    reading: ContractReading
    logs: tuple[RawRef, ...]  # of further windows, in the order in which they were taken
    windows: Mapping[str, Mapping[str, Any]]  # name -> how its log was read (JSON-ready)


def evaluate_contract(ctx: RunContext, occasion: Occasion, owned: Owned) -> EvaluatedContract:
    """Evaluate the study's contract on the present state.

    Args:
        ctx: The run.
        occasion: Which state, and what is known of it.
        owned: Gets the probe pod and further load Jobs as soon as they exist, and when they are
            gone.

    Raises:
        ClusterUnavailableError: No verdict: the API or the probe pod gave no answer.
        RunStoppedError: The probe pod cannot run (`INFRASTRUCTURE_FAILURE`).
    """
    ctx.tell(f"contract in the {occasion.state.value} state")
    port = _Port(ctx, occasion, owned)
    begun = ctx.clock.monotonic()
    try:
        reading = evaluate(ctx.study.contract, port)
    finally:
        port.close()
    _note_waiting(ctx, occasion.state, reading, ctx.clock.monotonic() - begun)
    windows = {name: dict(taken.facts) for name, taken in port.taken.items()}
    logs = tuple(taken.raw for taken in port.taken.values())
    return EvaluatedContract(reading=reading, logs=logs, windows=windows)


def _note_waiting(ctx: RunContext, state: State, reading: ContractReading, spent: float) -> None:
    """Deadlines that had to expire are the protocol's own waiting; they run side by side."""
    violated = [
        result.elapsed
        for result in reading.invariants
        if result.evaluation is Evaluation.VIOLATED and result.id in _polled(ctx)
    ]
    ctx.timings.waited(f"deadlines-{state.value}", min(spent, max(violated, default=0.0)))


def _polled(ctx: RunContext) -> frozenset[str]:
    polled = {Check.SERVICE_IDENTITY, Check.BACKEND_ROUTING, Check.READY_ENDPOINTS}
    return frozenset(i.id for i in ctx.study.contract.invariants if Check(i.check) in polled)


class _Port:
    """Implements `contract.contract_port.ContractPort` for one state of one run."""

    def __init__(self, ctx: RunContext, occasion: Occasion, owned: Owned) -> None:
        self._ctx = ctx
        self._occasion = occasion
        self._owned = owned
        self._pod: Captured | None = None
        self._windows = 0
        self.taken: dict[str, TakenWindow] = {}

    @property
    def api(self) -> KubeApi:
        return self._ctx.api

    @property
    def namespace(self) -> str:
        return self._ctx.namespace

    @property
    def target(self) -> Target:
        return self._ctx.study.target

    @property
    def protocol(self) -> Protocol:
        return self._ctx.protocol

    @property
    def baseline(self) -> Mapping[str, int]:
        return self._occasion.baseline

    def probe(self, argv: Sequence[str], *, timeout: float) -> ExecResult | Failed:
        pod = self._pod or self._start()
        return self._ctx.api.exec(self.namespace, pod.ref.name, argv, timeout=timeout)

    def window(self) -> Window:
        return self._occasion.window

    def fresh_window(self) -> Window:
        self._windows += 1
        name = f"{self._occasion.name}-fresh{self._windows}"
        # A second one is asked for where all that was missing were requests: twice as many rounds.
        rounds = fresh_rounds(self._ctx.study, self.protocol) * self._windows
        least = least_requests(self._ctx.study)
        taken = self.taken[name] = take_window(
            self._ctx, name, self._owned, rounds=rounds, least=least
        )
        return taken.window

    def delete_pod(self, ref: ObjectRef, uid: str) -> object:
        target = Captured(ref=ref, uid=uid)
        return self._ctx.guard.delete(OperationKind.DELETE_BACKEND_POD, [target])

    def now(self) -> float:
        return self._ctx.clock.monotonic()

    def wait(self, seconds: float) -> None:
        self._ctx.clock.wait(seconds)

    def changed(self, kind: Kind, *, since: str, within: float) -> None:
        with self._ctx.timings.phase("cluster"):
            change_seen(
                self.api,
                kind,
                self.namespace,
                since=since,
                within=within,
                wait=self._ctx.clock.wait,
            )

    def close(self) -> None:
        """Delete the probe pod and wait until it is gone."""
        if self._pod is None:
            return
        pod, self._pod = self._pod, None
        self._ctx.guard.delete(OperationKind.DELETE_OWN_POD, [pod], grace_period=0)
        try:
            timeout = self._ctx.protocol.barrier_timeout
            with self._ctx.timings.phase("cluster"):
                object_gone(self._ctx.api, pod.ref, pod.uid, timeout=timeout)
        except WaitTimeoutError as error:
            raise RunStoppedError(Outcome.HARNESS_TIMING_FAILURE, str(error)) from error
        self._owned.gone(Role.TEMPORARY, pod)

    def _start(self) -> Captured:
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{_POD_NAME}-{self._occasion.name}",
                "labels": {ROLE_LABEL: "probe"},
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "probe",
                        "image": image_of(self.protocol, "probe"),
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sleep", "86400"],
                    }
                ],
            },
        }
        created = self._ctx.guard.create(
            OperationKind.CREATE_OWN_POD,
            [body],
            note=lambda seen: self._owned.made(Role.TEMPORARY, captured(seen.body)),
        )
        pod = self._pod = captured(created[0].body)

        def ready(pods: Objects) -> str:
            mine = [p for p in pods if p["metadata"]["uid"] == pod.uid]
            return "" if mine and pod_is_ready(mine[0]) else "the probe pod is not ready"

        try:
            with self._ctx.timings.phase("cluster"):
                wait_for(
                    self._ctx.api,
                    "Pod",
                    self.namespace,
                    ready,
                    timeout=_PROBE_READY,
                    labels=f"{ROLE_LABEL}=probe",
                )
        except WaitTimeoutError as error:
            raise RunStoppedError(
                Outcome.INFRASTRUCTURE_FAILURE, f"the probe pod cannot run: {error}"
            ) from error
        return pod
