"""A study's section `benchmark`, and what an oracle taken from one may ask for.

An adapter's name is not checked here: adapters are plugins, and this room knows none. That its
checkout is the one that was pinned is checked by whoever has the checkout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile
from pytest_sremut.study.model import BenchmarkPins
from pytest_sremut.study.names import ALL_OF, Imports, Instrument

__all__ = ["benchmark_pins", "check_declared", "check_protocol"]

_OURS = ("reference", "python", ALL_OF)


def benchmark_pins(source: YamlFile) -> BenchmarkPins | None:
    """The section `benchmark` of a validated study file; None where there is none."""
    entry = source.value.get("benchmark")
    if entry is None:
        return None
    return BenchmarkPins(
        name=entry["name"],
        commit=entry["commit"],
        files=dict(entry["files"]),
        problem_class=entry["problem_class"],
        problem=dict(entry.get("problem", {})),
        imports=Imports(entry.get("imports", Imports.LIGHT.value)).value,
        probes=tuple(dict(labels) for labels in entry.get("probes", ())),
    )


def check_declared(source: YamlFile, path: tuple[Step, ...], *, found: str, benchmark: str) -> None:
    """Something of a benchmark is named: the study must pin that benchmark. Raises InputError."""
    entry = source.value.get("benchmark")
    if entry is None:
        raise source.error(
            path, found=f"{found} without a section `benchmark`", allowed="one that pins it"
        )
    if entry["name"] != benchmark:
        raise source.error(path, found=found, allowed=f"{entry['name']}:NAME, the one pinned")


def check_protocol(
    source: YamlFile, name: str, entry: Mapping[str, Any], instruments: Sequence[Instrument]
) -> None:
    """An oracle and its instruments must speak the same protocol. Raises InputError."""
    use: str = entry["use"]
    prefix = use.partition(":")[0]
    theirs = [one for one in instruments if one.of_benchmark]
    ours = [one for one in instruments if not one.of_benchmark]
    if prefix not in _OURS:
        check_declared(source, ("oracles", name, "use"), found=use, benchmark=prefix)
        if ours:
            raise _instrument(source, name, use, ours, of_benchmark=True)
    elif prefix != "python" and theirs:
        raise _instrument(source, name, use, theirs, of_benchmark=False)
    elif theirs and ours:
        raise source.error(
            ("oracles", name),
            found=f"{', '.join(instruments)} for {use}",
            allowed="own and pinned for a benchmark's class, or in-process and isolated for a "
            "grader made for us",
        )
    if theirs and source.value.get("benchmark") is None:
        raise source.error(
            ("oracles", name), found=f"{theirs[0]} without a section `benchmark`",
            allowed="one that pins it",
        )  # fmt: skip
    if not theirs:
        for key in ("absent", "diagnostic", "capture_baseline"):
            if key in entry:
                raise source.error(
                    ("oracles", name, key), found=f"`{key}` for {use}",
                    allowed="a benchmark's class, read by own or pinned",
                )  # fmt: skip
        if use != ALL_OF and "of" in entry:
            raise source.error(
                ("oracles", name, "of"),
                found=f"`of` beside use {use}",
                allowed=f"`of` with {ALL_OF}, or with a benchmark's class",
            )
        return
    _check_parts(source, name, entry)


def _check_parts(source: YamlFile, name: str, entry: Mapping[str, Any]) -> None:
    oracles: Mapping[str, Mapping[str, Any]] = source.value["oracles"]
    for index, part in enumerate(entry.get("of", ())):
        prefix = oracles[part]["use"].partition(":")[0] if part in oracles else "python"
        if prefix in ("reference", ALL_OF):
            raise source.error(
                ("oracles", name, "of", index),
                found=f"{part}, which is {oracles[part]['use']}",
                allowed="oracles that are a benchmark's classes",
            )
    clash = set(entry.get("absent", ())) & set(entry.get("problem", {}))
    if clash:
        raise source.error(
            ("oracles", name, "absent"),
            found=f"{', '.join(sorted(clash))}, which `problem` gives",
            allowed="attributes that the problem does not have",
        )


def _instrument(
    source: YamlFile, name: str, use: str, wrong: Sequence[Instrument], *, of_benchmark: bool
) -> Exception:
    allowed = [one.value for one in Instrument if one.of_benchmark is of_benchmark]
    return source.error(
        ("oracles", name), found=f"{', '.join(wrong)} for {use}", allowed=", ".join(allowed)
    )
