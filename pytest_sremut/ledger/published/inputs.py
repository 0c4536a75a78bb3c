"""The two published files, split into records of runs.

Only inputs are read. Results in the same file (`published`, `o4_equals_o1_and_o3`, retained
percentages) are ignored. The adjudicator computes them from the inputs, so that agreement with what
was published means something.

The begin of a round is not published, only the time of the first report. Rounds of one load pod
follow each other, so every round but the first began after the first report. The first began at an
unknown time before it, and never counts as begun after the mutant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.ground.formats.schema import describe, validator_for
from pytest_sremut.ground.formats.yamlevents import Step, dotted_path
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Run, Study
from pytest_sremut.study.verdict import State

__all__ = ["FIX_ORACLE_STUDY", "MUTANT_STUDY", "Input", "parse_input"]

MUTANT_STUDY: Final = "published_mutant_study"
FIX_ORACLE_STUDY: Final = "published_fix_oracle_study"

_MARKS: Final = {
    "runs": ("published-mutant-study", MUTANT_STUDY),
    "predicted_and_observed": ("published-fix-oracle-study", FIX_ORACLE_STUDY),
}
_LIMIT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A published file that satisfies its schema."""

    name: str  # as the user named it
    study: str
    value: Mapping[str, Any]
    data: bytes

    def records(self, study: Study, files: Mapping[str, str]) -> list[dict[str, Any]]:
        """One `sremut/published/v1` record a run, in schedule order.

        Args:
            study: The definition of `self.study`.
            files: SHA-256 of its files, by role.

        Raises:
            InputError: What the file says does not add up.
        """
        read = _mutant_study if self.study == MUTANT_STUDY else _fix_oracle_study
        return [
            {
                "schema": "sremut/published/v1",
                "kind": "published",
                "study": study.id,
                "run": run.id,
                "mutant": run.mutant,
                "repetition": run.repetition,
                "files": dict(files),
                "source": {
                    "path": "source.json",
                    "sha256": sha256(self.data),
                    "size": len(self.data),
                },
                **body,
            }
            for run, body in read(self, study)
        ]

    def error(self, path: Sequence[Step], *, found: str, allowed: str) -> InputError:
        """An error that names the file and the place in it."""
        return InputError(
            file=self.name, place=dotted_path(tuple(path)), found=found, allowed=allowed
        )


def parse_input(data: bytes, name: str) -> Input:
    """Recognise and check one of the two files. Raises InputError.

    Args:
        data: Its bytes.
        name: How errors call it.
    """
    if len(data) > _LIMIT:
        raise InputError(file=name, found=f"{len(data)} bytes", allowed=f"at most {_LIMIT} bytes")
    try:
        value = json.loads(data, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(file=name, found=f"no JSON: {error}", allowed="a JSON object") from None
    marks = [mark for mark in _MARKS if isinstance(value, dict) and mark in value]
    if len(marks) != 1:
        raise InputError(
            file=name,
            found="neither of the published studies",
            allowed="an object with either " + " or ".join(f"{mark!r}" for mark in _MARKS),
        )
    schema, study = _MARKS[marks[0]]
    errors = validator_for("pytest_sremut.ledger", schema).iter_errors(value)
    told = sorted((describe(error) for error in errors), key=lambda item: [str(p) for p in item[0]])
    if told:
        path, found, allowed = told[0]
        raise InputError(file=name, place=dotted_path(path), found=found, allowed=allowed)
    return Input(name=name, study=study, value=value, data=data)


# -- the mutant study ---------------------------------------------------------------------------


def _mutant_study(source: Input, study: Study) -> Iterable[tuple[Run, dict[str, Any]]]:
    planned = {run.id: run for run in runs(study)}
    given: dict[str, int] = {}
    for index, item in enumerate(source.value["runs"]):
        path = ("runs", index)
        if item["run_id"] not in planned:
            allowed = ", ".join(planned)
            raise source.error((*path, "run_id"), found=item["run_id"], allowed=allowed)
        if item["run_id"] in given:
            raise source.error(
                (*path, "run_id"), found=f"{item['run_id']} twice", allowed="each run once"
            )
        run = planned[item["run_id"]]
        if item["mutant"] != run.mutant:
            raise source.error((*path, "mutant"), found=item["mutant"], allowed=run.mutant)
        given[run.id] = index
    for run in planned.values():
        if run.id in given:
            yield run, _mutant_run(source, study, given[run.id])


def _mutant_run(source: Input, study: Study, index: int) -> dict[str, Any]:
    item: Mapping[str, Any] = source.value["runs"][index]
    path = ("runs", index)
    applied = _time(source, (*path, "mutant_applied_utc"), item["mutant_applied_utc"])
    known = {invariant.id for invariant in study.contract.invariants}
    not_evaluated = item["contract"]["not_evaluated"]
    states: dict[str, Any] = {}
    for state in study.states:
        contract = item["contract"][state.value]
        for name in (*contract["violated"], *not_evaluated):
            if name not in known:
                raise source.error(
                    (*path, "contract"), found=name, allowed=", ".join(sorted(known))
                )
        if bool(contract["violated"]) != (contract["verdict"] == "REJECT"):
            raise source.error(
                (*path, "contract", state.value),
                found=f"{contract['verdict']} with {len(contract['violated'])} violated",
                allowed="PASS without a violated invariant, or REJECT with some",
            )
        reading = item["oracle_readings"][state.value]
        states[state.value] = {
            "readings": [
                _reading("O1", "in-process", reading["in_process"]),
                _reading("O1", "isolated", reading["worker"]),
            ],
            "contract": {**contract, "not_evaluated": not_evaluated},
            "rounds": _rounds(source, (*path, "workload", state.value), state, applied),
        }
    return {
        "seconds": item["driver_seconds"],
        "first_mutation": item["mutant_applied_utc"],
        "registration": {"as_published": source.value.get("attestation", {})},
        "states": states,
    }


def _rounds(
    source: Input, path: tuple[Step, ...], state: State, applied: datetime
) -> list[dict[str, Any]]:
    window: Any = source.value
    for step in path:
        window = window[step]
    requests, failures = window["requests"], window["non2xx"]
    if len(requests) != len(failures):
        raise source.error(
            (*path, "non2xx"), found=f"{len(failures)} rounds", allowed=f"{len(requests)}"
        )
    for number, (asked, failed) in enumerate(zip(requests, failures, strict=True)):
        if failed > asked:
            raise source.error(
                (*path, "non2xx", number), found=str(failed), allowed=f"at most {asked} requests"
            )
    followed = state is State.FAULTED and (
        _time(source, (*path, "first_round_reported_utc"), window["first_round_reported_utc"])
        >= applied
    )
    return [
        {"requests": asked, "failures": failed, "post_mutation": followed and number > 0}
        for number, (asked, failed) in enumerate(zip(requests, failures, strict=True))
    ]


# -- the fix-oracle study -----------------------------------------------------------------------


def _fix_oracle_study(source: Input, study: Study) -> Iterable[tuple[Run, dict[str, Any]]]:
    table: Mapping[str, Mapping[str, bool]] = source.value["predicted_and_observed"]
    planned = list(runs(study))
    columns = {State.HEALTHY.value, State.RESTORED.value, *(run.mutant for run in planned)}
    for oracle, row in table.items():
        if set(row) != columns:
            raise source.error(
                ("predicted_and_observed", oracle),
                found=", ".join(sorted(row)),
                allowed=", ".join(sorted(columns)),
            )
    raised = source.value["diagnostics"]["o2_exception"]
    readings = len(planned) * len(study.states)
    _whole(source, ("diagnostics", "o2_exception", "count"), raised["count"], readings)
    calls = source.value["diagnostics"]["direct_probe_calls"]
    _whole(source, ("diagnostics", "direct_probe_calls"), calls, 3 * readings)
    diagnostics = {"O2": f"{raised['type']}: {raised['message']}", "O3": "", "O4": ""}
    elapsed = source.value.get("o3_elapsed_seconds", {})
    attested = source.value.get("attestation", {})
    for run in planned:
        states = {
            state.value: {
                "readings": [
                    {
                        **_reading(oracle, "unstated", row[_column(state, run)]),
                        "elapsed": (
                            elapsed.get(run.mutant, {}).get(state.value) if oracle == "O3" else None
                        ),
                        "diagnostic": diagnostics.get(oracle),
                    }
                    for oracle, row in sorted(table.items())
                ],
                "contract": None,
                "rounds": None,
            }
            for state in study.states
        }
        yield (
            run,
            {
                "seconds": None,
                "first_mutation": attested.get("first_run_started_utc", ""),
                "registration": {"as_published": attested},
                "states": states,
            },
        )


def _column(state: State, run: Run) -> str:
    return run.mutant if state is State.FAULTED else state.value


def _whole(source: Input, path: tuple[Step, ...], found: int, wanted: int) -> None:
    """Require that a total counts all readings; only then can it be assigned to each of them."""
    if found != wanted:
        raise source.error(path, found=str(found), allowed=f"{wanted}, one for each such reading")


# -- both ---------------------------------------------------------------------------------------


def _reading(oracle: str, instrument: str, success: bool) -> dict[str, Any]:
    return {
        "oracle": oracle,
        "instrument": instrument,
        "success": success,
        "elapsed": None,
        "diagnostic": None,
    }


def _time(source: Input, path: tuple[Step, ...], text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise source.error(path, found=text, allowed="a time that exists") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
