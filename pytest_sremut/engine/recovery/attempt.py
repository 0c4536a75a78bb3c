"""Recovers one attempt whose process died, and writes down in its evidence how it ended.

Steps, each of which finds what an earlier recovery that died itself left behind:

1. its study's files are those that it ran under; the journal chains;
2. each intent without a receipt is closed by looking (`engine.reconciliation`);
3. what it created is found again by UID, the target by its captured body;
4. load and probe pods go, then the mutant; the target is put back, its pods are recycled;
5. the contract is evaluated as in a restored state: only then is the restoration verified;
6. the application goes, the attempt is closed.

Nothing else is touched, and where anything cannot be established nothing is written: see
`BlockedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_sremut.engine.faults.writes import Writes
from pytest_sremut.engine.observe.windows import take_window
from pytest_sremut.engine.reconciliation import Conclusion, Finding
from pytest_sremut.engine.recovery.owned_objects import gather, settle_target
from pytest_sremut.engine.recovery.rebuild import RECOVERY_STARTED, Journaled, rebuild
from pytest_sremut.engine.recovery.stops import BlockedError
from pytest_sremut.engine.run import Book
from pytest_sremut.engine.state import RunContext, manager_of
from pytest_sremut.engine.steps import deploy, gates
from pytest_sremut.engine.steps.contract import Occasion, evaluate_contract
from pytest_sremut.engine.steps.recording import (
    StateNotes,
    attempt_facts,
    contract_record,
    workload_record,
)
from pytest_sremut.engine.steps.restore import restore
from pytest_sremut.engine.stops import RunStoppedError, told, without_outcome
from pytest_sremut.engine.transitions import Phase, check_transition
from pytest_sremut.errors import (
    ClusterError,
    ClusterUnavailableError,
    EvidenceError,
    GuardRefusedError,
    InputError,
)
from pytest_sremut.evidence.identity import boot_id, file_digests
from pytest_sremut.evidence.resume import Resumed, end_of, entries_of, identity_of, resume
from pytest_sremut.study.cells import runs
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Run, Study
from pytest_sremut.study.verdict import Outcome, State

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.engine.clock import Clock
    from pytest_sremut.engine.recovery.pending import Pending
    from pytest_sremut.evidence.attempt import Attempt

__all__ = ["Recovered", "Recoverer", "seal_left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One attempt that was put back."""

    attempt: str  # "missing_service/ms-m01-r01 attempt 1"
    outcome: Outcome
    reason: str

    def __str__(self) -> str:
        return f"{self.attempt}: {self.outcome}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoverer:
    """Recovers attempts on one leased cluster.

    Args:
        cluster: Leased by us.
        identity: Of the cluster when it was leased.
        allowed_contexts: Contexts that may be written to.
        session: Who recovers, for the evidence.
        clock: Where times come from.
        progress: Shown while something long goes on.
        aside: The captured body that the dead process kept aside; empty where it kept none.
    """

    cluster: Cluster
    identity: ClusterIdentity
    allowed_contexts: frozenset[str]
    session: str
    clock: Clock
    progress: Callable[[str], None] = lambda _text: None
    aside: bytes = b""

    def recover(self, pending: Pending) -> Recovered:
        """Put back what an attempt left behind, and close it.

        Raises:
            BlockedError: It cannot be put back safely; the cluster stays marked.
            ClusterError: The cluster gave no answer; recovering again goes on from there.
            EvidenceError: The attempt's evidence cannot be read or written.
        """
        self.progress(f"recovering {pending.name}")
        ended = end_of(pending.root, pending.entry)
        if ended is not None and _journaled(pending).over:
            seal_left(pending.directory, session=self.session, stop=ended.reason)
            return Recovered(attempt=pending.name, outcome=ended.outcome, reason=ended.reason)
        study, run = _study_of(pending)
        resumed = resume(pending.root, pending.entry, clock=self.clock)
        try:
            one = _One(self, pending, study, run, resumed)
            try:
                one.put_back()
            except BlockedError as error:
                one.block(error)
                raise
            except ClusterUnavailableError:
                raise  # nothing is known to be wrong: recovering again goes on from here
            except (RunStoppedError, GuardRefusedError, ClusterError) as error:
                blocked = BlockedError(without_outcome(told(error)), look=one.look())
                one.block(blocked)
                raise blocked from error
            recovered = one.close(ended.reason if ended else "")
            stop = ended.reason if ended else recovered.reason
            seal_left(pending.directory, session=self.session, stop=stop)
            return recovered
        finally:
            resumed.attempt.journal.close()


class _One:
    """One attempt on its way back."""

    def __init__(
        self, by: Recoverer, pending: Pending, study: Study, run: Run, resumed: Resumed
    ) -> None:
        self._by = by
        self._pending = pending
        self._resumed = resumed
        self._attempt: Attempt = resumed.attempt
        self._died_in = rebuild(resumed.entries).phase
        self._did: dict[str, Any] = {}
        journal = self._attempt.journal
        started = journal.append(
            RECOVERY_STARTED,
            {
                "session": by.session,
                "died_in": self._died_in.value,
                "torn": resumed.torn.as_json() if resumed.torn else None,
            },
        )
        self._state: Journaled = rebuild([*resumed.entries, started])
        self._phase = self._state.phase
        self._ctx = RunContext.of(
            study=study,
            run=run,
            protocol=study.profiles[self._attempt.identity.profile],
            cluster=by.cluster,
            identity=by.identity,
            allowed_contexts=by.allowed_contexts,
            attempt=self._attempt,
            clock=by.clock,
            progress=by.progress,
            manager=f"{manager_of(self._attempt)}-n{resumed.number:02d}",
            sequence=max((item.number for item in self._state.operations), default=0),
        )

    def put_back(self) -> None:
        """Steps 2 to 6, less the closing."""
        ctx = self._ctx
        self._close_intents()
        state = settle_target(
            ctx,
            self._state,
            gather(ctx, self._state),
            self._pending.directory,
            self._by.aside,
        )
        self._did["found"] = {
            "application": len(state.application),
            "mutant": [str(item.ref) for item in state.mutants],
            "temporary": [str(item.ref) for item in state.temporary],
        }
        owned = Book(state)
        if self._state.mutated:
            deploy.remove_temporary(ctx, state.temporary, owned)
            if self._phase is not Phase.RESTORE_STARTED:
                self._move(Phase.RESTORE_STARTED)
            restore(ctx, state, Writes(), owned, only_ours=True)
            self._verify(owned)
            self._move(Phase.RESTORE_VERIFIED)
        if self._state.operations:
            deploy.remove(ctx, owned.state, None, owned)
        if self._phase not in {Phase.FINALIZED, Phase.ABORTED_SAFE}:
            self._move(Phase.ABORTED_SAFE)

    def block(self, error: BlockedError) -> None:
        """Journal that, and why, nothing more is done. The attempt stays open."""
        facts = {"reason": error.reason, "look": list(error.look)}
        if not self._state.mutated or self._phase is Phase.RESTORE_VERIFIED:
            self._attempt.journal.append("RECOVERY_BLOCKED", facts)
        else:
            if self._phase is not Phase.RESTORE_STARTED:
                self._move(Phase.RESTORE_STARTED)
            self._move(Phase.RESTORATION_BLOCKED, facts)

    def look(self) -> tuple[str, ...]:
        """What to look at where the system itself is not well."""
        target = self._state.target
        lines = [f"namespace: {self._ctx.namespace}", f"evidence: {self._attempt.directory}"]
        if target is not None:
            lines.append(f"captured body: {self._pending.directory / target.file.path}")
        return tuple(lines)

    def close(self, ended: str) -> Recovered:
        """Write the record and the closing entry."""
        session = self._attempt.identity.session
        reason = f"the process of session {session} died in {self._died_in}"
        if ended:
            reason = f"after its end ({ended})"
        did = "put back and verified" if self._state.mutated else "what it had deployed was removed"
        reason = f"{reason}; recovered by {self._by.session}: {did}"
        restarted = self._resumed.boot_id != boot_id()
        outcome = Outcome.INFRASTRUCTURE_FAILURE if restarted else Outcome.DRIVER_ABORTED
        if restarted:
            reason = f"the machine was restarted: {reason}"
        self._attempt.close(
            outcome=outcome,
            reason=reason,
            record={
                **attempt_facts(self._ctx.timings, ()),
                "facts": {"recovery": {"session": self._by.session, **self._did}},
            },
        )
        return Recovered(attempt=self._pending.name, outcome=outcome, reason=reason)

    # -- steps ------------------------------------------------------------------------------

    def _close_intents(self) -> None:
        findings: list[Finding] = []
        for operation in self._state.open:
            seen = self._ctx.guard.settle_earlier(operation)
            findings += seen
            unknown = [item for item in seen if item.conclusion is Conclusion.UNKNOWN]
            if unknown:
                item = unknown[0]
                facts = {"operation": operation.id, "effects": [one.as_json() for one in seen]}
                self._attempt.journal.append("OUTCOME_UNKNOWN", facts)
                raise BlockedError(
                    f"OUTCOME_UNKNOWN: what became of {operation.id} ({operation.kind}) cannot be "
                    f"seen: {item.observed}",
                    look=(f"object: {item.call.ref}", f"journal: {self._attempt.journal.path}"),
                )
        self._did["reconciled"] = [item.as_json() for item in findings]

    def _verify(self, owned: Book) -> None:
        """The positive control, less the graders: load without a failure, and the contract."""
        ctx = self._ctx
        started, name = ctx.clock.now(), f"recovered-{self._resumed.number:02d}"
        taken = take_window(ctx, name, owned, rounds=ctx.protocol.workload.rounds)
        occasion = Occasion(
            state=State.RESTORED, name=name, window=taken.window, baseline=owned.state.baseline
        )
        found = evaluate_contract(ctx, occasion, owned)
        notes = StateNotes(
            state=State.RESTORED, started=started, window=taken, contract=found.reading
        )
        record = {
            "workload": workload_record(taken),
            "contract": contract_record(found.reading),
        }
        kept = ctx.attempt.json(f"recovery-{self._resumed.number:02d}.json", record)
        self._did["verified"] = kept.as_json()
        stop = gates.control(ctx, notes, (), Outcome.RESTORATION_FAILURE)
        if stop is not None:
            raise BlockedError(
                f"the target is back and the system is not well: {without_outcome(stop.reason)}",
                look=(*self.look(), f"what was read: {ctx.attempt.directory / kept.path}"),
            )

    def _move(self, new: Phase, facts: Mapping[str, Any] | None = None) -> None:
        check_transition(self._phase, new)
        self._attempt.journal.append(new.value, facts)
        self._phase = new


def seal_left(directory: Path, *, session: str, stop: str) -> None:
    """Seal a sealed session's attempt as partial, under a key of our own: its own key is gone.

    One of the session that recovers is sealed by that session's controller.

    Args:
        directory: Of an attempt of which nothing more will be written.
        session: Who recovers.
        stop: How the attempt ended.
    """
    if identity_of(directory)["session"] != session:
        from pytest_sremut.evidence.seal.attempt import seal_recovered

        seal_recovered(directory, session=session, stop=stop)


def _journaled(pending: Pending) -> Journaled:
    return rebuild(entries_of(pending.root, pending.entry))


def _study_of(pending: Pending) -> tuple[Study, Run]:
    """The study that the attempt ran under, its files byte for byte the same.

    Raises:
        BlockedError: They cannot be found, or were changed.
    """
    identity = identity_of(pending.directory)
    file = _journaled(pending).study or f"audits/{identity['study']}/study.yaml"
    where = f"{pending.project}/{file}"
    look = (f"study: {where}", f"attempt: {pending.directory}")
    try:
        study = load_study(pending.project, PurePosixPath(file))
        found = file_digests(pending.project, study.frozen)
    except (InputError, EvidenceError) as error:
        raise BlockedError(f"its study cannot be read: {told(error)}", look=look) from None
    for role, digest in identity["files"].items():
        if found.get(role) != digest:
            path = study.frozen.get(role, role)
            raise BlockedError(
                f"{path} is not what the attempt ran under (SHA-256 {found.get(role)}, recorded "
                f"{digest}): put it back as it was",
                look=look,
            )
    run = next((one for one in runs(study) if one.id == identity["run"]), None)
    if run is None or identity["profile"] not in study.profiles:
        raise BlockedError(
            f"{where} has no run {identity['run']} under a profile {identity['profile']}", look=look
        )
    return study, run
