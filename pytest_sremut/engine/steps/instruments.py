"""The instruments of a session, each started once and kept warm, and whether they can read a study.

An instrument that a study needs and that is not here is no reason to skip anything: each attempt
ends in its preflight, with the outcome and what to pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytest_sremut.engine.faults.registry import fault_named
from pytest_sremut.engine.steps.deployer import Deployer
from pytest_sremut.engine.steps.preflight import PreflightCheck
from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles.benchmark.deployer import BenchmarkDeployer
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.instruments import InProcess, Instrument, Isolated
from pytest_sremut.study.names import Instrument as Name
from pytest_sremut.study.names import plugin_fault
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import Fault, FaultFactory
    from pytest_sremut.study.model import Protocol, Study

__all__ = ["InstrumentSet"]

_PASS: Final = {
    Name.OWN.value: "--sremut-benchmark=DIR",
    Name.PINNED.value: "--sremut-benchmark=DIR and --sremut-benchmark-python=EXE",
}


class InstrumentSet:
    """Instruments by name.

    Args:
        instruments: All there are; where left out, those that need no benchmark.
        faults: Name -> fault, as plugins brought them.
    """

    def __init__(
        self,
        instruments: Sequence[Instrument] | None = None,
        *,
        faults: Mapping[str, FaultFactory] = MappingProxyType({}),
    ) -> None:
        self._faults = faults
        known = (InProcess(), Isolated()) if instruments is None else instruments
        self._known: dict[str, Instrument] = {item.name: item for item in known}

    def start(self, study: Study) -> None:
        """Warm up what the study needs and is here; nothing is waited for.

        `checks` and the reading report what is wrong with one.
        """
        for name in _names(study):
            instrument = self._known.get(name)
            if isinstance(instrument, BenchmarkInstrument):
                with contextlib.suppress(UsageError, HarnessError):
                    instrument.prepare(study)
            elif instrument is not None:
                instrument.start()

    def checks(self, study: Study, protocol: Protocol) -> Iterator[PreflightCheck]:
        """Whether each instrument can read the study, and the checkout is the pinned one."""
        names = _names(study)
        for name in names:
            instrument = self._known.get(name)
            if instrument is None:
                told = f"it is not here; pass {_PASS[name]}" if name in _PASS else "it is not here"
                yield PreflightCheck(name=f"instrument-{name}", holds=False, observed=told)
            elif isinstance(instrument, BenchmarkInstrument):
                problems = instrument.problems(study)
                yield PreflightCheck(
                    name=f"instrument-{name}",
                    holds=not problems,
                    observed="; ".join(problems) or "ready",
                )
        if study.needs_benchmark(protocol.profile) and study.benchmark is not None:
            yield self._checkout(study)
        if plugin_fault(study.fault_of(protocol.profile)):
            yield self._injecting(study.fault_of(protocol.profile))
        if study.deployer:
            problem = self._deploying(study)
            yield PreflightCheck(
                name="deployer", holds=not problem, observed=problem or study.application
            )

    def fault(self, name: str) -> Fault:
        """The fault of one attempt, by the study's name for it.

        A benchmark's injector is run under the benchmark's own interpreter, where that is here.

        Raises:
            UsageError: No plugin here brings it; `checks` tells so before.
            HarnessError: The plugin failed to make it.
        """
        return fault_named(name, operator=self._benchmark(), brought=self._faults)

    def deployer(self, study: Study) -> Deployer | None:
        """What asks the benchmark to deploy, for one attempt; None where we deploy ourselves."""
        return Deployer(self._deployment(study)) if study.deployer else None

    def _deployment(self, study: Study) -> BenchmarkDeployer | None:
        """What runs the benchmark's deployment; None where no benchmark is here that has one."""
        instrument = self._benchmark()
        if study.benchmark is None or instrument is None:
            return None
        with contextlib.suppress(UsageError):  # `checks` reports it
            return instrument.deployer(study.benchmark.name)
        return None

    def get(self, name: str) -> Instrument:
        """The instrument of that name. Raises UsageError."""
        if name not in self._known:
            raise UsageError(
                f"instrument {name!r} is not here; allowed: {', '.join(sorted(self._known))}"
            )
        return self._known[name]

    def close(self) -> None:
        """End every instrument's processes."""
        for instrument in self._known.values():
            instrument.close()

    def _benchmark(self) -> BenchmarkInstrument | None:
        found = (self._known.get(name.value) for name in (Name.PINNED, Name.OWN))
        return next((item for item in found if isinstance(item, BenchmarkInstrument)), None)

    def _injecting(self, name: str) -> PreflightCheck:
        """Whether the plugin that brings the fault is here."""
        try:
            self.fault(name)
        except (UsageError, HarnessError) as error:
            return PreflightCheck(name="fault", holds=False, observed=str(error))
        return PreflightCheck(name="fault", holds=True, observed=name)

    def _deploying(self, study: Study) -> str:
        """Why the benchmark cannot deploy here; empty where nothing speaks against it."""
        deployer = self._deployment(study)
        if deployer is None or study.benchmark is None:
            return f"no benchmark is here that deploys {study.application}; pass {_PASS['own']}"
        try:
            return deployer.problem(study.benchmark, study.deployer)
        except UsageError as error:
            return str(error)

    def _checkout(self, study: Study) -> PreflightCheck:
        assert study.benchmark is not None
        for instrument in self._known.values():
            if isinstance(instrument, BenchmarkInstrument):
                try:
                    checkout = instrument.checkout(study.benchmark.name)
                    problems = checkout.differences(study.benchmark, checkout.graded(study))
                except UsageError as error:
                    problems = [str(error)]
                return PreflightCheck(
                    name="benchmark",
                    holds=not problems,
                    observed="; ".join(problems) or f"{study.benchmark.commit}, clean",
                    outcome=Outcome.PROTOCOL_VIOLATION,
                )
        return PreflightCheck(
            name="benchmark", holds=False, observed=f"it is not here; pass {_PASS['own']}"
        )


def _names(study: Study) -> list[str]:
    return list(dict.fromkeys(name for spec in study.oracles for name in spec.instruments))
