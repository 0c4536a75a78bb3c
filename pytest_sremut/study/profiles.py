"""From a study's common numbers and a profile's own to one complete `Protocol`.

A profile may leave out what the study's `workload` or the contract already says; nothing has a
default hidden in code, so what is missing after that is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_sremut.ground.formats.durations import seconds
from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile
from pytest_sremut.study.model import (
    DEFAULT_VARIANT,
    Contract,
    Protocol,
    Workload,
    WorkloadRequest,
)
from pytest_sremut.study.names import Check

__all__ = ["protocols"]

_WORKLOAD: Final = (
    "url", "rate", "connections", "threads", "duration", "pause", "rounds", "timeout", "mix",
)  # fmt: skip
_MAY_BE_ZERO: Final = frozenset({"settle", "pause"})


def protocols(source: YamlFile, contract: Contract) -> dict[str, Protocol]:
    """Every profile of a validated study file, complete. Raises InputError."""
    return {
        name: _protocol(source, name, entry, contract)
        for name, entry in source.value["profiles"].items()
    }


def _protocol(
    source: YamlFile, name: str, entry: Mapping[str, Any], contract: Contract
) -> Protocol:
    path: tuple[Step, ...] = ("profiles", name)
    known = [invariant.id for invariant in contract.invariants]
    deadlines: dict[str, float] = {}
    for invariant in entry.get("deadlines", {}):
        where = (*path, "deadlines", invariant)
        if invariant not in known:
            raise source.error(where, found=invariant, allowed=", ".join(known))
        deadlines[invariant] = _seconds(source, where)
    poll = _seconds(source, (*path, "poll")) if "poll" in entry else contract.poll
    workload = _workload(source, name, entry.get("workload", {}))
    _check_fresh_window(source, path, workload, contract)
    return Protocol(
        profile=name,
        settle=_seconds(source, (*path, "settle")),
        poll=poll,
        deploy_timeout=_seconds(source, (*path, "deploy")),
        stable_timeout=_seconds(source, (*path, "stable")),
        oracle_timeout=_seconds(source, (*path, "oracle")),
        barrier_timeout=_seconds(source, (*path, "barrier")),
        sampler_interval=_seconds(source, (*path, "sampler")),
        deadlines=deadlines,
        workload=workload,
        fault=entry.get("fault", ""),
        chaos_kills=entry.get("chaos", {}).get("kill", 0),
        images=dict(entry.get("images", {})),
    )


def _workload(source: YamlFile, profile: str, own: Mapping[str, Any]) -> Workload:
    common = source.value["workload"]
    places: dict[str, tuple[Step, ...]] = {}
    for key in _WORKLOAD:
        if key in own:
            places[key] = ("profiles", profile, "workload", key)
        elif key in common:
            places[key] = ("workload", key)
        else:
            raise source.error(
                ("profiles", profile, "workload"),
                found=f"no {key}, neither here nor in the study's workload",
                allowed=f"a profile for which the workload is complete: {', '.join(_WORKLOAD)}",
            )
    values = {key: own.get(key, common.get(key)) for key in _WORKLOAD}
    if values["threads"] > values["connections"]:
        raise source.error(
            places["threads"],
            found=f"{values['threads']} threads for {values['connections']} connections",
            allowed="at most one thread per connection",
        )
    return Workload(
        url=values["url"],
        rate=values["rate"],
        connections=values["connections"],
        threads=values["threads"],
        duration=_seconds(source, places["duration"]),
        pause=_seconds(source, places["pause"]),
        rounds=values["rounds"],
        timeout=_seconds(source, places["timeout"]),
        mix=_mix(source, places["mix"], values["mix"]),
        variant=own.get("variant", common.get("variant", DEFAULT_VARIANT)),
        calibration=own.get("calibration", common.get("calibration", "")),
    )


def _mix(
    source: YamlFile, path: tuple[Step, ...], entries: list[Mapping[str, Any]]
) -> tuple[WorkloadRequest, ...]:
    total = sum(entry["weight"] for entry in entries)
    if total != 100:
        raise source.error(
            path, found=f"weights that sum to {total}", allowed="weights that sum to 100"
        )
    names = [entry["name"] for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise source.error(
                (*path, index, "name"), found=f"{name} a second time", allowed="every name once"
            )
    return tuple(
        WorkloadRequest(name=entry["name"], path=entry["path"], weight=entry["weight"])
        for entry in entries
    )


def _check_fresh_window(
    source: YamlFile, path: tuple[Step, ...], workload: Workload, contract: Contract
) -> None:
    asked = workload.rate * workload.duration * workload.rounds
    for invariant in contract.invariants:
        needed = invariant.parameters.get("minimum_requests", 0)
        if Check(invariant.check) is Check.FUNCTIONAL_WORKLOAD and asked < needed:
            raise source.error(
                (*path, "workload"),
                found=f"a window of {asked:g} requests",
                allowed=f"at least the {needed} that {invariant.id} needs",
            )


def _seconds(source: YamlFile, path: tuple[Step, ...]) -> float:
    text: Any = source.value
    for step in path:
        text = text[step]
    value = seconds(text)
    if value <= 0 and path[-1] not in _MAY_BE_ZERO:
        raise source.error(path, found=text, allowed="more than 0s")
    return value
