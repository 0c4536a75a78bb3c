"""The runs of one process, one after another on its cluster, and the reports of their cells.

Once a restoration failed nothing more is mutated: the schedule has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_sremut.engine.clock import SystemClock
from pytest_sremut.engine.run import Driver, StateReadings
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import SremutError
from pytest_sremut.evidence.identity import (
    AttemptIdentity,
    file_digests,
    product_facts,
    protocol_facts,
)
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.session.cellreport import CellReport, Observed, requirement_of
from pytest_sremut.session.leasing import Leased, Leasing
from pytest_sremut.session.subject import instruments
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Known
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.members import Member
    from pytest_sremut.session.opening import Opened
    from pytest_sremut.study.model import Cell, Protocol, Run, Study

__all__ = ["Runs"]


class Runs:
    """Runs cells in one process; satisfies `cells.CellSession`.

    Args:
        settings: What the user asked for.
        member: Which process of which session this is.
        opened: What the session runs, and under which regime.
        progress: Shown while something long goes on.
        leasing: Of the process's cluster.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        member: Member,
        opened: Opened,
        progress: Callable[[str], None],
        leasing: Leasing | None = None,
    ) -> None:
        self._settings = settings
        self._member = member
        self._opened = opened
        self._progress = progress
        self._leasing = leasing or Leasing(settings, member, progress=progress)
        self._clock = SystemClock()
        self._root: EvidenceRoot | None = None
        self._instruments = instruments(settings, member.evidence)
        self._failed: SremutError | None = None  # no other run is begun then
        self._driver: Driver | None = None
        self._all_complete = True

    @property
    def recovered(self) -> list[str]:
        """A line for each attempt of a dead process that was put back before ours."""
        return self._leasing.recovered

    # -- cells ------------------------------------------------------------------------------

    def report(self, study: Study, cell: Cell) -> CellReport:
        """Read a cell, advancing its run as far as its state.

        Raises:
            SremutError: The run stopped, there is no cluster, or evidence cannot be kept.
        """
        driver = self._driver_of(study, cell.run)
        readings = driver.state(cell.state)
        return CellReport(
            study=study,
            cell=cell,
            attempt=driver.attempt.number,
            registration=self._opened.admissions[study.id].registration.value,
            evidence=str(driver.attempt.directory),
            requirement=requirement_of(study, self._settings.require),
            observed=_observed(cell, readings),
            contract=readings.contract.verdict,
            violated=frozenset(readings.contract.violated),
            known=self._known(study),
        )

    def _known(self, study: Study) -> frozenset[Known]:
        if self._opened.baseline is None:
            return frozenset()
        digests = file_digests(self._settings.root, study.frozen)
        return self._opened.baseline.known(study, digests)

    def finish_run(self) -> None:
        """End the run in progress. Raises SremutError when it ends badly only now."""
        driver, self._driver = self._driver, None
        if driver is None or driver.outcome is not None:
            self._note_end(driver)
            return
        try:
            driver.finish()
        finally:
            self._note_end(driver)

    def close(self) -> None:
        """End everything: abort a run in progress, give the cluster back. Idempotent.

        Raises:
            SremutError: The cluster could not be taken down.
        """
        with ExitStack() as last:  # each is done, whatever becomes of the ones before it
            last.callback(lambda: self._leasing.close(keep_logs=not self._all_complete))
            last.callback(self._instruments.close)
            driver, self._driver = self._driver, None
            if driver is not None:
                self._all_complete = False
                driver.abort(KeyboardInterrupt("the session ended during the run"))

    # -- runs -------------------------------------------------------------------------------

    def _driver_of(self, study: Study, run: Run) -> Driver:
        driver = self._driver
        if driver is not None and driver.run == run:
            return driver
        if driver is not None:
            self.finish_run()
        if self._failed is not None:
            raise self._failed
        if self._root is None:
            self._root = EvidenceRoot.open(self._member.evidence)
        leased = self._leased(study)
        self._instruments.start(study)
        return self._begin(study, run, leased, self._root)

    def _begin(self, study: Study, run: Run, leased: Leased, root: EvidenceRoot) -> Driver:
        admission = self._opened.admissions[study.id]
        protocol = _protocol_of(study, self._settings)
        identity = AttemptIdentity(
            study=study.id,
            run=run.id,
            mutant=run.mutant,
            repetition=run.repetition,
            registration=admission.registration,
            session=self._member.session,
            files=file_digests(self._settings.root, study.frozen),
            profile=protocol.profile,
            protocol=protocol_facts(protocol),
            cluster=leased.record(),
            product=product_facts(),
            sealed=admission.binding(self._member.key),
        )
        with uninterrupted():  # an attempt that was begun has a driver that can close it
            attempt = root.begin(identity)
            mark = leased.mark_of(attempt, settings=self._settings, evidence=self._member.evidence)
            self._driver = Driver(
                study=study,
                run=run,
                protocol=protocol,
                cluster=leased.cluster,
                identity=leased.identity,
                allowed_contexts=self._settings.allowed_contexts | leased.own_context,
                attempt=attempt,
                instruments=self._instruments,
                registration=admission.registration,
                clock=self._clock,
                progress=self._progress,
                lease=mark,
                before_run=lambda: self._refuse_if_changed(study),
                registration_facts=admission.facts(),
                use_namespaces=self._settings.use_namespaces,
            )
        return self._driver

    def _leased(self, study: Study) -> Leased:
        if not self._leasing.is_taken():
            self._progress(f"bringing up a cluster ({self._settings.cluster})")
            self._instruments.start(study)  # warms up while the cluster comes up
        try:
            return self._leasing.take()
        except SremutError as error:
            # One clear message for every cell instead of one attempt each to start it.
            self._failed = error
            raise

    def _refuse_if_changed(self, study: Study) -> None:
        """A frozen file that was edited during the session ends the registration's hold."""
        changed = self._opened.admissions[study.id].changed_since(self._settings.root)
        if changed:
            raise RunStoppedError(
                Outcome.PROTOCOL_VIOLATION, f"changed during the session: {'; '.join(changed)}"
            )

    def _note_end(self, driver: Driver | None) -> None:
        """Remember how a run ended: after a failed restoration no other one begins."""
        if driver is not None and driver.outcome is not Outcome.COMPLETE:
            self._all_complete = False
        if driver is None or not (driver.dirty or driver.outcome is Outcome.RESTORATION_FAILURE):
            return
        what = f"left the cluster mutated: {driver.dirty}" if driver.dirty else "was not restored"
        self._failed = RunStoppedError(
            Outcome.RESTORATION_FAILURE, f"the schedule has stopped: {driver.run.id} {what}"
        )


def _observed(cell: Cell, readings: StateReadings) -> tuple[Observed, ...]:
    if cell.is_contract:
        contract = readings.contract
        return (
            Observed(
                instrument="contract",
                verdict=contract.verdict.value,
                detail=", ".join(sorted(contract.violated)),
            ),
        )
    return tuple(
        Observed(
            instrument=reading.instrument,
            verdict=reading.verdict.value,
            detail=(
                f"{reading.exception.type}: {reading.exception.message}"
                if reading.exception
                else reading.reason
            ),
        )
        for reading in readings.readings[cell.oracle]
    )


def _protocol_of(study: Study, settings: Settings) -> Protocol:
    """The profile in use. The gate has seen that it is there."""
    return study.profiles[study.profile_for(settings.cluster_kind, settings.profile)]
