"""From the command line and the ini file to `Settings`.

A bad value is a `pytest.UsageError` that says what is allowed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.errors import UsageError
from pytest_sremut.options.settings import (
    CLUSTERS,
    EMBEDDED,
    REPORTS,
    REQUIREMENTS,
    Settings,
    embedded_choices,
)
from pytest_sremut.options.table import given

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import FaultFactory
    from pytest_sremut.oracles.benchmark.layout import Layout

__all__ = ["settings_of"]

_HOOKS = "pytest_sremut_"


def settings_of(config: pytest.Config) -> Settings:
    """Resolve options and ini into `Settings`. Raises `pytest.UsageError`."""
    root = config.rootpath
    adjudicate, check = bool(given(config, "adjudicate")), bool(given(config, "check"))
    evidence = _evidence(config, adjudicate=adjudicate)
    if check and not adjudicate:
        raise pytest.UsageError("--sremut-check: allowed only with --sremut-adjudicate")
    exploratory = bool(given(config, "exploratory"))
    sealed = bool(given(config, "sealed")) and not adjudicate
    if sealed and exploratory:
        raise pytest.UsageError(
            "--sremut-sealed: allowed only without --sremut-exploratory: a sealed run is under a "
            "registration, an exploratory one is under none"
        )
    return Settings(
        root=root,
        audits=root / _text(config, "audits"),
        cluster=_cluster(_text(config, "cluster")),
        allowed_contexts=frozenset(_list(config, "allow-context")),
        use_namespaces=_use_namespaces(_list(config, "use-namespace")),
        profile=_text(config, "profile"),
        evidence=evidence[0] if evidence else None,
        keep_cluster=bool(given(config, "keep-cluster")),
        exploratory=exploratory,
        require=_require(_text(config, "require")),
        fail_under=_fail_under(_text(config, "fail-under")),
        adjudicate=adjudicate,
        check=check,
        evidence_directories=evidence,
        reports=_reports(config),
        embedded=_embedded(_list(config, "embedded")),
        kind_image=_kind_image(_text(config, "kind-image")),
        kind_workers=_kind_workers(_text(config, "kind-workers")),
        baseline=_baseline(config),
        benchmark=_benchmark(config),
        benchmark_python=_benchmark_python(config),
        layouts=_layouts(config),
        faults=_faults(config),
        bringers=_bringers(config),
        sealed=sealed,
        tsa=_tsa(config, sealed=sealed),
        census_baseline=_file(config, "census-baseline"),
        census_overrides=_file(config, "census-overrides"),
    )


def _text(config: pytest.Config, name: str) -> str:
    return str(given(config, name) or "")


def _list(config: pytest.Config, name: str) -> list[str]:
    found = given(config, name)
    assert isinstance(found, list)
    return [str(one) for one in found]


def _file(config: pytest.Config, name: str) -> Path | None:
    """A path: relative to where pytest was started; in the ini file relative to the root."""
    on_command_line = config.getoption(f"sremut_{name.replace('-', '_')}", None) is not None
    base = config.invocation_params.dir if on_command_line else config.rootpath
    text = _text(config, name)
    return base / text if text else None


def _use_namespaces(names: list[str]) -> frozenset[str]:
    for name in names:
        if name.startswith("kube-") or name in {"", "default"}:
            raise pytest.UsageError(
                f"--sremut-use-namespace: found {name!r}; allowed: the name of a namespace "
                "for the study alone, not default and not one of the cluster's own (kube-...)"
            )
    return frozenset(names)


def _evidence(config: pytest.Config, *, adjudicate: bool) -> tuple[Path, ...]:
    directory = config.invocation_params.dir
    named = (one for one in _list(config, "evidence") if one)
    found = tuple(dict.fromkeys((directory / one).resolve() for one in named))
    if len(found) > 1 and not adjudicate:
        raise pytest.UsageError(
            f"--sremut-evidence: found {len(found)} directories; allowed: one, where records go "
            "(several with --sremut-adjudicate)"
        )
    return found


def _reports(config: pytest.Config) -> tuple[tuple[str, Path], ...]:
    found: list[tuple[str, Path]] = []
    for one in _list(config, "report"):
        kind, colon, path = one.partition(":")
        if kind not in REPORTS or not colon or not path:
            raise pytest.UsageError(
                f"--sremut-report: found {one!r}; allowed: "
                + " | ".join(f"{kind}:PATH" for kind in REPORTS)
            )
        found.append((kind, (config.invocation_params.dir / path).resolve()))
    return tuple(found)


def _baseline(config: pytest.Config) -> Path | None:
    """The file of known disagreements. It is read later."""
    file = _file(config, "baseline")
    if file is None:
        return None
    if _text(config, "require") != "soundness":
        raise pytest.UsageError("--sremut-baseline: allowed only with --sremut-require=soundness")
    return file.resolve()


def _benchmark(config: pytest.Config) -> Path | None:
    """The checkout: the option, the ini file, then SREMUT_BENCHMARK. It is looked at later."""
    named = _text(config, "benchmark") or os.environ.get("SREMUT_BENCHMARK", "")
    return (config.invocation_params.dir / Path(named).expanduser()).resolve() if named else None


def _benchmark_python(config: pytest.Config) -> str:
    """The interpreter: a name on PATH, or a path, of which links are kept (they mark venvs)."""
    named = _text(config, "benchmark-python") or os.environ.get("SREMUT_BENCHMARK_PYTHON", "")
    if not named:
        return ""
    found = shutil.which(named)
    if found is None:
        found = shutil.which(config.invocation_params.dir / Path(named).expanduser())
    if found is None:
        raise pytest.UsageError(
            f"--sremut-benchmark-python: found {named!r}; allowed: an executable Python interpreter"
        )
    return os.path.abspath(found)  # noqa: PTH100 - resolve() would follow the links of a venv


def _layouts(config: pytest.Config) -> tuple[Layout, ...]:
    found: list[Layout] = []
    for brought in config.hook.pytest_sremut_oracles(config=config):
        found += brought if isinstance(brought, list | tuple) else [brought]
    return tuple(found)


def _faults(config: pytest.Config) -> dict[str, FaultFactory]:
    found: dict[str, FaultFactory] = {}
    for brought in config.hook.pytest_sremut_faults(config=config):
        twice = sorted(found.keys() & brought.keys())
        if twice:
            raise pytest.UsageError(f"fault {twice[0]!r}: two plugins bring it")
        found |= brought
    return found


def _bringers(config: pytest.Config) -> tuple[Path, ...]:
    """The files of the plugins that implement a hook of ours which a run depends on."""
    found: set[Path] = set()
    hooks = {name: one for name, one in vars(config.hook).items() if name.startswith(_HOOKS)}
    for name, hook in hooks.items():
        if name == "pytest_sremut_census":
            continue
        for one in hook.get_hookimpls():
            module = sys.modules.get(getattr(one.function, "__module__", ""))
            if file := getattr(module, "__file__", None):
                found.add(Path(file).resolve())
    return tuple(sorted(found))


def _tsa(config: pytest.Config, *, sealed: bool) -> str:
    """Whom to ask for stamps; whether a URL answers is seen when it is asked."""
    if config.getoption("sremut_tsa", None) and not sealed:
        raise pytest.UsageError("--sremut-tsa: allowed only with --sremut-sealed")
    named = _text(config, "tsa")
    if named not in {"", "self"} and not named.startswith(("http://", "https://")):
        raise pytest.UsageError(
            f"--sremut-tsa: found {named!r}; allowed: self, or an http or https URL"
        )
    return named


def _embedded(settings: list[str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for one in settings:
        key, _, choice = one.partition("=")
        if key == "pace":
            _pace(one, choice)
        elif choice not in EMBEDDED.get(key, ()):
            raise pytest.UsageError(
                f"--sremut-embedded: found {one!r}; allowed: {embedded_choices()}"
            )
        found[key] = choice
    return tuple(sorted(found.items()))


def _pace(one: str, choice: str) -> None:
    from pytest_sremut.embedded import PaceError, parse_pace

    try:
        parse_pace(choice)
    except PaceError as error:
        raise pytest.UsageError(f"--sremut-embedded: {one!r}: {error}") from None


def _kind_image(text: str) -> str:
    from pytest_sremut.cluster.kind.settings import node_image

    try:
        return node_image(text) if text else ""
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _kind_workers(text: str) -> int:
    from pytest_sremut.cluster.kind.settings import worker_count

    try:
        return worker_count(text)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _cluster(text: str) -> str:
    if text in {"embedded", "kind"} or (
        text.startswith("context:") and len(text) > len("context:")
    ):
        return text
    raise pytest.UsageError(f"--sremut-cluster: found {text!r}; allowed: {CLUSTERS}")


def _require(text: str) -> str:
    if text in REQUIREMENTS:
        return text
    raise pytest.UsageError(
        f"--sremut-require: found {text!r}; allowed: {' | '.join(REQUIREMENTS)}"
    )


def _fail_under(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:  # refuses NaN too
        raise pytest.UsageError(
            f"--sremut-fail-under: found {text!r}; allowed: a percentage from 0 to 100"
        )
    return number
