"""Whole evidence directories without a cluster, written through the real evidence API.

    builder = Records(tmp_path / "evidence", study)
    builder.matrix()                                     # every run, exactly as predicted
    builder.attempt(run, Told(verdicts={(State.FAULTED, "O1"): Verdict.REJECT}))
    builder.attempt(run, Told(outcome=Outcome.INFRASTRUCTURE_FAILURE, until=State.HEALTHY))

A reading stands at a known place of the monotonic clock, so a sampler's timeline can be laid
around it: `Told(samples={State.FAULTED: [...]})` replaces the quiet one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.identity import AttemptIdentity, file_digests
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.durable.clock import rfc3339
from pytest_sremut.study.cells import runs
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import OracleSpec, Run, Study
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Outcome,
    Registration,
    State,
    Verdict,
)
from pytest_sremut.workload.draws import window_seed

__all__ = ["MAIN", "PINNED", "ROOT", "Records", "Told", "main_study", "no_fsync", "pod_down"]

ROOT = Path(__file__).resolve().parents[3]
MAIN = PurePosixPath("audits/missing_service_social_network/study.yaml")
PINNED = PurePosixPath("audits/pinned_endpoints_social_network/study.yaml")
BEGIN = datetime(2026, 8, 29, 10, 0, 0, tzinfo=UTC)

_ROUNDS = 10
_ASKED = 100


def main_study() -> Study:
    """The study of the main job."""
    return load_study(ROOT, MAIN)


class RecordClock:
    """Moves when told to, and a millisecond whenever it is looked at."""

    def __init__(self, start: datetime = BEGIN) -> None:
        self._start = start
        self.seconds = 0.0

    def now(self) -> datetime:
        self.seconds += 0.001
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        self.seconds += 0.001
        return self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is to stand in an attempt's records; whatever is left out is as predicted."""

    outcome: Outcome | None = Outcome.COMPLETE  # None: it dies without closing
    reason: str = ""
    until: State = State.RESTORED  # the last state that is finished
    verdicts: Mapping[tuple[State, str], Verdict] = field(default_factory=dict)
    by_instrument: Mapping[tuple[State, str, str], Verdict] = field(default_factory=dict)
    violated: Mapping[State, Sequence[str]] = field(default_factory=dict)
    not_evaluated: Sequence[str] = ()
    failures: Mapping[State, int] = field(default_factory=dict)  # of each round
    requests: Mapping[State, int] = field(default_factory=dict)  # of each round
    active: bool = True
    samples: Mapping[State, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    sampler: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)
    modules: str = "a" * 64
    registration: Registration = Registration.EXPLORATORY
    session: str = "20260829T100000Z-000001"
    files: Mapping[str, str] | None = None
    mutant: str = ""  # another than the run's
    drawn: bool = True  # each request alone, with the window's seed
    drawn_as: str = ""  # with the seeds of another run
    undelivered: Sequence[State] = ()  # the load of these states was not driven as asked
    bulk: bool = False  # object dumps and a journal as large as a real run's


def pod_down(*names: str, phase: str = "Pending") -> dict[str, Any]:
    """The pods part of a sample in which these are not Running."""
    return {
        "total": 27,
        "not_running": [{"name": n, "uid": f"uid-{n}", "phase": phase} for n in names],
    }


class Records:
    """Writes attempts of one study into one evidence directory."""

    def __init__(
        self, directory: Path, study: Study, *, root: Path = ROOT, start: datetime = BEGIN
    ) -> None:
        self.directory = directory
        self.study = study
        self.clock = RecordClock(start)
        self.files = file_digests(root, study.frozen)
        self._root = EvidenceRoot.open(directory, clock=self.clock)

    def matrix(self, **told: Told) -> list[Path]:
        """One attempt at every run of the study; `told` by run id with `_` for `-`."""
        return [
            self.attempt(run, told.get(run.id.replace("-", "_"), Told()))
            for run in runs(self.study)
        ]

    def attempt(self, run: Run, told: Told | None = None) -> Path:
        """One attempt; its directory."""
        told = told or Told()
        attempt = self._root.begin(
            AttemptIdentity(
                study=self.study.id,
                run=run.id,
                mutant=told.mutant or run.mutant,
                repetition=run.repetition,
                registration=told.registration,
                session=told.session,
                files=told.files or self.files,
                profile="embedded",
                protocol={"settle": 2.0, "sampler_interval": 0.25},
                cluster={"kind": "embedded"},
                product={"name": "pytest-sremut", "version": "0.1.0", "digest": "e" * 64},
            )
        )
        _Writer(self.study, run, told, attempt, self.clock).write()
        return attempt.directory


class _Writer:
    def __init__(
        self, study: Study, run: Run, told: Told, attempt: Attempt, clock: RecordClock
    ) -> None:
        self.study, self.run, self.told = study, run, told
        self.attempt, self.clock = attempt, clock
        self.samples = attempt.stream("sampler.jsonl") if told.sampler else None

    def write(self) -> None:
        journal = self.attempt.journal
        journal.append("CREATED", {"mutant": self.run.mutant})
        journal.append("PREFLIGHT_PASS")
        self._bulk_writes(5)
        for state in self.study.states:
            self._before(state)
            self._state(state)
            if state is State.FAULTED:
                journal.append("CONTRACT_EVALUATED")
            if state is self.told.until:
                break
        if State.RESTORED is self.told.until:
            journal.append("RESTORE_VERIFIED")
            journal.append("INTENT", {"operation": "op-9", "kind": "remove-application"})
            journal.append("FINALIZED")
        if self.told.outcome is None:
            if self.samples is not None:
                self.samples.close()
            journal.close()
            return
        sampler = None if self.samples is None else self.samples.close().as_json()
        reason = self.told.reason or (
            "" if self.told.outcome is Outcome.COMPLETE else "the test wanted it so"
        )
        self.attempt.close(
            outcome=self.told.outcome,
            reason=reason,
            record={
                "instruments": {name: self._instrument() for name in ("in-process", "isolated")},
                "sampler": sampler,
                "timings": {"healthy": 3.0, "faulted": 5.5, "restored": 3.25, "settle": 2.0},
                "waiting": {"settle": 2.0},
                "facts": dict(self.told.facts),
            },
        )

    def _instrument(self) -> dict[str, Any]:
        return {
            "python": "3.11.7",
            "kubernetes": "37.0.2",
            "modules": {"pytest_sremut.oracles.reference": self.told.modules},
            "pid": 4711 + self.run.repetition,
        }

    def _before(self, state: State) -> None:
        journal = self.attempt.journal
        if state is State.FAULTED:
            journal.append("MUTANT_INJECTED")
            for number, kind in enumerate(("delete-target", "recycle-pods", "create-mutant"), 1):
                journal.append("INTENT", {"operation": f"op-{number}", "kind": kind})
                journal.append("RECEIPT", {"operation": f"op-{number}", "effects": []})
            self.clock.seconds += 2.0
            journal.append("MUTANT_STATE_VERIFIED")
            journal.append("ORACLE_STARTED")
        elif state is State.RESTORED:
            journal.append("RESTORE_STARTED")
            self.clock.seconds += 1.0

    def _state(self, state: State) -> None:
        started = rfc3339(self.clock.now())
        begin = self.clock.monotonic()
        readings = [
            self._reading(state, spec, name)
            for spec in self.study.oracles
            for name in spec.instruments
        ]
        self._sample(state, begin)
        workload = self._workload(state)
        contract = self._contract(state)
        self._bulk_writes(7)
        self.attempt.finish_state(
            state,
            {
                "started": started,
                "finished": rfc3339(self.clock.now()),
                "activation": self._activation(state),
                "readings": readings,
                "workload": workload,
                "contract": contract,
                "objects": self._objects(state),
                "timings": {"oracles": 0.5, "workload": 5.0},
                "waiting": {},
                "facts": {},
            },
        )

    def _bulk_writes(self, pairs: int) -> None:
        """Intents and receipts about a few dozen objects, as deploying and recycling write them."""
        for number in range(pairs if self.told.bulk else 0):
            calls = [
                {"object": f"Pod social-network/pod-{n}", "call": "delete", "uid": f"uid-{n:032d}"}
                for n in range(12)
            ]
            kind = {"operation": f"op-1{number}", "kind": "delete-own-pod"}
            self.attempt.journal.append("INTENT", {**kind, "calls": calls})
            self.attempt.journal.append("RECEIPT", {**kind, "effects": calls})

    def _objects(self, state: State) -> list[dict[str, Any]]:
        sizes = {"service": 11, "endpoints": 1, "endpointslice": 1, "deployment": 13, "pod": 17}
        return [
            self.attempt.raw(
                f"{state.value}-before-oracle-{kind}.json", f"{state} {kind} ".encode() * 64 * size
            ).as_json()
            for kind, size in (sizes.items() if self.told.bulk else ())
        ]

    def _activation(self, state: State) -> list[dict[str, Any]]:
        if state is not State.FAULTED:
            return []
        return [
            {
                "when": when,
                "criterion": criterion,
                "holds": self.told.active,
                "observed": "as the builder says",
            }
            for when in ("after-apply", "before-oracle")
            for criterion in self.study.mutant(self.run.mutant).activation
        ]

    def _verdict(self, state: State, oracle: str, instrument: str) -> Verdict:
        table = self.study.predictions
        assert table is not None
        predicted = table.oracles[self.run.mutant, state, oracle]
        said = self.told.verdicts.get((state, oracle), predicted)
        return self.told.by_instrument.get((state, oracle, instrument), said)

    def _reading(self, state: State, spec: OracleSpec, instrument: str) -> dict[str, Any]:
        verdict = self._verdict(state, spec.id, instrument)
        self.clock.seconds += 0.3
        begin = self.clock.monotonic()
        self.clock.seconds += 0.05
        end = self.clock.monotonic()
        error = verdict is Verdict.ERROR
        raw = self.attempt.json(
            f"{state.value}-{spec.id}-{instrument}.json",
            {"returned": None if error else {"success": verdict is Verdict.ACCEPT}},
        )
        return {
            "oracle": spec.id,
            "use": spec.use,
            "instrument": instrument,
            "verdict": verdict.value,
            "returned": raw.as_json(),
            "exception": {"type": "RuntimeError", "message": "broken"} if error else None,
            "started": rfc3339(self.clock.now()),
            "elapsed": 0.05,
            "instrument_facts": self._instrument(),
            "facts": {"begin": f"{begin:.6f}", "end": f"{end:.6f}"},
        }

    def _sample(self, state: State, begin: float) -> None:
        """Samples every quarter of a second over the state's readings, and one after them."""
        if self.samples is None:
            return
        given = list(self.told.samples.get(state, ()))
        at = begin
        while at < self.clock.seconds + 0.5 or given:
            pods = given.pop(0) if given else pod_down()
            self.samples.write(
                {
                    "utc": rfc3339(BEGIN + timedelta(seconds=at)),
                    "monotonic": f"{at:.6f}",
                    "pods": pods,
                    "service": {"uid": "u", "cluster_ip": "10.96.0.10"},
                    "endpoints": [],
                }
            )
            at += 0.25
        self.clock.seconds = max(self.clock.seconds, at)

    def _workload(self, state: State) -> dict[str, Any]:
        default = {State.FAULTED: 27 if self.run.mutant == "MS-M02" else _ASKED}
        requests = self.told.requests.get(state, default.get(state, _ASKED))
        normal = 0
        if state is State.FAULTED and self.run.mutant in {"MS-M01", "MS-M03"}:
            normal = 10
        elif state is State.FAULTED and self.run.mutant == "MS-M02":
            normal = 3
        failures = self.told.failures.get(state, normal)
        rounds = []
        for number in range(1, _ROUNDS + 1):
            begin = self.clock.now()
            self.clock.seconds += 0.5
            rounds.append(
                {
                    "number": number,
                    "begin": rfc3339(begin),
                    "end": rfc3339(self.clock.now()),
                    "parse": "OK",
                    "requests": requests,
                    "failures": failures,
                    "duration": 0.5,
                    "socket_errors": None,
                }
            )
        raw = self.attempt.raw(f"workload-{state.value}.log", f"{rounds}\n".encode())
        return {
            "rounds": rounds,
            "requests": requests * _ROUNDS,
            "failures": failures * _ROUNDS,
            "successes": (requests - failures) * _ROUNDS,
            "raw": raw.as_json(),
            **({"facts": self._driven(state)} if self.told.drawn else {}),
        }

    def _driven(self, state: State) -> dict[str, Any]:
        """What a window's record says of the load, as far as a ledger reads it."""
        seed = window_seed(
            run=self.told.drawn_as or self.run.id, state=state.value, window=state.value, attempt=1
        )
        return {
            "seed": seed,
            "generator": "sremut-load (embedded generator)",
            "judged": {"delivered": state not in self.told.undelivered},
        }

    def _contract(self, state: State) -> dict[str, Any]:
        table = self.study.predictions
        assert table is not None
        _, predicted = table.contract[self.run.mutant, state]
        violated = set(self.told.violated.get(state, predicted)) - set(self.told.not_evaluated)
        verdict = ContractVerdict.REJECT if violated else ContractVerdict.PASS
        return {
            "verdict": verdict.value,
            "violated": sorted(violated),
            "not_evaluated": sorted(self.told.not_evaluated),
            "invariants": [
                {
                    "id": invariant.id,
                    "evaluation": (
                        "NOT_EVALUATED"
                        if invariant.id in self.told.not_evaluated
                        else "VIOLATED"
                        if invariant.id in violated
                        else "HOLDS"
                    ),
                    "observed": {"seen": "as the builder says"},
                    "elapsed": 0.1,
                }
                for invariant in self.study.contract.invariants
            ],
        }


def repeated(study: Study, repetitions: int) -> Study:
    """The study with another number of repetitions."""
    return replace(study, repetitions=repetitions)


@contextmanager
def no_fsync(monkeypatch: Any) -> Iterator[None]:
    """Let nothing wait for the disk: records of a test need not survive a power cut."""
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield
