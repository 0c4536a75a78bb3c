"""Evaluate a frozen contract on one state.

Invariants about objects are polled side by side, so a state in which three of them fail costs one
deadline and not three. One that holds once is settled; one that does not hold by its deadline is
violated, whatever the reason: slowness of the target is never an infrastructure failure. What is
one: the API or the probe pod gave no answer when it was asked last. Then there is no verdict.

Repair persistence comes last, because it changes the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pytest_sremut.cluster.port import Kind, ObjectRef
from pytest_sremut.contract.checks import LOOKS, Look, Snapshot, UnreadError
from pytest_sremut.contract.contract_port import ContractPort, ContractReading, InvariantResult
from pytest_sremut.contract.observations import Body, is_ready
from pytest_sremut.errors import ClusterUnavailableError, HarnessError
from pytest_sremut.study.model import Contract, Invariant
from pytest_sremut.study.names import Check
from pytest_sremut.study.verdict import ContractVerdict, Evaluation
from pytest_sremut.workload.window import Window, functional

__all__ = ["ContractReading", "evaluate"]

_FRESH_WINDOWS: Final = 4


def evaluate(
    contract: Contract, port: ContractPort, *, only: Collection[str] | None = None
) -> ContractReading:
    """Evaluate the contract's invariants, or those whose ids are in `only`.

    Raises:
        ClusterUnavailableError: The API or the probe pod gave no answer: no verdict.
        HarnessError: Nothing is to be evaluated, or a check has no implementation.
    """
    wanted = [item for item in contract.invariants if only is None or item.id in only]
    if not wanted:
        raise HarnessError(f"contract {contract.id}: no invariant is to be evaluated")
    results = {result.id: result for result in _poll(port, _of(wanted, *LOOKS))}
    for invariant in _of(wanted, Check.FUNCTIONAL_WORKLOAD):
        results[invariant.id] = _workload(port, invariant.id, invariant.parameters, port.window())
    for invariant in _of(wanted, Check.REPAIR_PERSISTENCE):
        results[invariant.id] = _persistence(port, contract, invariant)
    if unknown := [item for item in wanted if item.id not in results]:
        raise HarnessError(f"contract {contract.id}: check {unknown[0].check!r} is not implemented")
    ordered = tuple(results.get(item.id) or _skipped(item) for item in contract.invariants)
    violated = tuple(r.id for r in ordered if r.evaluation is Evaluation.VIOLATED)
    return ContractReading(
        verdict=ContractVerdict.REJECT if violated else ContractVerdict.PASS,
        violated=violated,
        not_evaluated=tuple(r.id for r in ordered if r.evaluation is Evaluation.NOT_EVALUATED),
        invariants=ordered,
    )


# -- invariants about objects --------------------------------------------------------------------


def _poll(port: ContractPort, invariants: Sequence[Invariant]) -> list[InvariantResult]:
    """Ask all that are not settled, together, until each holds or its deadline has passed."""
    begun = port.now()
    pending = {item.id: _Pending(item, _deadline(port, item)) for item in invariants}
    settled: dict[str, InvariantResult] = {}
    while pending:
        snapshot = Snapshot(port)
        for name, asked in list(pending.items()):
            asked.look(port, snapshot)
            elapsed = port.now() - begun
            if (result := asked.settled(elapsed)) is not None:
                settled[name] = result
                del pending[name]
        if pending:
            next_end = min(asked.deadline for asked in pending.values())
            left = begun + next_end - port.now()
            port.wait(max(0.0, min(port.protocol.poll, left)))
    return [settled[item.id] for item in invariants]


@dataclass(slots=True)
class _Pending:
    """An invariant that is being polled, with what the looks at it saw."""

    invariant: Invariant
    deadline: float
    looks: int = 0
    unread: int = 0  # looks in a row that got no answer
    last: Look | None = None
    facts: dict[str, Any] | None = None

    def look(self, port: ContractPort, snapshot: Snapshot) -> None:
        """Look once. A predicate's facts from the first look stay where later ones have none."""
        invariant = self.invariant
        predicate = LOOKS[Check(invariant.check)]
        self.looks += 1
        try:
            look = predicate(port, snapshot, invariant.parameters, self.facts is None)
        except UnreadError as error:
            self.unread += 1
            self.last = Look(holds=None, observed=str(error))
            return
        self.unread = 0
        self.last = look
        self.facts = {**(self.facts or {}), **look.facts}

    def settled(self, elapsed: float) -> InvariantResult | None:
        """The result, None while it is worth to ask again.

        A look that got no answer at the deadline is repeated once: it decides nothing.
        """
        assert self.last is not None
        if self.last.holds is None:
            if elapsed >= self.deadline and self.unread > 1:
                raise ClusterUnavailableError(
                    f"{self.invariant.id} cannot be judged: {self.last.observed}"
                )
            return None
        if not self.last.holds and elapsed < self.deadline:
            return None
        return InvariantResult(
            id=self.invariant.id,
            evaluation=Evaluation.HOLDS if self.last.holds else Evaluation.VIOLATED,
            observed=self.last.observed,
            elapsed=elapsed,
            facts={**(self.facts or {}), "looks": self.looks},
        )


# -- functional workload -------------------------------------------------------------------------


def _workload(
    port: ContractPort, name: str, parameters: Mapping[str, Any], observed: Window
) -> InvariantResult:
    begun = port.now()
    forgiven = observed
    if 0 < observed.failures <= parameters["maximum_failures"]:
        forgiven = replace(
            observed, rounds=tuple(replace(item, failures=0) for item in observed.rounds)
        )
    works, sentence = functional(forgiven, parameters["minimum_requests"])
    if forgiven is not observed:
        sentence = f"{sentence} ({observed.failures} failures are allowed)"
    return InvariantResult(
        id=name,
        evaluation=Evaluation.HOLDS if works else Evaluation.VIOLATED,
        observed=sentence,
        elapsed=port.now() - begun,
        facts={
            "requests": observed.requests,
            "failures": observed.failures,
            "rounds": len(observed.rounds),
        },
    )


def _fresh_workload(
    port: ContractPort, name: str, parameters: Mapping[str, Any], deadline: float
) -> InvariantResult:
    """A fresh window, and a longer one where all that it lacked was requests.

    How many fit into a round says as much of a busy machine as of the repair. What failed in a
    window is never asked again.
    """
    for left in reversed(range(_FRESH_WINDOWS)):
        observed = port.fresh_window()
        result = _workload(port, name, parameters, observed)
        few = observed.requests < parameters["minimum_requests"] and functional(observed, 1)[0]
        if not few or not left or port.now() >= deadline:
            break
    return result


# -- repair persistence --------------------------------------------------------------------------


def _persistence(port: ContractPort, contract: Contract, invariant: Invariant) -> InvariantResult:
    """Replace a pod and ask again.

    "The endpoint back" means an eligible endpoint at all; whether it leads to the right pods is
    what the repeated invariants say.
    """
    begun = port.now()
    limit = _deadline(port, invariant)
    facts: dict[str, Any] = {}

    def result(evaluation: Evaluation, observed: str) -> InvariantResult:
        elapsed = port.now() - begun
        return InvariantResult(
            id=invariant.id, evaluation=evaluation, observed=observed, elapsed=elapsed, facts=facts
        )

    behind, before = _backends_now(port, begun + limit)
    if not behind:
        return result(
            Evaluation.VIOLATED,
            f"no ready pod of Deployment/{port.target.workload_name} is an eligible endpoint: "
            "there is no repair that could persist",
        )
    victim = behind[0]["metadata"]
    facts["deleted"] = {"name": victim["name"], "uid": victim["uid"]}
    port.delete_pod(
        ObjectRef(kind="Pod", namespace=port.namespace, name=victim["name"]), victim["uid"]
    )
    facts["replacement"], lacks = _replacement(port, before, victim["uid"], port.now() + limit)
    if lacks:
        return result(
            Evaluation.VIOLATED, f"{lacks} within {limit:g} s after {victim['name']} was deleted"
        )
    again = [item for item in contract.invariants if item.id in invariant.parameters["again"]]
    repeated = _poll(port, _of(again, *LOOKS))
    for item in _of(again, Check.FUNCTIONAL_WORKLOAD):
        repeated.append(_fresh_workload(port, item.id, invariant.parameters, port.now() + limit))
    facts["again"] = [
        {"id": r.id, "evaluation": r.evaluation.value, "observed": r.observed, "facts": r.facts}
        for r in sorted(repeated, key=lambda r: r.id)
    ]
    failing = sorted((r.id, r.observed) for r in repeated if r.evaluation is Evaluation.VIOLATED)
    if failing:
        names = ", ".join(name for name, _ in failing)
        return result(
            Evaluation.VIOLATED,
            f"after {victim['name']} was replaced, {names} do not hold: {failing[0][1]}",
        )
    new = facts["replacement"]["name"]
    return result(
        Evaluation.HOLDS, f"{victim['name']} was replaced by {new} and everything holds again"
    )


def _backends_now(port: ContractPort, deadline: float) -> tuple[list[Body], frozenset[str]]:
    """Ready pods of the workload behind the Service, and the UIDs of all its pods."""
    while True:
        snapshot = Snapshot(port)
        try:
            backends = snapshot.backends
            behind = backends.behind(snapshot.endpoints)
        except UnreadError as error:
            _wait_or_give_up(port, deadline, str(error))
            continue
        return behind, frozenset(pod["metadata"]["uid"] for pod in backends.owned())


def _replacement(
    port: ContractPort, before: frozenset[str], deleted: str, deadline: float
) -> tuple[dict[str, str] | None, str]:
    """Wait for a ready pod of another UID and an eligible endpoint; what lacks if none comes."""
    found: dict[str, str] | None = None
    while True:
        snapshot = Snapshot(port)
        lacks = ""
        missing: Kind = "Pod"
        try:
            new = [p for p in snapshot.backends.owned_ready() if p["metadata"]["uid"] not in before]
            if new:
                meta = new[0]["metadata"]
                found = {"name": meta["name"], "uid": meta["uid"]}
            if _still_serving(snapshot, deleted):
                lacks = "the deleted pod did not go"
            elif not new:
                lacks = "no replacement became ready"
            elif not snapshot.endpoints:
                lacks, missing = "no eligible endpoint came back", "EndpointSlice"
        except UnreadError as error:
            _wait_or_give_up(port, deadline, str(error))
            continue
        if not lacks:
            return found, ""
        left = deadline - port.now()
        if left <= 0:
            return found, lacks
        port.changed(
            missing, since=snapshot.versions[missing], within=min(port.protocol.poll, left)
        )


def _still_serving(snapshot: Snapshot, uid: str) -> bool:
    """Whether the deleted pod is there as if nothing had happened."""
    return any(p["metadata"]["uid"] == uid and is_ready(p) for p in snapshot.backends.pods)


def _wait_or_give_up(port: ContractPort, deadline: float, trouble: str) -> None:
    if port.now() >= deadline:
        raise ClusterUnavailableError(f"repair persistence cannot be judged: {trouble}")
    port.wait(port.protocol.poll)


# -- small things --------------------------------------------------------------------------------


def _of(invariants: Sequence[Invariant], *checks: Check) -> list[Invariant]:
    names = {check.value for check in checks}
    return [item for item in invariants if item.check in names]


def _deadline(port: ContractPort, invariant: Invariant) -> float:
    return port.protocol.deadlines.get(invariant.id, invariant.deadline)


def _skipped(invariant: Invariant) -> InvariantResult:
    return InvariantResult(
        id=invariant.id,
        evaluation=Evaluation.NOT_EVALUATED,
        observed="not evaluated: out of this study's scope",
        elapsed=0.0,
        facts={},
    )
