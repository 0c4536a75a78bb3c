"""From one attempt's records to its facts.

Every count is computed again from the rounds and compared with the sums in the record. The pods
around a reading are judged from the sampler's timeline, up to our next change of the cluster.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pytest_sremut.evidence.journal import JournalEntry
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.evidence.records import (
    AttemptRecord,
    ReadingRecord,
    RoundRecord,
    StateRecord,
)
from pytest_sremut.evidence.root import AttemptEntry
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_sha256
from pytest_sremut.ledger.model import (
    DAMAGED,
    ActivationFact,
    AttemptFact,
    ContractFact,
    ReadingFact,
    Source,
    StateFact,
    WindowFact,
)
from pytest_sremut.ledger.timeline import PodCondition, Sample, parse_timeline, pods_during
from pytest_sremut.study.verdict import State, Verdict
from pytest_sremut.workload.report import RoundOutcome

__all__ = ["NeedsPods", "attempt_fact"]

NeedsPods = Callable[[str, str, State, str, Verdict], bool]
"""Study, mutant, state, oracle, verdict -> whether the sampler is asked about the reading."""

_VOLATILE: Final = frozenset({"pid", "time_limit"})
"""Facts of an instrument that differ from call to call without it being another instrument."""

_OWN_PODS: Final = frozenset({"create-own-pod", "delete-own-pod"})
_DEFAULT_SLACK: Final = 2.0  # seconds; the sampler's interval if the protocol gives none


def attempt_fact(
    record: AttemptRecord,
    *,
    evidence: str = "",
    entry: AttemptEntry | None = None,
    needs_pods: NeedsPods | None = None,
) -> tuple[AttemptFact, tuple[str, ...]]:
    """The facts of one attempt as read back, and everything in it that is inconsistent.

    Args:
        record: As loaded, with every problem that was found.
        evidence: Digest that names the evidence directory.
        entry: Its entry in the ledger of attempts. It says whose attempt this is, even if the
            records say something else.
        needs_pods: For which readings the sampler's timeline is read; None: for all of them.
    """
    where = "/".join(record.directory.parts[-3:])
    reader = _Reader(record, evidence=evidence, where=where, needs_pods=needs_pods)
    states = {state: reader.state(item) for state, item in record.states.items()}
    problems = (*record.problems, *reader.problems)
    reason = record.reason
    if problems:
        reason = f"{DAMAGED}: {problems[0]}"
    elif record.outcome is None:
        reason = "it was never closed: the process died"
    registration = record.record.get("facts", {}).get("registration", {})
    named = record if entry is None else entry
    fact = AttemptFact(
        study=named.study or record.study,
        run=named.run or record.run,
        mutant=named.mutant or record.mutant,
        repetition=record.repetition,
        attempt=named.attempt or record.attempt,
        outcome=None if problems else record.outcome,
        reason=reason,
        registration=record.registration.value if record.registration else "",
        states=states,
        damaged=bool(problems),
        recorded=record.outcome,
        evidence=evidence,
        directory=where,
        sequence=named.sequence or record.sequence,
        session=named.session or record.session,
        opened=str(record.identity.get("opened", "")),
        closed=str(record.record.get("closed", "")),
        profile=str(record.identity.get("profile", "")),
        files=dict(record.identity.get("files", {})),
        source=_source_of(record, evidence, where, entry),
        timings=dict(record.record.get("timings", {})),
        waiting=dict(record.record.get("waiting", {})),
        around=_around(record.record.get("facts", {})),
        not_made=_not_made(record.record.get("facts", {})),
        first_mutation=_first_mutation(record.journal.entries),
        registration_facts=registration if isinstance(registration, Mapping) else {},
    )
    return fact, problems


def _not_made(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the checks that could not be made; records of before do not say."""
    names = facts.get("preflight_not_made")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _around(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What changed in the cluster around the namespace; empty for older records."""
    seen = facts.get("surroundings")
    changes = seen.get("changes") if isinstance(seen, Mapping) else None
    return tuple(str(line) for line in changes) if isinstance(changes, list) else ()


class _Reader:
    """Reads the states of one attempt and records what does not add up."""

    def __init__(
        self, record: AttemptRecord, *, evidence: str, where: str, needs_pods: NeedsPods | None
    ) -> None:
        self.problems: list[str] = []
        self._record = record
        self._evidence = evidence
        self._where = where
        self._needs_pods = needs_pods
        self._samples: tuple[Sample, ...] | None = None
        self._mutated = _mutated(record.journal.entries)
        self._doings = _doings(record.journal.entries)
        protocol = record.identity.get("protocol", {})
        slack = protocol.get("sampler_interval", _DEFAULT_SLACK)
        self._slack = float(slack) if isinstance(slack, int | float) else _DEFAULT_SLACK

    def state(self, item: StateRecord) -> StateFact:
        """One state."""
        contract, workload = item.contract, item.workload
        rounds = [one for one in workload.rounds if _usable(one)] if workload else []
        told = _told_of_window(item)
        window = None if workload is None else _window(rounds, told)
        if workload is not None and window is not None:
            said = (workload.requests, workload.failures, workload.successes)
            if said != (window.requests, window.failures, window.successes):
                self.problems.append(
                    f"states/{item.state}.json: its rounds add up to {window.requests} requests, "
                    f"{window.failures} failures; recorded {said[0]} and {said[1]}"
                )
        bodies: Sequence[Mapping[str, Any]] = item.body["readings"]
        return StateFact(
            state=item.state,
            readings=tuple(
                self._reading(item.state, reading, body)
                for reading, body in zip(item.readings, bodies, strict=True)
            ),
            contract=(
                None
                if contract is None
                else ContractFact(
                    verdict=contract.verdict,
                    violated=contract.violated,
                    not_evaluated=contract.not_evaluated,
                )
            ),
            window=window if _delivered(told) else None,
            post_mutation=self._post_mutation(item.state, rounds, told),
            per_round=tuple((one.requests, one.failures) for one in rounds),
            activation=tuple(
                ActivationFact(when=one.when, criterion=one.criterion, holds=one.holds)
                for one in item.activation
            ),
            source=self._state_source(item),
            window_raw=None if workload is None else self._raw(workload.raw),
        )

    def _post_mutation(
        self, state: State, rounds: Sequence[RoundRecord], told: Mapping[str, Any]
    ) -> WindowFact | None:
        if state is not State.FAULTED or not self._mutated or not _delivered(told):
            return None
        # RFC 3339 in UTC with six digits compares as text.
        after = [r for r in rounds if r.begin is not None and r.begin > self._mutated]
        return _window(after, told)

    def _reading(
        self, state: State, reading: ReadingRecord, body: Mapping[str, Any]
    ) -> ReadingFact:
        facts: Mapping[str, Any] = body.get("facts", {})
        return ReadingFact(
            oracle=reading.oracle,
            instrument=reading.instrument,
            verdict=reading.verdict,
            exception=reading.exception,
            raw=None if reading.returned is None else self._raw(reading.returned),
            elapsed=reading.elapsed,
            pods=self._pods(state, reading, facts),
            identity=_identity(reading.instrument_facts),
            diagnostic=_diagnostic(facts.get("diagnostic")),
            changes=_changes(facts.get("state")),
        )

    def _pods(self, state: State, reading: ReadingRecord, facts: Mapping[str, Any]) -> PodCondition:
        record = self._record
        if self._needs_pods is not None and not self._needs_pods(
            record.study, record.mutant, state, reading.oracle, reading.verdict
        ):
            return PodCondition.UNKNOWN
        begin, end = _seconds(facts.get("begin")), _seconds(facts.get("end"))
        if begin is None or end is None:
            return PodCondition.UNKNOWN
        until = min((at for at in self._doings if at > end), default=math.inf)
        return pods_during(self._timeline(), begin=begin, end=end, slack=self._slack, until=until)

    def _timeline(self) -> tuple[Sample, ...]:
        if self._samples is None:
            path = self._record.directory / "sampler.jsonl"
            try:
                self._samples = parse_timeline(path.read_bytes())
            except OSError:
                self._samples = ()  # if it should exist, its absence has been reported already
        return self._samples

    def _raw(self, reference: RawRef) -> Source:
        path = f"{self._where}/{reference.path}"
        return Source(evidence=self._evidence, path=path, sha256=reference.sha256)

    def _state_source(self, item: StateRecord) -> Source:
        noted = None
        if not self._record.problems:  # otherwise the file may differ from what was recorded
            noted = self._record.record.get("states", {}).get(item.state.value)
        path = f"{self._where}/states/{item.state.value}.json"
        digest = (
            noted["sha256"]
            if noted
            else _digest_of(self._record.directory / "states" / f"{item.state.value}.json")
        )
        return Source(evidence=self._evidence, path=path, sha256=digest)


def _source_of(
    record: AttemptRecord, evidence: str, where: str, entry: AttemptEntry | None
) -> Source | None:
    """The record; the identity of the attempt if there is no record."""
    if entry is not None and entry.record is not None and not record.problems:
        path = f"{where}/{entry.record.path}"
        return Source(evidence=evidence, path=path, sha256=entry.record.sha256)
    for name in ("record.json", "attempt.json"):
        digest = _digest_of(record.directory / name)
        if digest:
            return Source(evidence=evidence, path=f"{where}/{name}", sha256=digest)
    return None


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _usable(one: RoundRecord) -> bool:
    try:
        return RoundOutcome(one.parse).counts_usable
    except ValueError:
        return False


def _told_of_window(item: StateRecord) -> Mapping[str, Any]:
    """What the record says of how its window was driven; nothing in records of before."""
    workload = item.body.get("workload")
    facts = workload.get("facts") if isinstance(workload, Mapping) else None
    return facts if isinstance(facts, Mapping) else {}


def _delivered(told: Mapping[str, Any]) -> bool:
    """False for a window whose load was not driven as asked: no figure may come of it."""
    judged = told.get("judged")
    return not isinstance(judged, Mapping) or judged.get("delivered") is not False


def _window(rounds: Iterable[RoundRecord], told: Mapping[str, Any]) -> WindowFact:
    counted = list(rounds)
    requests = sum(one.requests for one in counted)
    failures = sum(one.failures for one in counted)
    seed, generator = told.get("seed"), told.get("generator")
    return WindowFact(
        rounds=len(counted),
        requests=requests,
        failures=failures,
        successes=requests - failures,
        seed=seed if isinstance(seed, int) else None,
        generator=generator if isinstance(generator, str) else "",
    )


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if math.isfinite(seconds) else None


def _identity(facts: Mapping[str, Any]) -> str:
    """Digest of an instrument's own facts; empty if it gives none, or none that JSON can hold."""
    stable = {key: value for key, value in facts.items() if key not in _VOLATILE}
    return _identity_of(json.dumps(stable, sort_keys=True)) if stable else ""


@lru_cache(maxsize=256)
def _identity_of(text: str) -> str:
    """The digest of facts as JSON text. A study has a few, each repeated thousands of times."""
    try:
        return canonical_sha256(json.loads(text))
    except CanonicalError:
        return ""


def _diagnostic(value: Any) -> str | None:
    """`AttributeError: message` of a direct call that raised; empty if it did not raise."""
    if not isinstance(value, Mapping):
        return None
    raised = value.get("exception")
    if not isinstance(raised, Mapping):
        return ""
    return f"{raised.get('type', '')}: {raised.get('message', '')}"


def _changes(value: Any) -> tuple[str, ...]:
    """One line per change in the cluster during a reading; none if nothing was compared."""
    told = value.get("changes") if isinstance(value, Mapping) else None
    return tuple(line for line in told if isinstance(line, str)) if isinstance(told, list) else ()


def _first_mutation(entries: Iterable[JournalEntry]) -> str:
    """The earliest time at which the first mutation can have begun."""
    return next((e.utc for e in entries if e.transition == "MUTANT_INJECTED"), "")


def _mutated(entries: Sequence[JournalEntry]) -> str:
    """The latest time at which the mutant came into place; empty if it never did.

    This is the last receipt before the activation was verified. Later requests all meet the mutant.
    """
    last = ""
    injected = False
    for entry in entries:
        match entry.transition:
            case "MUTANT_INJECTED":
                injected = True
            case "RECEIPT" if injected:
                last = entry.utc
            case "MUTANT_STATE_VERIFIED":
                return last or entry.utc
    return ""


def _doings(entries: Iterable[JournalEntry]) -> list[float]:
    """The times, on the monotonic clock, at which we changed the application ourselves."""
    found: list[float] = []
    for entry in entries:
        own = entry.transition in {"MUTANT_INJECTED", "RESTORE_STARTED"} or (
            entry.transition == "INTENT" and entry.facts.get("kind") not in _OWN_PODS
        )
        at = _seconds(entry.monotonic)
        if own and at is not None:
            found.append(at)
    return found
