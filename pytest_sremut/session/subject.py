"""The benchmark of a session: what the user named, and what that means for each study.

A study that needs a benchmark is not run where none is named, and says so. Where one is named, it
must be the one that was pinned before anything runs, and untouched after everything ran.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_sremut
from pytest_sremut.errors import SremutError
from pytest_sremut.study.names import Instrument

if TYPE_CHECKING:
    from pytest_sremut.engine.steps.instruments import InstrumentSet
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.oracles.benchmark.checkout import Checkout
    from pytest_sremut.oracles.benchmark.layout import Layout
    from pytest_sremut.study.model import Study

__all__ = ["differences", "instruments", "layouts", "needs", "touched", "why_not_run"]


def layouts(settings: Settings) -> dict[str, Layout]:
    """Adapters by the benchmark's name: ours, and over them those that plugins brought."""
    from pytest_sremut.oracles.benchmark.layout import SREGYM

    return {layout.name: layout for layout in (SREGYM, *settings.layouts)}


def needs(study: Study, settings: Settings) -> bool:
    """Whether the study takes anything from a benchmark under the profile of this session."""
    return study.needs_benchmark(study.profile_for(settings.cluster_kind, settings.profile))


def why_not_run(study: Study, settings: Settings) -> str:
    """Why a study cannot be run here at all, with what to pass; empty where it can."""
    if settings.benchmark is not None or study.benchmark is None or not needs(study, settings):
        return ""
    pins = study.benchmark
    return (
        f"{study.id} was not run: it audits {pins.name} at {pins.commit}; pass a checkout of it "
        "with --sremut-benchmark=DIR, or set SREMUT_BENCHMARK"
    )


def differences(study: Study, settings: Settings) -> list[str]:
    """In what the named checkout is not the one that the study pins; a sentence each."""
    if settings.benchmark is None or study.benchmark is None or not needs(study, settings):
        return []
    try:
        checkout = _checkout(settings, study.benchmark.name)
        if study.deployer:
            checkout.layout.application(study.deployer)
        return checkout.differences(study.benchmark, checkout.graded(study))
    except SremutError as error:
        return [str(error)]


def touched(studies: list[Study], settings: Settings, since: float) -> list[str]:
    """After a session: whether the checkout is still clean, for each benchmark that was read.

    Args:
        studies: Those that were admitted.
        settings: The session's.
        since: When it began, in seconds since the epoch.
    """
    names = {
        study.benchmark.name for study in studies if study.benchmark and needs(study, settings)
    }
    if settings.benchmark is None:
        return []
    found: list[str] = []
    for name in sorted(names):
        try:
            checkout = _checkout(settings, name)
            found += checkout.dirt() + checkout.written_since(since)
        except SremutError as error:
            found.append(str(error))
    return found


def instruments(settings: Settings, evidence: Path) -> InstrumentSet:
    """Every instrument that there is in this session.

    Args:
        settings: The session's.
        evidence: Where it is kept: closed to every oracle, as are the project, this package, and
            what Python it runs with.
    """
    from pytest_sremut.engine.steps.instruments import InstrumentSet
    from pytest_sremut.oracles.instruments import InProcess, Isolated
    from pytest_sremut.oracles.instruments import Instrument as Port

    ours = Path(pytest_sremut.__file__).parent
    closed = (settings.root, evidence, ours, Path(sys.prefix))
    known: list[Port] = [
        InProcess(root=settings.root, closed=closed),
        Isolated(root=settings.root, closed=closed),
    ]
    if settings.benchmark is not None:
        from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument

        adapters = layouts(settings)
        known.append(
            BenchmarkInstrument(
                Instrument.OWN, directory=settings.benchmark, layouts=adapters, closed=closed
            )
        )
        if settings.benchmark_python:
            known.append(
                BenchmarkInstrument(
                    Instrument.PINNED,
                    directory=settings.benchmark,
                    layouts=adapters,
                    python=settings.benchmark_python,
                    closed=closed,
                )
            )
    return InstrumentSet(known, faults=settings.faults)


def _checkout(settings: Settings, name: str) -> Checkout:
    from pytest_sremut.errors import UsageError
    from pytest_sremut.oracles.benchmark.checkout import Checkout

    known = layouts(settings)
    if name not in known:
        raise UsageError(
            f"benchmark {name!r}: no adapter; allowed: {', '.join(sorted(known))} "
            "(the hook pytest_sremut_oracles brings others)"
        )
    assert settings.benchmark is not None
    return Checkout(settings.benchmark, known[name])
