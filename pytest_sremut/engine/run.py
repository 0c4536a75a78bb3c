"""One attempt at one run: healthy, faulted, restored, each passed once, in order, never back.

Every state is flushed to disk as soon as it is finished. Whatever goes wrong ends the attempt
with an outcome of the validity axis; once the fault was injected an attempt does not end without
a verified restoration, or it is blocked and nothing more is mutated on that cluster.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.engine.faults import writes as fault
from pytest_sremut.engine.guard import Guard
from pytest_sremut.engine.observe import surroundings
from pytest_sremut.engine.observe.noise import make_noise
from pytest_sremut.engine.observe.sampler import Sampler
from pytest_sremut.engine.observe.steadiness import ClockWatch
from pytest_sremut.engine.observe.windows import take_window
from pytest_sremut.engine.probes import is_probe
from pytest_sremut.engine.state import RunContext, Timings, manager_of
from pytest_sremut.engine.steps import activation, gates
from pytest_sremut.engine.steps import deploy as application
from pytest_sremut.engine.steps import mutate as mutation
from pytest_sremut.engine.steps.capture import capture_target
from pytest_sremut.engine.steps.contract import evaluate_contract
from pytest_sremut.engine.steps.preflight import preflight
from pytest_sremut.engine.steps.read import InstrumentSet, abandoned_probes, read_oracles
from pytest_sremut.engine.steps.recording import StateNotes, dump_objects, state_record
from pytest_sremut.engine.stops import RunStoppedError, outcome_of, told, without_outcome
from pytest_sremut.engine.transitions import FINAL, MUTATED, STANDSTILL, Phase, check_transition
from pytest_sremut.errors import (
    ClusterUnavailableError,
    EvidenceError,
    SremutError,
    UsageError,
)
from pytest_sremut.evidence.attempt import AppendStream, Attempt
from pytest_sremut.ground.durable.text_redaction import redact_text
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.study.verdict import (
    Outcome,
    Registration,
    State,
)

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.contract.contract_port import ContractReading
    from pytest_sremut.engine.clock import Clock
    from pytest_sremut.study.model import Protocol, Run, Study

__all__ = ["Driver", "StateReadings"]

_PAUSES: Final = (1.0, 2.0, 4.0, 8.0)  # seconds between attempts to put a cluster back


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReadings:
    """What the graders and the contract said in one finished state."""

    state: State
    readings: Mapping[str, tuple[Reading, ...]]  # oracle id -> one reading per instrument
    contract: ContractReading


class Driver:
    """Drives one attempt.

    Args:
        study: What is audited.
        run: Which mutant and repetition.
        protocol: The numbers of the profile in use.
        cluster: Leased; nobody else writes to it.
        identity: Of the cluster when it was leased.
        allowed_contexts: Contexts that may be written to.
        attempt: Already opened in the attempt ledger.
        instruments: Warm instruments of the session.
        registration: Under which regime the run stands.
        use_namespaces: Namespaces that may be used though they were not created by us.
        before_run: Called first; raises to refuse (frozen files that changed during the session).
        mark: Told durably, with a note, before anything is written to the cluster, and with "" once
            the cluster is as it was found.
        keep_aside: Keeps what is needed to put the target back and may not be evidence, for
            whoever recovers the run if this process dies.
    """

    def __init__(
        self,
        *,
        study: Study,
        run: Run,
        protocol: Protocol,
        cluster: Cluster,
        identity: ClusterIdentity,
        allowed_contexts: frozenset[str],
        attempt: Attempt,
        instruments: InstrumentSet,
        registration: Registration,
        clock: Clock,
        progress: Callable[[str], None],
        before_run: Callable[[], None] = lambda: None,
        mark: Callable[[str], None] = lambda _note: None,
        keep_aside: Callable[[bytes], None] = lambda _body: None,
        registration_facts: Mapping[str, Any] | None = None,
        use_namespaces: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.attempt = attempt
        self.outcome: Outcome | None = None
        self._instruments = instruments
        self._registration = registration
        self._before_run = before_run
        self._mark = mark
        self._samples: AppendStream | None = None
        self._phase = Phase.CREATED
        self._done: dict[State, StateReadings] = {}
        self._notes: dict[State, StateNotes] = {}
        self._stopped: SremutError | None = None
        self._facts: dict[str, Any] = {"registration": dict(registration_facts or {})}
        self._ctx = RunContext(
            study=study,
            run=run,
            mutant=study.mutant(run.mutant),
            protocol=protocol,
            cluster=cluster,
            cluster_uid=identity.kube_system_uid,
            guard=Guard(
                cluster=cluster,
                identity=identity,
                allowed_contexts=allowed_contexts,
                namespace=study.namespace,
                journal=attempt.journal,
                manager=manager_of(attempt),
            ),
            attempt=attempt,
            clock=clock,
            timings=Timings(clock),
            progress=progress,
            use_namespaces=use_namespaces,
            keep_aside=keep_aside,
        )
        self._ctx.operator = instruments.operator(self._ctx.fault)
        self._ctx.deployer = instruments.deployer(study)
        attempt.journal.append(
            Phase.CREATED.value, {"mutant": run.mutant, "study": study.file.as_posix()}
        )

    # -- what a cell asks -------------------------------------------------------------------

    def state(self, wanted: State) -> StateReadings:
        """The readings of a state; earlier states are passed first.

        Raises:
            RunStoppedError: The attempt ended, now or earlier, before that state was finished.
        """
        for state in self._ctx.study.states:
            if wanted in self._done:  # also when another cell of that state asks again
                break
            if state in self._done:
                continue
            if self._stopped is not None:
                raise self._stopped
            self._pass(state)
        return self._done[wanted]

    def finish(self) -> Outcome:
        """Bring the attempt to its end and close its record; idempotent.

        A mutated system is always taken through restoration and its positive control.

        Raises:
            RunStoppedError: It ended otherwise than `COMPLETE` only now.
        """
        if self.outcome is not None:
            return self.outcome
        if State.HEALTHY not in self._done:
            self._stop(RunStoppedError(Outcome.DRIVER_ABORTED, "no state was finished"))
        elif State.FAULTED not in self._done:
            self._stop(
                RunStoppedError(
                    Outcome.DRIVER_ABORTED,
                    "the selection ended after the healthy state; nothing was mutated",
                )
            )
        else:
            self.state(State.RESTORED)
        assert self.outcome is not None
        return self.outcome

    def abort(self, why: BaseException) -> Outcome:
        """End the attempt because the session ends; restores what was mutated. Never raises a
        second reason over the first."""
        if self.outcome is None:
            self._stop(RunStoppedError(Outcome.DRIVER_ABORTED, told(why)))
        assert self.outcome is not None
        return self.outcome

    # -- the way through --------------------------------------------------------------------

    def _pass(self, state: State) -> None:
        steps = {
            State.HEALTHY: self._healthy,
            State.FAULTED: self._faulted,
            State.RESTORED: self._restored,
        }
        try:
            with self._ctx.timings.phase(state.value):
                self._done[state] = steps[state]()
            if state is State.RESTORED:
                self._complete()
        except BaseException as error:
            self._stop(error)
            if not self.attempt.closed:
                self._done.pop(state, None)  # no evidence stands behind it
            if isinstance(error, SremutError) and self._stopped is not None:
                raise self._stopped from error
            raise  # an interrupt, or a mistake of ours whose traceback somebody needs

    def _healthy(self) -> StateReadings:
        ctx = self._ctx
        self._before_run()
        with ctx.timings.phase("preflight"):
            checks = preflight(ctx, self._instruments.checks(ctx.study, ctx.protocol))
        self._facts["preflight"] = {check.name: check.observed for check in checks}
        with uninterrupted():
            self._move(Phase.PREFLIGHT_PASS)
            self._mark(f"{self.run.id}, journal {self.attempt.journal.path}")
        with ctx.timings.phase("deploy"):
            application.deploy(ctx)
        self._samples = ctx.attempt.stream("sampler.jsonl")
        ctx.sampler = Sampler(
            ctx.api,
            namespace=ctx.namespace,
            target=ctx.study.target,
            interval=ctx.protocol.sampler_interval,
            clock=ctx.clock,
            sink=self._samples,
            is_probe=lambda pod: is_probe(pod, ctx.study),
        )
        ctx.sampler.start()
        notes = self._begin(State.HEALTHY)
        readings = self._control(notes)
        self._require(notes, gates.control(self._ctx, notes, Outcome.STOPPED_AT_HEALTHY_GATE))
        with ctx.timings.phase("capture"):
            target = capture_target(ctx, notes)
        self._record(notes)
        self._move(Phase.HEALTHY_STATE_CAPTURED, target.as_json(), references=[target.file.sha256])
        return readings

    def _faulted(self) -> StateReadings:
        ctx = self._ctx
        notes = self._begin(State.FAULTED)
        self._move(Phase.MUTANT_INJECTED)
        with ctx.timings.phase("inject"):
            fault.inject(ctx)
        injected = ctx.clock.monotonic()
        with ctx.timings.phase("mutate"):
            mutation.apply_mutant(ctx)
        self._noise(notes)
        ctx.mutated_at = ctx.clock.now()
        self._verify_activation(notes, "after-apply")
        ctx.tell(f"settling {ctx.protocol.settle:g} s")
        rest = injected + ctx.protocol.settle - ctx.clock.monotonic()
        with ctx.timings.phase("settle"):
            ctx.clock.wait(rest)
        ctx.timings.waited("settle", max(0.0, rest))
        self._verify_activation(notes, "before-oracle")
        self._move(Phase.MUTANT_STATE_VERIFIED)
        self._move(Phase.ORACLE_STARTED)
        dump_objects(ctx, notes, "before-oracle")
        with ctx.timings.phase("oracles"):
            notes.readings = read_oracles(ctx, self._instruments)
        self._require(notes, gates.answered(notes))
        self._move(Phase.ORACLE_EVALUATED)
        with ctx.timings.phase("workload"):
            notes.window = take_window(ctx, "faulted", rounds=ctx.protocol.workload.rounds)
        with ctx.timings.phase("contract"):
            notes.contract = evaluate_contract(ctx, notes)
        self._require(notes, gates.steady(notes.state, self._watch))
        self._move(Phase.CONTRACT_EVALUATED)
        self._require(notes, gates.stable_harness(ctx, notes))
        self._record(notes)
        return self._readings(notes)

    def _restored(self) -> StateReadings:
        notes = self._begin(State.RESTORED)
        self._restore()
        self._noise(notes)
        readings = self._control(notes)
        self._require(notes, gates.control(self._ctx, notes, Outcome.RESTORATION_FAILURE))
        self._record(notes)
        self._move(Phase.RESTORE_VERIFIED)
        return readings

    def _restore(self) -> None:
        if self._phase is not Phase.RESTORE_STARTED:
            self._move(Phase.RESTORE_STARTED)
        with self._ctx.timings.phase("restore"):
            fault.recover(self._ctx)

    def _noise(self, notes: StateNotes) -> None:
        with self._ctx.timings.phase("noise"):
            killed = make_noise(self._ctx, notes.state)
        if killed:
            notes.facts["killed"] = killed

    # -- pieces of a state ------------------------------------------------------------------

    def _begin(self, state: State) -> StateNotes:
        notes = StateNotes(state=state, started=self._ctx.clock.now())
        self._watch = ClockWatch(self._ctx.clock)
        notes.reckon(self._ctx.timings)
        self._notes[state] = notes
        return notes

    def _control(self, notes: StateNotes) -> StateReadings:
        """Window, oracles, contract: a state in which everything is expected to be well."""
        ctx = self._ctx
        with ctx.timings.phase("workload"):
            rounds = ctx.protocol.workload.rounds
            notes.window = take_window(ctx, notes.state.value, rounds=rounds)
        dump_objects(ctx, notes, "before-oracle")
        with ctx.timings.phase("oracles"):
            capture = notes.state is State.HEALTHY
            notes.readings = read_oracles(ctx, self._instruments, capture=capture)
        self._require(notes, gates.answered(notes))
        with ctx.timings.phase("contract"):
            notes.contract = evaluate_contract(ctx, notes)
        self._require(notes, gates.steady(notes.state, self._watch))
        return self._readings(notes)

    def _readings(self, notes: StateNotes) -> StateReadings:
        assert notes.contract is not None
        by_oracle: dict[str, tuple[Reading, ...]] = {}
        for item in notes.readings:
            known = by_oracle.get(item.reading.oracle, ())
            by_oracle[item.reading.oracle] = (*known, item.reading)
        return StateReadings(state=notes.state, readings=by_oracle, contract=notes.contract)

    def _require(self, notes: StateNotes, stop: RunStoppedError | None) -> None:
        """Stop for what a gate found. The record is written all the same: what was read stays."""
        if stop is not None:
            self._record(notes)
            raise stop

    def _verify_activation(self, notes: StateNotes, when: str) -> None:
        results = activation.check(self._ctx)
        notes.activation += [(when, result) for result in results]
        self._require(notes, gates.active(self._ctx, results))

    # -- the end ----------------------------------------------------------------------------

    def _record(self, notes: StateNotes) -> None:
        """Flush a state; what it cost is the difference to when it began."""
        notes.charge(self._ctx.timings)
        record = state_record(
            self._ctx, notes, registration=self._registration, finished=self._ctx.clock.now()
        )
        self.attempt.finish_state(notes.state, record)

    def _complete(self) -> None:
        with self._ctx.timings.phase("remove"):
            self._stop_sampler()
            application.remove(self._ctx)
        with uninterrupted():
            self._move(Phase.FINALIZED)
            self._close(Outcome.COMPLETE, "every state was read and the restored one is well")
            self._mark("")

    def _stop(self, error: BaseException) -> None:
        """End the attempt for a reason; restore first where something was mutated."""
        outcome, reason = outcome_of(error), told(error)
        if not isinstance(error, SremutError | KeyboardInterrupt):
            self._facts["traceback"] = redact_text("".join(traceback.format_exception(error)))
        if self._phase in FINAL:
            # Everything was put back. Either the record was closed before the interrupt, and
            # stands, or it could not be kept, and whoever reads the evidence sees that it died.
            if not self.attempt.closed:
                self.outcome, self._stopped = outcome, RunStoppedError(outcome, reason)
            return
        mutated = self._phase in MUTATED
        try:
            self._put_back()
        except (SremutError, KeyboardInterrupt) as second:
            self._facts["dirty"] = told(second)
            if mutated and self._phase is not Phase.RESTORE_VERIFIED:
                outcome = Outcome.RESTORATION_FAILURE
                reason = f"{reason}; then restoration failed: {told(second)}"
            else:
                reason = f"{reason}; then cleaning up failed: {told(second)}"
        reason = without_outcome(reason)
        self._stopped = RunStoppedError(outcome, reason)
        try:
            with uninterrupted():
                if self._phase in MUTATED:
                    self._blocked()
                elif not self.dirty:
                    self._move(Phase.ABORTED_SAFE)
                self._close(outcome, reason)
                if self._phase is Phase.ABORTED_SAFE:
                    self._mark("")
        except UsageError as third:  # of the mark: the attempt is closed and stands
            self._stopped = RunStoppedError(outcome, f"{reason}; then {third}")
        except EvidenceError as third:
            # The attempt stays open: whoever reads the evidence sees that it died.
            self.outcome = outcome
            self._stopped = RunStoppedError(
                outcome, f"{reason}; then its record could not be kept: {third}"
            )

    def _put_back(self) -> None:
        """Restore what was mutated and take the application away. Each step asks what is there
        before it writes, so an API that was away is asked again, ever later."""
        for pause in _PAUSES:
            try:
                self._try_to_put_back()
            except ClusterUnavailableError as error:
                self._ctx.tell(f"putting back: again in {pause:g} s ({told(error)})")
                self._ctx.clock.wait(pause)
            else:
                return
        self._try_to_put_back()

    def _try_to_put_back(self) -> None:
        ctx = self._ctx
        ctx.guard.reconcile()
        if ctx.application:
            known = {item.uid for item in ctx.temporary}
            ctx.temporary += [pod for pod in abandoned_probes(ctx) if pod.uid not in known]
        if self._phase in MUTATED:
            application.remove_temporary(ctx)
            self._restore()
            self._move(Phase.RESTORE_VERIFIED)
        try:
            self._stop_sampler()
        except SremutError as error:  # a sample that could not be kept leaves nothing mutated
            self._facts["sampler"] = told(error)
        if ctx.application or ctx.temporary or ctx.deployed_by_benchmark:
            application.remove(ctx)

    def _blocked(self) -> None:
        if self._phase is not Phase.RESTORE_STARTED:
            self._move(Phase.RESTORE_STARTED)
        self._move(Phase.RESTORATION_BLOCKED)

    @property
    def dirty(self) -> str:
        """Why the cluster is not as it was found; empty when it is."""
        return str(self._facts.get("dirty", ""))

    def _stop_sampler(self) -> None:
        if self._ctx.sampler is not None:
            self._ctx.sampler.stop()

    def _close(self, outcome: Outcome, reason: str) -> None:
        self.outcome = outcome
        self._ctx.progress("")
        self._facts |= surroundings.noted(self._ctx)
        self.attempt.close(
            outcome=outcome,
            reason=reason,
            record={
                "instruments": self._instrument_facts(),
                "sampler": None if self._samples is None else self._samples.close().as_json(),
                "timings": {k: round(v, 6) for k, v in self._ctx.timings.seconds.items()},
                "waiting": {k: round(v, 6) for k, v in self._ctx.timings.waiting.items()},
                "facts": self._facts,
            },
        )

    def _instrument_facts(self) -> dict[str, Any]:
        """Versions and digests as each instrument last told them."""
        return {
            item.reading.instrument: dict(item.reading.facts)
            for notes in self._notes.values()
            for item in notes.readings
        }

    def _move(
        self, new: Phase, facts: Mapping[str, Any] | None = None, *, references: Sequence[str] = ()
    ) -> None:
        """Advance, once every write before has its receipt. The way to a standstill is open."""
        check_transition(self._phase, new)
        if new not in STANDSTILL:
            self._ctx.guard.reconcile()
        with uninterrupted():
            self.attempt.journal.append(new.value, facts, references=references)
            self._phase = new
