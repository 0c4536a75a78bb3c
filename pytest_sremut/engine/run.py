"""One attempt at one run: healthy, faulted, restored, each passed once, in order, never back.

Every state is flushed to disk as soon as it is finished. Whatever goes wrong ends the attempt
with an outcome of the validity axis; once the fault was injected an attempt does not end without
a verified restoration, or it is blocked and nothing more is mutated on that cluster.

Only this module writes the state of a run. Steps get values and return what they found.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_sremut.engine.journal_ops import Captured, captured
from pytest_sremut.engine.observe.sampler import RunSamples
from pytest_sremut.engine.observe.surroundings import noted, surroundings
from pytest_sremut.engine.state import Role, RunContext, RunState
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.steps.capture import capture_target
from pytest_sremut.engine.steps.mutate import apply_mutant, settle
from pytest_sremut.engine.steps.preflight import as_facts, preflight
from pytest_sremut.engine.steps.reader import StateReader
from pytest_sremut.engine.steps.recording import StateNotes, StateReadings, attempt_facts
from pytest_sremut.engine.steps.restore import abandoned_probes, patiently, restore
from pytest_sremut.engine.stops import RunStoppedError, outcome_of, told, without_outcome
from pytest_sremut.engine.transitions import FINAL, MUTATED, STANDSTILL, Phase, check_transition
from pytest_sremut.errors import EvidenceError, SremutError, UsageError
from pytest_sremut.ground.durable.text_redaction import redact_text
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.study.verdict import Outcome, Registration, State

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.engine.clock import Clock
    from pytest_sremut.engine.faults.port import Fault
    from pytest_sremut.engine.observe.fingerprint import Fingerprint
    from pytest_sremut.engine.state import LeasePort
    from pytest_sremut.engine.steps.instruments import InstrumentSet
    from pytest_sremut.evidence.attempt import Attempt
    from pytest_sremut.study.model import Protocol, Run, Study

__all__ = ["Book", "Driver", "StateReadings"]


class Book:
    """The run's state, and its only writer. Steps see it as an `Owned`."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def write(self, **changes: Any) -> None:
        """The next state: the present one with these fields changed."""
        self.state = replace(self.state, **changes)

    def made(self, role: Role, *items: Captured) -> None:
        """See `Owned`."""
        self.write(**{role.value: (*self._of(role), *items)})

    def gone(self, role: Role, *items: Captured) -> None:
        """See `Owned`."""
        uids = {item.uid for item in items}
        self.write(**{role.value: tuple(one for one in self._of(role) if one.uid not in uids)})

    def restored(self, body: Mapping[str, Any]) -> None:
        """See `Owned`.

        From here on this is the target: a second recovery finds it in place, and taking the
        application away must name its UID.
        """
        target = captured(body)
        others = (item for item in self.state.application if item.ref != target.ref)
        self.write(target=body, application=(*others, target))

    def _of(self, role: Role) -> tuple[Captured, ...]:
        found: tuple[Captured, ...] = getattr(self.state, role.value)
        return found


class Driver:
    """Drives one attempt.

    Args:
        instruments: Warm instruments of the session.
        registration: Under which regime the run is made.
        lease: Is marked before anything is written to the cluster, and until it is as it was found.
        before_run: Called first; raises to refuse (frozen files that changed during the session).
        registration_facts: What the record says of the registration.

    The others are those of `RunContext.of`.
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
        lease: LeasePort,
        before_run: Callable[[], None] = lambda: None,
        registration_facts: Mapping[str, Any] | None = None,
        use_namespaces: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.attempt = attempt
        self.outcome: Outcome | None = None
        self.dirty = ""  # why the cluster is not as it was found; empty when it is
        self._instruments = instruments
        self._registration = registration
        self._before_run = before_run
        self._lease = lease
        self._phase = Phase.CREATED
        self._done: dict[State, StateReadings] = {}
        self._notes: dict[State, StateNotes] = {}
        self._stopped: SremutError | None = None
        self._facts: dict[str, Any] = {"registration": dict(registration_facts or {})}
        self._ctx = RunContext.of(
            study=study,
            run=run,
            protocol=protocol,
            cluster=cluster,
            identity=identity,
            allowed_contexts=allowed_contexts,
            attempt=attempt,
            clock=clock,
            progress=progress,
            use_namespaces=use_namespaces,
        )
        self._book = Book(RunState())
        self._samples = RunSamples(self._ctx)
        self._surroundings: Fingerprint | None = None  # before anything was touched
        self._deployer = instruments.deployer(study)
        self._fault: Fault | None = None
        attempt.journal.append(
            Phase.CREATED.value, {"mutant": run.mutant, "study": study.file.as_posix()}
        )

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
        missing = ""
        if State.HEALTHY not in self._done:
            missing = "no state was finished"
        elif State.FAULTED not in self._done:
            missing = "the selection ended after the healthy state; nothing was mutated"
        if missing:
            self._stop(RunStoppedError(Outcome.DRIVER_ABORTED, missing))
        else:
            self.state(State.RESTORED)
        assert self.outcome is not None
        return self.outcome

    def abort(self, why: BaseException) -> Outcome:
        """End the attempt because the session ends; restore first. The first reason stays."""
        if self.outcome is None:
            self._stop(RunStoppedError(Outcome.DRIVER_ABORTED, told(why)))
        assert self.outcome is not None
        return self.outcome

    # -- the way through --------------------------------------------------------------------

    def _pass(self, state: State) -> None:
        try:
            with self._ctx.timings.phase(state.value):
                match state:
                    case State.HEALTHY:
                        self._healthy()
                    case State.FAULTED:
                        self._faulted()
                    case State.RESTORED:
                        self._restored()
            self._done[state] = self._notes[state].said()
            if state is State.RESTORED:
                self._complete()
        except BaseException as error:
            self._stop(error)
            if not self.attempt.closed:
                self._done.pop(state, None)  # there is no evidence of it
            if isinstance(error, SremutError) and self._stopped is not None:
                raise self._stopped from error
            raise  # an interrupt, or a mistake of ours whose traceback somebody needs

    def _healthy(self) -> None:
        ctx, book = self._ctx, self._book
        self._before_run()
        with ctx.timings.phase("preflight"):
            checks = preflight(ctx, self._instruments.checks(ctx.study, ctx.protocol))
            self._surroundings = surroundings(ctx.api, ctx.namespace)
        self._facts |= as_facts(checks)
        with uninterrupted():
            self._move(Phase.PREFLIGHT_PASS)
            self._lease.mark_dirty(f"{self.run.id}, journal {self.attempt.journal.path}")
        with ctx.timings.phase("deploy"):
            book.write(baseline=deploy.deploy(ctx, self._deployer, book))
        self._samples.start()
        reader = self._begin(State.HEALTHY)
        graders = reader.control(book.state, Outcome.STOPPED_AT_HEALTHY_GATE, capture=True)
        with ctx.timings.phase("capture"):
            found = capture_target(ctx, book.state.baseline)
        book.write(target=found.body, graders=graders)
        reader.captured(found)
        if found.aside:
            self._lease.keep_aside(found.aside)
        reader.record()
        facts, file = found.target.as_json(), found.target.file
        self._move(Phase.HEALTHY_STATE_CAPTURED, facts, references=[file.sha256])

    def _faulted(self) -> None:
        ctx, book = self._ctx, self._book
        reader = self._begin(State.FAULTED)
        self._move(Phase.MUTANT_INJECTED)
        with ctx.timings.phase("inject"):
            ctx.tell("injecting the fault")
            self._injector().inject(ctx, book.state)
        injected = ctx.clock.monotonic()
        with ctx.timings.phase("mutate"):
            assert book.state.target is not None
            book.write(mutant_bodies=apply_mutant(ctx, book.state.target, book))
        reader.noise(book.state)
        reader.activation(book.state, "after-apply")
        settle(ctx, injected)
        reader.activation(book.state, "before-oracle")
        self._move(Phase.MUTANT_STATE_VERIFIED)
        self._move(Phase.ORACLE_STARTED)
        reader.oracles(book.state)
        self._move(Phase.ORACLE_EVALUATED)
        reader.window()
        reader.contract(book.state)
        self._move(Phase.CONTRACT_EVALUATED)
        reader.stable_harness()
        reader.record()

    def _restored(self) -> None:
        reader = self._begin(State.RESTORED)
        self._restore()
        reader.noise(self._book.state)
        reader.control(self._book.state, Outcome.RESTORATION_FAILURE)
        reader.record()
        self._move(Phase.RESTORE_VERIFIED)

    def _begin(self, state: State) -> StateReader:
        reader = StateReader(
            self._ctx,
            state,
            instruments=self._instruments,
            registration=self._registration,
            owned=self._book,
            timeline=lambda: self._samples.timeline,
        )
        self._notes[state] = reader.notes
        return reader

    def _start_restoring(self) -> None:
        if self._phase is not Phase.RESTORE_STARTED:
            self._move(Phase.RESTORE_STARTED)

    def _restore(self) -> None:
        self._start_restoring()
        with self._ctx.timings.phase("restore"):
            restore(self._ctx, self._book.state, self._injector(), self._book)

    def _injector(self) -> Fault:
        if self._fault is None:
            self._fault = self._instruments.fault(self._ctx.fault)
        return self._fault

    # -- the end ----------------------------------------------------------------------------

    def _complete(self) -> None:
        with self._ctx.timings.phase("remove"):
            self._samples.stop()
            self._remove()
        with uninterrupted():
            self._move(Phase.FINALIZED)
            self._close(Outcome.COMPLETE, "every state was read and the restored one is well")
            self._lease.mark_clean()

    def _stop(self, error: BaseException) -> None:
        """End the attempt for a reason; restore first where something was mutated."""
        outcome, reason = outcome_of(error), told(error)
        if not isinstance(error, SremutError | KeyboardInterrupt):
            self._facts["traceback"] = redact_text("".join(traceback.format_exception(error)))
        if self._phase in FINAL:
            # Everything was put back. Either the record was closed before the interrupt and is
            # valid, or it could not be kept, and whoever reads the evidence sees that it died.
            if not self.attempt.closed:
                self.outcome, self._stopped = outcome, RunStoppedError(outcome, reason)
            return
        mutated = self._phase in MUTATED
        try:
            patiently(self._ctx, self._put_back)
        except (SremutError, KeyboardInterrupt) as second:
            self.dirty = self._facts["dirty"] = told(second)
            if mutated and self._phase is not Phase.RESTORE_VERIFIED:
                outcome = Outcome.RESTORATION_FAILURE
                reason = f"{reason}; then restoration failed: {told(second)}"
            else:
                reason = f"{reason}; then cleaning up failed: {told(second)}"
        self._end(outcome, without_outcome(reason))

    def _end(self, outcome: Outcome, reason: str) -> None:
        """Close the attempt after everything was tried."""
        self._stopped = RunStoppedError(outcome, reason)
        try:
            with uninterrupted():
                if self._phase in MUTATED:
                    self._start_restoring()
                    self._move(Phase.RESTORATION_BLOCKED)
                elif not self.dirty:
                    self._move(Phase.ABORTED_SAFE)
                self._close(outcome, reason)
                if self._phase is Phase.ABORTED_SAFE:
                    self._lease.mark_clean()
        except UsageError as third:  # of the mark: the attempt is closed and valid
            self._stopped = RunStoppedError(outcome, f"{reason}; then {third}")
        except EvidenceError as third:
            # The attempt stays open: whoever reads the evidence sees that it died.
            self.outcome = outcome
            self._stopped = RunStoppedError(
                outcome, f"{reason}; then its record could not be kept: {third}"
            )

    def _put_back(self) -> None:
        """Restore what was mutated and take the application away."""
        ctx, book = self._ctx, self._book
        ctx.guard.reconcile()
        if book.state.application:
            book.made(Role.TEMPORARY, *abandoned_probes(ctx, book.state.temporary))
        if self._phase in MUTATED:
            deploy.remove_temporary(ctx, book.state.temporary, book)
            self._restore()
            self._move(Phase.RESTORE_VERIFIED)
        try:
            self._samples.stop()
        except SremutError as error:  # a sample that could not be kept leaves nothing mutated
            self._facts["sampler"] = told(error)
        began = self._deployer is not None and self._deployer.began
        if book.state.application or book.state.temporary or began:
            self._remove()

    def _remove(self) -> None:
        deploy.remove(self._ctx, self._book.state, self._deployer, self._book)

    def _close(self, outcome: Outcome, reason: str) -> None:
        self.outcome = outcome
        self._ctx.progress("")
        self._facts |= noted(self._ctx.api, self._ctx.namespace, self._surroundings)
        self.attempt.close(
            outcome=outcome,
            reason=reason,
            record={
                **attempt_facts(self._ctx.timings, self._notes.values()),
                "sampler": self._samples.close(),
                "facts": self._facts,
            },
        )

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
