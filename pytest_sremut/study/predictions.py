"""Loading the frozen predictions: exactly one entry for every mutant, state and grader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_yaml
from pytest_sremut.study.model import Predictions, Quantity, Study
from pytest_sremut.study.names import Circumstance, Consequence, Measure
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, State, Verdict

__all__ = ["ANY_GRADER", "load_predictions", "parse_predictions"]

ANY_GRADER = "any"
"""Of a falsification rule: every oracle, and the contract."""


def load_predictions(root: Path, file: PurePosixPath, study: Study) -> Predictions:
    """Load the predictions of a study. Raises InputError.

    Args:
        root: The project's root.
        file: Relative to it.
        study: The study without its predictions.
    """
    return parse_predictions(read_yaml(root, file), study)


def parse_predictions(source: YamlFile, study: Study) -> Predictions:
    """Predictions from their parsed file. Raises InputError."""
    validate(source, "predictions")
    if source.value["study"] != study.id:
        raise source.error(("study",), found=source.value["study"], allowed=study.id)
    mutants = [mutant.id for mutant in study.mutants]
    states = [state.value for state in study.states]
    graders = [oracle.id for oracle in study.oracles]
    oracles: dict[tuple[str, State, str], Verdict] = {}
    contract: dict[tuple[str, State], tuple[ContractVerdict, frozenset[str]]] = {}
    _exactly(source, ("oracles",), mutants)
    _exactly(source, ("contract",), mutants)
    for mutant in mutants:
        _exactly(source, ("oracles", mutant), states)
        _exactly(source, ("contract", mutant), states)
        for state in study.states:
            path: tuple[Step, ...] = ("oracles", mutant, state.value)
            _exactly(source, path, graders)
            for grader in graders:
                verdict = source.value["oracles"][mutant][state.value][grader]
                oracles[mutant, state, grader] = Verdict(verdict)
            contract[mutant, state] = _contract(source, mutant, state, study)
    return Predictions(
        study=study.id,
        file=source.file,
        oracles=oracles,
        contract=contract,
        quantities=_quantities(source, mutants, sorted(study.profiles)),
        falsification=_falsification(source, graders),
    )


def _exactly(source: YamlFile, path: tuple[Step, ...], wanted: Sequence[str]) -> None:
    found: Any = source.value
    for step in path:
        found = found[step]
    for key in found:
        if key not in wanted:
            raise source.error((*path, key), found=key, allowed=", ".join(wanted))
    missing = [key for key in wanted if key not in found]
    if missing:
        raise source.error(
            path,
            found=f"no prediction for {', '.join(missing)}",
            allowed=f"one for each of {', '.join(wanted)}",
        )


def _contract(
    source: YamlFile, mutant: str, state: State, study: Study
) -> tuple[ContractVerdict, frozenset[str]]:
    entry: Mapping[str, Any] = source.value["contract"][mutant][state.value]
    known = [invariant.id for invariant in study.contract.invariants]
    for index, name in enumerate(entry.get("violated", ())):
        if name not in known:
            raise source.error(
                ("contract", mutant, state.value, "violated", index),
                found=name,
                allowed=", ".join(known),
            )
    return ContractVerdict(entry["verdict"]), frozenset(entry.get("violated", ()))


def _quantities(
    source: YamlFile, mutants: Sequence[str], profiles: Sequence[str]
) -> tuple[Quantity, ...]:
    entries: Sequence[Mapping[str, Any]] = source.value.get("quantities", ())
    _once(source, "quantities", (entry["id"] for entry in entries))
    quantities: list[Quantity] = []
    for index, entry in enumerate(entries):
        state = State(entry["state"])
        if "mutant" in entry and entry["mutant"] not in mutants:
            raise source.error(
                ("quantities", index, "mutant"),
                found=entry["mutant"],
                allowed=", ".join(mutants),
            )
        if "mutant" not in entry and state is State.FAULTED:
            raise source.error(
                ("quantities", index),
                found="no mutant in the faulted state",
                allowed="a mutant, or one of the control states",
            )
        if entry.get("profile", profiles[0]) not in profiles:
            raise source.error(
                ("quantities", index, "profile"),
                found=entry["profile"],
                allowed=", ".join(profiles),
            )
        quantities.append(
            Quantity(
                id=entry["id"],
                mutant=entry.get("mutant", ""),
                state=state,
                measure=Measure(entry["measure"]).value,
                expected=float(entry["expected"]),
                tolerance=float(entry["tolerance"]),
                profile=entry.get("profile", ""),
            )
        )
    return tuple(quantities)


def _falsification(source: YamlFile, graders: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    entries: Sequence[Mapping[str, Any]] = source.value.get("falsification", ())
    _once(source, "falsification", (entry["id"] for entry in entries))
    allowed = (*graders, CONTRACT, ANY_GRADER)
    for index, entry in enumerate(entries):
        when = entry["when"]
        path: tuple[Step, ...] = ("falsification", index, "when")
        if when["grader"] not in allowed:
            raise source.error((*path, "grader"), found=when["grader"], allowed=", ".join(allowed))
        says = _verdicts_of(when["grader"])
        if when["verdict"] not in says:
            raise source.error((*path, "verdict"), found=when["verdict"], allowed=", ".join(says))
        Circumstance(when["while"])  # the schema and the vocabulary are the same list
        Consequence(entry["then"])
    return tuple(entries)


def _verdicts_of(grader: str) -> tuple[str, ...]:
    if grader == CONTRACT:
        return (*(verdict.value for verdict in ContractVerdict), "any")
    if grader == ANY_GRADER:
        return ("any",)
    return (*(verdict.value for verdict in Verdict), "any")


def _once(source: YamlFile, section: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            raise source.error(
                (section, index, "id"), found=f"{name} a second time", allowed="every id once"
            )
        seen.add(name)
