"""Is an answer of the recorded kind? Judged by what a program says, and by which is faster.

Rules kept here:

* the kind of an answer is its exit code and its output. A wrong kind is a deviation. Only where the
  program's own time limit has passed is it in doubt: a slow machine may cut a right answer off;
* some kinds look alike and differ in time alone: refused at once, refused after the second SYN,
  silence. None comes before its kind allows, however fast the machine is: that is a deviation;
* how much later it comes is the machine's doing, as long as answers of the other kinds come as much
  later. What is later than they are by most of the second that tells kinds apart is a deviation;
* whatever is in doubt is measured again, together with what it is compared with. The fastest try
  counts: load delays an answer, and never hastens it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_sremut.embedded.linux.processes import Observed
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.selftest.expectations import Expectation

__all__ = ["Observed", "ProbeResult", "Trial", "deviations", "to_repeat"]

LEAST_TRIES = 3
MOST_TRIES = 6
_EARLY = 0.05
# No machine is asked to be compared that is as fast as this: it is not slow.
_FREE = {"at once": 0.9, "after 1 s": 2.0}
# Of the second between two kinds, what a slow answer may have in addition.
_TOLERANCE = 0.5
_WAITS = {"nc": "-w", "wget": "-T"}
_NSLOOKUP_WAITS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One expectation and what was seen; ``deviations`` is empty exactly if they agree."""

    name: str
    argv: tuple[str, ...]
    source: str
    expected: JsonObject
    observed: JsonObject
    deviations: tuple[str, ...]
    tries: int

    @property
    def ok(self) -> bool:
        """Whether it was as recorded."""
        return not self.deviations


class Trial:
    """One expectation and every try of it.

    Args:
        expectation: what was recorded.
        names: what its templates name.
    """

    def __init__(self, expectation: Expectation, names: Mapping[str, str]) -> None:
        self.expectation = expectation
        self.argv = tuple(part.format_map(names) for part in expectation.argv)
        self._stdout = [line.format_map(names) for line in expectation.stdout]
        self._stderr = [line.format_map(names) for line in expectation.stderr]
        self._error = ""
        self._seen: list[Observed] = []

    def saw(self, observed: Observed) -> None:
        """Take one more try."""
        self._seen.append(observed)

    def failed(self, error: str) -> None:
        """The program cannot be run; there will be no further try."""
        self._error = error

    @property
    def tries(self) -> int:
        """How often it was run."""
        return len(self._seen) + bool(self._error)

    @property
    def nature(self) -> float:
        """Seconds that an answer of this kind takes on the fastest machine."""
        match self.expectation.when:
            case "at once":
                return 0.0
            case "after 1 s":
                return 1.0
            case "at its timeout":
                return self.expectation.timeout

    @property
    def best(self) -> Observed | None:
        """The fastest try whose kind is right."""
        right = [seen for seen in self._seen if not self._wrong(seen)]
        return min(right, key=lambda seen: seen.elapsed, default=None)

    @property
    def lateness(self) -> float:
        """Seconds by which the best try came later than its kind needs; 0 without any."""
        return 0.0 if self.best is None else self.best.elapsed - self.nature

    @property
    def ended(self) -> bool:
        """Whether a further try could change nothing."""
        if self._error or self.tries >= MOST_TRIES:
            return True
        return any(self._wrong(seen) and not self._cut_off(seen) for seen in self._seen)

    @property
    def slow(self) -> bool:
        """Whether it came so late that only other answers tell of which kind it is."""
        free = _FREE.get(self.expectation.when)
        if free is None or self.best is None:
            return False
        return self.lateness > free

    @property
    def unanswered(self) -> bool:
        """Whether no try was right yet, and a further one may be."""
        return not self.ended and (self.best is None)

    def wrong(self) -> list[str]:
        """What the kind of the answer deviates in; a right try outweighs what was cut off."""
        if self._error:
            return [f"cannot be run: {self._error}"]
        if not self._seen:
            return ["was not run"]
        for seen in self._seen:
            wrong = self._wrong(seen)
            if wrong and (self.best is None or not self._cut_off(seen)):
                return wrong
        return []

    def result(self, deviations: Sequence[str]) -> ProbeResult:
        """For the report."""
        seen = self._seen[-1] if self._seen and not self._error else None
        if self.best is not None and not deviations:
            seen = self.best
        return ProbeResult(
            name=self.expectation.name,
            argv=self.argv,
            source=self.expectation.source,
            expected={
                "exit_code": self.expectation.exit_code,
                "stdout": list(self._stdout),
                "stderr": list(self._stderr),
                "when": self.expectation.when,
            },
            observed={"error": self._error} if seen is None else asdict(seen),
            deviations=tuple(deviations),
            tries=self.tries,
        )

    def _cut_off(self, seen: Observed) -> bool:
        """Whether the program's own limit may have ended it, and an answer was due before."""
        if self.expectation.when == "at its timeout":
            return False
        option = _WAITS.get(self.expectation.tool)
        limit = float(self.argv[self.argv.index(option) + 1]) if option else _NSLOOKUP_WAITS
        return seen.elapsed >= limit - _EARLY

    def _wrong(self, seen: Observed) -> list[str]:
        found = []
        wanted = self.expectation.exit_code
        if seen.exit_code != wanted:
            found.append(f"exit code {seen.exit_code} instead of {wanted}")
        for stream, expected, text in (
            ("stdout", self._stdout, seen.stdout),
            ("stderr", self._stderr, seen.stderr),
        ):
            lines = [line for line in text.splitlines() if line.strip()]
            if lines != expected:
                found.append(f"{stream} {lines!r} instead of {expected!r}")
        if seen.elapsed < self.nature - _EARLY:
            when = self.expectation.when
            found.append(f"took {seen.elapsed:.2f} s instead of {self.nature:.2f} or more ({when})")
        return found


def to_repeat(trials: Iterable[Trial]) -> list[Trial]:
    """What to measure again: what is in doubt, and what that is compared with."""
    trials = list(trials)
    again = [trial for trial in trials if trial.unanswered]
    for trial in trials:
        others = _others(trial, trials)
        if not trial.slow or trial.ended or not others or trial.wrong():
            continue
        compared = [trial, *others]
        tried = min(one.tries for one in compared)
        if tried < LEAST_TRIES or _later_than_others(trial, others):
            again += [one for one in compared if not one.ended]
    return list(dict.fromkeys(again))


def deviations(trial: Trial, trials: Iterable[Trial]) -> list[str]:
    """What is not as recorded in one of the trials; empty if nothing is."""
    if wrong := trial.wrong():
        return wrong
    others = _others(trial, trials)
    if trial.slow and others and _later_than_others(trial, others):
        assert trial.best is not None
        return [
            f"took {trial.best.elapsed:.2f} s ({trial.expectation.when}), "
            f"while answers of other kinds were at most {_most(others):.2f} s late"
        ]
    return []


def _others(trial: Trial, trials: Iterable[Trial]) -> list[Trial]:
    """Right answers of the same program whose kind takes another time."""
    return [
        one
        for one in trials
        if one.expectation.tool == trial.expectation.tool
        and one.expectation.when != trial.expectation.when
        and one.best is not None
    ]


def _most(others: Sequence[Trial]) -> float:
    return max(max(0.0, one.lateness) for one in others)


def _later_than_others(trial: Trial, others: Sequence[Trial]) -> bool:
    return trial.lateness > _most(others) + _TOLERANCE
