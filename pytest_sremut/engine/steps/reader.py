"""Reading one state of a run: load, graders, contract, gates, and the state's record.

Only this module writes the notes of a state. The way from state to state is `engine.run`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sremut.engine.clock import ClockWatch
from pytest_sremut.engine.observe.windows import take_window
from pytest_sremut.engine.steps import activation, gates
from pytest_sremut.engine.steps.contract import Occasion, evaluate_contract
from pytest_sremut.engine.steps.noise import make_noise
from pytest_sremut.engine.steps.read import read_oracles
from pytest_sremut.engine.steps.recording import StateNotes, dump_objects, state_record

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext, RunState
    from pytest_sremut.engine.steps.capture import Capture
    from pytest_sremut.engine.steps.instruments import InstrumentSet
    from pytest_sremut.engine.stops import RunStoppedError
    from pytest_sremut.ledger.timeline import Sample
    from pytest_sremut.study.verdict import Outcome, Registration, State

__all__ = ["StateReader"]


class StateReader:
    """Reads one state of a run, and notes what it yields.

    Each method raises RunStoppedError where a gate finds that the attempt must not go on. The
    record of the state is written all the same: what was read stays.

    Args:
        ctx: The run.
        state: Which state begins now.
        instruments: Warm.
        registration: Under which regime the run is made.
        owned: Gets what the steps create.
        timeline: What the sampler has seen so far.
    """

    def __init__(
        self,
        ctx: RunContext,
        state: State,
        *,
        instruments: InstrumentSet,
        registration: Registration,
        owned: Owned,
        timeline: Callable[[], Sequence[Sample]],
    ) -> None:
        self.notes = StateNotes(state=state, started=ctx.clock.now())
        self.notes.reckon(ctx.timings)
        self._watch = ClockWatch(ctx.clock)
        self._ctx = ctx
        self._instruments = instruments
        self._registration = registration
        self._owned = owned
        self._timeline = timeline

    def control(
        self, known: RunState, otherwise: Outcome, *, capture: bool = False
    ) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Window, oracles, contract: a state in which everything is expected to be well.

        Args:
            known: What is known of the system.
            otherwise: The outcome where something is not well.
            capture: Let the oracles capture their baselines.

        Returns:
            See `RunState.graders`.
        """
        self.window()
        graders = self.oracles(known, capture=capture)
        self.contract(known)
        self._require(gates.control(self._ctx, self.notes, self._timeline(), otherwise))
        return graders

    def window(self) -> None:
        """Drive a workload window."""
        name, rounds = self.notes.state.value, self._ctx.protocol.workload.rounds
        with self._ctx.timings.phase("workload"):
            self.notes.window = take_window(self._ctx, name, self._owned, rounds=rounds)

    def oracles(
        self, known: RunState, *, capture: bool = False
    ) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Read every oracle. Arguments and result as for `control`."""
        ctx, notes = self._ctx, self.notes
        notes.objects += dump_objects(ctx, notes.state, "before-oracle")
        with ctx.timings.phase("oracles"):
            read = read_oracles(ctx, self._instruments, known, capture=capture)
        notes.readings = read.readings
        self._require(gates.answered(notes))
        return read.graders

    def contract(self, known: RunState) -> None:
        """Evaluate the contract on the state whose window was taken."""
        notes = self.notes
        assert notes.window is not None
        occasion = Occasion(
            state=notes.state,
            name=notes.state.value,
            window=notes.window.window,
            baseline=known.baseline,
        )
        with self._ctx.timings.phase("contract"):
            found = evaluate_contract(self._ctx, occasion, self._owned)
        notes.contract = found.reading
        notes.objects += found.logs
        if found.windows:
            notes.facts["windows"] = found.windows
        self._require(gates.steady(notes.state, self._watch))

    def noise(self, known: RunState) -> None:
        """Kill pods at random, where the profile says so."""
        with self._ctx.timings.phase("noise"):
            killed = make_noise(self._ctx, self.notes.state, known.baseline)
        if killed:
            self.notes.facts["killed"] = killed

    def activation(self, known: RunState, when: str) -> None:
        """Check that the mutant is active; `when` is the name of the moment."""
        assert known.target is not None
        results = activation.check(self._ctx, known.target, known.mutant_bodies)
        self.notes.activation += [(when, result) for result in results]
        self._require(gates.active(self._ctx, results))

    def stable_harness(self) -> None:
        """Check that no reading was bad only because of how it was taken."""
        self._require(gates.stable_harness(self._ctx, self.notes, self._timeline()))

    def captured(self, found: Capture) -> None:
        """Note the captured target."""
        self.notes.objects.append(found.target.file)
        self.notes.facts["baseline"] = dict(found.target.baseline)

    def record(self) -> None:
        """Flush the state; what it cost is the difference to when it began."""
        ctx, notes = self._ctx, self.notes
        notes.charge(ctx.timings)
        record = state_record(ctx, notes, registration=self._registration, finished=ctx.clock.now())
        ctx.attempt.finish_state(notes.state, record)

    def _require(self, stop: RunStoppedError | None) -> None:
        if stop is not None:
            self.record()
            raise stop
