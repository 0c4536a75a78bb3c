"""One process's part of a session: its cluster, its runs one after another, their reports.

The cluster is brought up when the first cell asks for it and leased for as long as the session
lasts. Once a restoration failed nothing more is mutated: the schedule has stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.cluster.lease import Lease, directory_for
from pytest_sremut.cluster.port import LogSource
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
from pytest_sremut.session import subject as benchmark
from pytest_sremut.session.cellreport import CellReport, Observed
from pytest_sremut.session.recovery import Place, recover_leased
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.ledger.baseline.document import Baseline, Known
    from pytest_sremut.options import Settings
    from pytest_sremut.session.gate import Admission
    from pytest_sremut.study.model import Cell, Protocol, Run, Study

__all__ = ["AuditSession", "ClusterFactory"]

ClusterFactory = Callable[["Settings", str], "Cluster"]


def _opened(
    settings: Settings, name: str, *, session: str, evidence: Path, tell: Callable[[str], None]
) -> Cluster:
    """The cluster that the settings name. Raises UsageError and ClusterError."""
    if settings.cluster == "kind":
        from pytest_sremut.cluster.kind.backend import KindBackend, Plan

        plan = Plan(
            name=name,
            session=session,
            evidence=evidence,
            image=settings.kind_image,
            workers=settings.kind_workers,
            keep=settings.keep_cluster,
        )
        return KindBackend.start(plan, tell=tell)
    if settings.cluster == "embedded":
        from pytest_sremut.cluster.embedded import EmbeddedBackend, named_directory
        from pytest_sremut.embedded import Options

        return EmbeddedBackend.start(
            name=name,
            # A kept one lies where `sremut cluster` finds it by its name.
            directory=named_directory(name) if settings.keep_cluster else None,
            keep=settings.keep_cluster,
            options=Options(**dict(settings.embedded)),  # type: ignore[arg-type]
        )
    from pytest_sremut.cluster.context import ContextBackend

    return ContextBackend.open(
        context=settings.cluster.split(":", 1)[1], allowed=settings.allowed_contexts
    )


class AuditSession:
    """Runs cells in one process.

    Args:
        settings: What the user asked for.
        session_id: Common to all processes of the session.
        worker: `main`, or xdist's worker id.
        evidence: The session's evidence directory, common to all processes.
        admissions: Study id -> under which regime it runs.
        progress: Shown while something long goes on.
        baseline: Disagreements that are known.
        key: The public key of a sealed session.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        session_id: str,
        worker: str,
        evidence: Path,
        admissions: Mapping[str, Admission],
        progress: Callable[[str], None],
        baseline: Baseline | None = None,
        open_cluster: ClusterFactory | None = None,
        key: str = "",
    ) -> None:
        self._settings = settings
        self._session_id = session_id
        self._worker = worker
        self._evidence = evidence
        self._admissions = admissions
        self._progress = progress
        self._baseline = baseline
        self._key = key
        self._open_cluster = open_cluster or partial(
            _opened, session=session_id, evidence=evidence, tell=progress
        )
        self._clock = SystemClock()
        self._root: EvidenceRoot | None = None
        self._instruments = benchmark.instruments(settings)
        self._cluster: Cluster | None = None
        self._identity: ClusterIdentity | None = None
        self._lease: Lease | None = None
        self._failed: SremutError | None = None
        self._driver: Driver | None = None
        self._all_complete = True
        self.recovered: list[str] = []  # attempts of dead processes, put back before ours

    # -- cells ------------------------------------------------------------------------------

    def report(self, study: Study, cell: Cell) -> CellReport:
        """Read a cell, advancing its run as far as its state.

        Raises:
            SremutError: The run stopped, the cluster is not to be had, or evidence cannot be kept.
        """
        driver = self._driver_of(study, cell.run)
        readings = driver.state(cell.state)
        return CellReport(
            study=study,
            cell=cell,
            attempt=driver.attempt.number,
            registration=self._admissions[study.id].registration.value,
            evidence=str(driver.attempt.directory),
            requirement=self._settings.require,
            observed=_observed(cell, readings),
            contract=readings.contract.verdict,
            violated=frozenset(readings.contract.violated),
            known=self._known(study),
        )

    def _known(self, study: Study) -> frozenset[Known]:
        if self._baseline is None:
            return frozenset()
        return self._baseline.known(study, file_digests(self._settings.root, study.frozen))

    def finish_run(self) -> None:
        """End the run in progress. Raises SremutError when it ends badly only now."""
        driver, self._driver = self._driver, None
        if driver is None or driver.outcome is not None:
            self._note_dirty(driver)
            return
        try:
            driver.finish()
        finally:
            self._note_dirty(driver)

    def close(self) -> None:
        """End everything: abort a run in progress, give the cluster back. Idempotent.

        Raises:
            SremutError: The cluster could not be taken down.
        """
        with ExitStack() as last:  # each is done, whatever becomes of the ones before it
            last.callback(self._close_cluster)
            last.callback(self._release)
            last.callback(self._instruments.close)
            driver, self._driver = self._driver, None
            if driver is not None:
                self._all_complete = False
                driver.abort(KeyboardInterrupt("the session ended during the run"))

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def _close_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            if not self._all_complete and isinstance(cluster, LogSource):
                self._progress("keeping the cluster's logs")
                cluster.export_logs(self._evidence / "clusters")
            self._progress("taking the cluster down")
            cluster.close()
            self._progress("")

    # -- pieces -----------------------------------------------------------------------------

    def _driver_of(self, study: Study, run: Run) -> Driver:
        driver = self._driver
        if driver is not None and driver.run == run:
            return driver
        if driver is not None:
            self.finish_run()
        if self._failed is not None:
            raise self._failed
        if self._root is None:
            self._root = EvidenceRoot.open(self._evidence)
        cluster, identity = self._leased(study)
        protocol = _protocol_of(study, self._settings)
        admission = self._admissions[study.id]
        identity_of_attempt = AttemptIdentity(
            study=study.id,
            run=run.id,
            mutant=run.mutant,
            repetition=run.repetition,
            registration=admission.registration,
            session=self._session_id,
            files=file_digests(self._settings.root, study.frozen),
            profile=protocol.profile,
            protocol=protocol_facts(protocol),
            cluster=_cluster_record(cluster, identity),
            product=product_facts(),
            sealed=admission.binding(self._key),
        )
        self._instruments.start(study)
        with uninterrupted():  # an attempt that was begun has a driver that can close it
            self._driver = Driver(
                study=study,
                run=run,
                protocol=protocol,
                cluster=cluster,
                identity=identity,
                allowed_contexts=self._settings.allowed_contexts | _own_context(cluster),
                attempt=self._root.begin(identity_of_attempt),
                instruments=self._instruments,
                registration=admission.registration,
                clock=self._clock,
                progress=self._progress,
                lease=self,
                before_run=lambda: self._refuse_if_changed(study),
                registration_facts=admission.facts(),
                use_namespaces=self._settings.use_namespaces,
            )
        return self._driver

    def _leased(self, study: Study) -> tuple[Cluster, ClusterIdentity]:
        if self._cluster is None:
            self._progress(f"bringing up a cluster ({self._settings.cluster})")
            self._instruments.start(study)
            try:
                name = f"{self._session_id[-6:]}-{self._worker}"
                self._cluster = self._open_cluster(self._settings, name)
                self._identity = self._cluster.identity()
                self._lease = Lease.acquire(
                    self._identity,
                    holder=self._session_id,
                    directory=_lease_directory(self._cluster),
                    allow_dirty=True,
                )
                if not _is_own(self._cluster):  # a worker that died may have left it so just now
                    self._recover(self._cluster, self._identity, self._lease)
            except SremutError as error:
                # One clear message for every cell instead of one attempt each to start it.
                self._failed = error
                raise
        assert self._identity is not None
        return self._cluster, self._identity

    def _refuse_if_changed(self, study: Study) -> None:
        """A frozen file that was edited during the session ends the registration's hold."""
        changed = self._admissions[study.id].changed_since(self._settings.root)
        if changed:
            raise RunStoppedError(
                Outcome.PROTOCOL_VIOLATION, f"changed during the session: {'; '.join(changed)}"
            )

    def _recover(self, cluster: Cluster, identity: ClusterIdentity, lease: Lease) -> None:
        """Put back what died on this cluster, and refuse it where that is blocked."""
        place = Place.of_project(
            self._settings.root, session=self._session_id, more=[self._evidence]
        )
        self.recovered += recover_leased(
            cluster,
            identity,
            lease,
            replace(place, progress=self._progress),
            allowed_contexts=self._settings.allowed_contexts,
        )

    # -- the lease, as a run uses it (`engine.state.LeasePort`) ------------------------------

    def mark_dirty(self, note: str) -> None:
        """Mark the lease: it says where the journal is from which the cluster is put back, and how
        the cluster is reached."""
        assert self._lease is not None
        assert self._driver is not None
        assert self._cluster is not None
        attempt = self._driver.attempt
        self._lease.mark_dirty(
            note,
            {
                "study": attempt.identity.study,
                "run": attempt.run,
                "attempt": str(attempt.directory.absolute()),
                "evidence": str(self._evidence.absolute()),
                "project": str(self._settings.root.absolute()),
                "kind": self._settings.cluster_kind,
                "context": self._cluster.context,
                "kubeconfig": str(self._cluster.kubeconfig.absolute()),
            },
        )

    def mark_clean(self) -> None:
        """See `LeasePort`."""
        assert self._lease is not None
        self._lease.mark_clean()

    def keep_aside(self, body: bytes) -> None:
        """See `LeasePort`."""
        assert self._lease is not None
        self._lease.keep_aside(body)

    def _note_dirty(self, driver: Driver | None) -> None:
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


def _is_own(cluster: Cluster) -> bool:
    return cluster.facts().kind in {"embedded", "kind"}


def _lease_directory(cluster: Cluster) -> Path:
    """A cluster of our own is gone with its directory, and so is its lease."""
    if _is_own(cluster):
        return cluster.kubeconfig.parent
    return directory_for(cluster.kubeconfig, os.environ)


def _own_context(cluster: Cluster) -> frozenset[str]:
    """A cluster that this session started itself may be written to."""
    return frozenset({cluster.context}) if _is_own(cluster) else frozenset()


def _cluster_record(cluster: Cluster, identity: ClusterIdentity) -> dict[str, object]:
    facts = cluster.facts()
    return {
        "kind": facts.kind,
        "name": facts.name,
        "context": facts.context,
        "kube_system_uid": identity.kube_system_uid,
        "server_version": identity.server_version,
        "facts": dict(facts.values),
    }
