"""From a study's file to a `Study`: every name resolved, every reference checked.

What cannot be checked without a cluster is checked when a run begins; everything else here, so
that a mistake in a file is a collection error and never a finding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_yaml
from pytest_sremut.study.benchmarks import benchmark_pins, check_declared, check_protocol
from pytest_sremut.study.contracts import load_contract
from pytest_sremut.study.manifests import load_manifests
from pytest_sremut.study.model import Mutant, MutantRegistry, OracleSpec, Study, Target
from pytest_sremut.study.mutant_registry import load_registry
from pytest_sremut.study.names import (
    ALL_OF,
    APPLICATIONS,
    RESERVED_ORACLE_IDS,
    Fault,
    Instrument,
    ReferenceOracle,
    plugin_fault,
)
from pytest_sremut.study.predictions import load_predictions
from pytest_sremut.study.profiles import protocols
from pytest_sremut.study.verdict import State

__all__ = ["load_study"]


def load_study(root: Path, file: PurePosixPath) -> Study:
    """Load a study with its mutants, contract and predictions.

    Args:
        root: The project's root; every file must lie inside it, symlinks followed.
        file: `audits/<id>/study.yaml`, relative to the root.

    Raises:
        InputError: The first thing that is not allowed, in whichever of the files it stands.
    """
    source = read_yaml(root, file)
    validate(source, "study")
    value = source.value
    if value["id"] != file.parent.name:
        raise source.error(
            ("id",), found=value["id"], allowed=f"{file.parent.name}, the name of its directory"
        )
    _check_application(source)
    _check_fault(source, ("fault",))
    for name, profile in value["profiles"].items():
        if "fault" in profile:
            _check_fault(source, ("profiles", name, "fault"))
    target = _target(value["target"])
    frozen = {"study": file, **_referenced(value)}
    registry = load_registry(root, frozen["mutants"])
    _check_captured(source, target, registry)
    contract = load_contract(root, frozen["contract"])
    given = load_manifests(root, source, target, registry)
    frozen |= given.files
    study = Study(
        id=value["id"],
        title=value["title"],
        file=file,
        application=value["application"],
        namespace=value["namespace"],
        target=target,
        fault=value["fault"],
        registry=registry,
        mutants=_chosen(source, registry),
        contract=contract,
        states=tuple(State(state) for state in value["states"]),
        repetitions=value["repetitions"],
        oracles=_oracles(source),
        profiles=protocols(source, contract),
        predictions=None,
        frozen=frozen,
        benchmark=benchmark_pins(source),
        manifests=given.objects,
    )
    if "predictions" not in frozen:
        return study
    predictions = load_predictions(root, frozen["predictions"], study)
    return dataclasses.replace(study, predictions=predictions)


def _referenced(value: Mapping[str, Any]) -> dict[str, PurePosixPath]:
    return {
        role: PurePosixPath(value[role])
        for role in ("mutants", "contract", "predictions")
        if role in value
    }


def _target(value: Mapping[str, Any]) -> Target:
    workload_kind, _, workload_name = value["workload"].partition("/")
    return Target(
        kind=value["kind"],
        name=value["name"],
        workload_kind=workload_kind,
        workload_name=workload_name,
        port=value["port"],
    )


def _check_application(source: YamlFile) -> None:
    name: str = source.value["application"]
    scheme, _, rest = name.partition(":")
    path = PurePosixPath(rest)
    match scheme:
        case "demo":
            fine = name in APPLICATIONS
        case "manifests":
            fine = not path.is_absolute() and ".." not in path.parts
        case _:
            pinned = source.value.get("benchmark", {}).get("name")
            fine = scheme == pinned and "/" not in rest
    if not fine:
        raise source.error(
            ("application",),
            found=name,
            allowed=f"{', '.join(APPLICATIONS)}, BENCHMARK:NAME of the benchmark that is pinned, "
            "or manifests:DIR, a directory inside the project, relative to its root",
        )


def _check_fault(source: YamlFile, path: tuple[Step, ...]) -> None:
    name: Any = source.value
    for step in path:
        name = name[step]
    own = ", ".join(fault.value for fault in Fault)
    benchmark, colon, _ = name.partition(":")
    if plugin_fault(name):
        return  # whether it is here is seen before each run
    if colon:
        check_declared(source, path, found=name, benchmark=benchmark)
    elif name not in list(Fault):
        raise source.error(path, found=name, allowed=f"{own}, plugin:NAME, or sregym:NAME")


def _check_captured(source: YamlFile, target: Target, registry: MutantRegistry) -> None:
    captured = registry.captured
    name = f"{captured['kind']} {captured['metadata']['name']}"
    wanted = f"{target.kind} {target.name}"
    if name != wanted:
        raise source.error(
            ("mutants",),
            found=f"a registry whose mutants change {name}",
            allowed=f"mutants of the target, {wanted}",
        )
    ports = captured.get("spec", {}).get("ports", [])
    if target.port not in [port.get("port") for port in ports if isinstance(port, dict)]:
        raise source.error(
            ("target", "port"),
            found=str(target.port),
            allowed=f"a port of the captured object in {registry.file}",
        )


def _chosen(source: YamlFile, registry: MutantRegistry) -> tuple[Mutant, ...]:
    known = [mutant.id for mutant in registry.mutants]
    only = source.value.get("only", known)
    for index, name in enumerate(only):
        if name not in known:
            raise source.error(("only", index), found=name, allowed=", ".join(known))
    return tuple(mutant for mutant in registry.mutants if mutant.id in only)


def _oracles(source: YamlFile) -> tuple[OracleSpec, ...]:
    entries: Mapping[str, Mapping[str, Any]] = source.value["oracles"]
    default = source.value.get("instruments", ["in-process", "isolated"])
    folded: dict[str, str] = {}
    for name, entry in entries.items():
        path = ("oracles", name)
        if name.lower() in RESERVED_ORACLE_IDS or name.lower() in folded:
            raise source.error(
                path,
                found=name,
                allowed="ids that differ in more than case and are none of "
                + ", ".join(sorted(RESERVED_ORACLE_IDS)),
            )
        folded[name.lower()] = name
        _check_use(source, name, entry)
    _check_cycles(source, entries)
    return tuple(
        OracleSpec(
            id=name,
            use=entry["use"],
            of=tuple(entry.get("of", ())),
            arguments=entry.get("arguments", {}),
            problem=entry.get("problem", {}),
            instruments=_instruments(source, name, entry.get("instruments", default)),
            absent=tuple(entry.get("absent", ())),
            diagnostic=entry.get("diagnostic", ""),
            capture_baseline=entry.get("capture_baseline", True),
        )
        for name, entry in entries.items()
    )


def _instruments(source: YamlFile, name: str, chosen: Sequence[str]) -> tuple[str, ...]:
    """The instruments of an oracle, which must speak the protocol that it is written for."""
    entry: Mapping[str, Any] = source.value["oracles"][name]
    instruments = tuple(Instrument(one) for one in chosen)
    check_protocol(source, name, entry, instruments)
    return tuple(instrument.value for instrument in instruments)


def _check_use(source: YamlFile, name: str, entry: Mapping[str, Any]) -> None:
    use: str = entry["use"]
    known = [oracle.value for oracle in ReferenceOracle]
    if use.startswith("reference:") and use.removeprefix("reference:") not in known:
        raise source.error(
            ("oracles", name, "use"),
            found=use,
            allowed=", ".join(f"reference:{oracle}" for oracle in known),
        )
    if use.startswith("reference:") and "of" in entry:
        raise source.error(
            ("oracles", name, "of"), found=f"`of` beside use {use}", allowed=f"`of` with {ALL_OF}"
        )
    for index, other in enumerate(entry.get("of", ())):
        others = [one for one in source.value["oracles"] if one != name]
        if other not in others:
            raise source.error(
                ("oracles", name, "of", index),
                found=other,
                allowed=", ".join(others) or "ids of other oracles of the study",
            )


def _check_cycles(source: YamlFile, entries: Mapping[str, Mapping[str, Any]]) -> None:
    settled: set[str] = set()
    remaining = list(entries)
    while remaining:
        ready = [name for name in remaining if settled.issuperset(entries[name].get("of", ()))]
        if not ready:
            raise source.error(
                ("oracles", remaining[0], "of"),
                found=f"a cycle among {', '.join(remaining)}",
                allowed="oracles that do not contain themselves",
            )
        settled.update(ready)
        remaining = [name for name in remaining if name not in settled]
