"""What a leased cluster's mark and the evidence say is to be recovered, and when it is released."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from engine_world import ROOT
from recovery_world import KilledError, KilledWorld, Step

from pytest_sremut.cluster.lease import Lease
from pytest_sremut.engine.recovery import BlockedError
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.seal import SessionKey
from pytest_sremut.session.recovery import Place, recover_leased
from pytest_sremut.study.verdict import State

STEP = Step(what="api", number=9, when="after")
SEALED = {
    "registration": "a" * 64, "revision": 1, "key": SessionKey.generate("died").public,
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> KilledWorld:
    return KilledWorld(tmp_path / "evidence")


@pytest.fixture
def lease(world: KilledWorld, tmp_path: Path) -> Iterator[Lease]:
    with Lease.acquire(
        world.identity(), holder="died", directory=tmp_path / "leases", allow_dirty=True
    ) as lease:
        yield lease


def recover(world: KilledWorld, lease: Lease, *evidence: Path) -> list[str]:
    place = Place(project=ROOT, evidence=evidence, session="rescuer")
    return recover_leased(
        world, world.identity(), lease, place, allowed_contexts=frozenset({world.context})
    )


def killed(*_: object, **__: object) -> NoReturn:
    raise KilledError


def facts(world: KilledWorld) -> dict[str, str]:
    (attempt,) = world.directory.glob("*/*/a01")
    return {"attempt": str(attempt), "evidence": str(world.directory), "project": str(ROOT)}


def test_the_mark_leads_to_the_evidence(world: KilledWorld, lease: Lease) -> None:
    world.run("MS-M01", world.study(), STEP)
    lease.mark_dirty("ms-m01-r01", facts(world))
    (line,) = recover(world, lease)
    assert line.startswith("missing_service_social_network/ms-m01-r01 attempt 1: DRIVER_ABORTED: ")
    assert lease.dirty() is None
    assert recover(world, lease) == []


def test_without_a_mark_the_evidence_is_found_by_searching(
    world: KilledWorld, lease: Lease, tmp_path: Path
) -> None:
    """The mark is a finger-post only."""
    world.run("MS-M01", world.study(), STEP)
    assert recover(world, lease, tmp_path / "no evidence at all") == []
    (line,) = recover(world, lease, world.directory, world.directory)
    assert "DRIVER_ABORTED" in line


def test_a_mark_whose_run_had_put_everything_back_is_released(
    world: KilledWorld, lease: Lease
) -> None:
    world.driver("MS-M01").state(State.RESTORED)
    lease.mark_dirty("ms-m01-r01", facts(world))
    lease.keep_aside(b"{}")
    (line,) = recover(world, lease)
    assert line == "the mark of session died was released: its run had put everything back"
    assert lease.dirty() is None
    assert lease.aside() == b""


def test_a_recovery_that_died_before_it_sealed_is_gone_on_with(
    world: KilledWorld, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sealed = SEALED
    world.run("MS-M01", world.study(), STEP)
    lease.mark_dirty("ms-m01-r01", facts(world))
    with monkeypatch.context() as patch:
        patch.setattr("pytest_sremut.evidence.seal.attempt.seal_recovered", killed)
        with pytest.raises(KilledError):
            recover(world, lease)
    attempt = Path(facts(world)["attempt"])
    assert (attempt / "record.json").exists()
    assert not (attempt / "seal").exists()
    assert lease.dirty() is not None

    recover(world, lease)
    seal = json.loads((attempt / "seal" / "seal.json").read_text())
    assert (seal["extent"], seal["key"]["session"]) == ("partial", "rescuer")
    assert "recovered by rescuer" in seal["stop"]["reason"]
    assert lease.dirty() is None


def test_a_complete_attempt_that_its_session_did_not_seal_is_left_alone(
    world: KilledWorld, lease: Lease
) -> None:
    world.sealed = SEALED
    world.driver("MS-M01").state(State.RESTORED)
    lease.mark_dirty("ms-m01-r01", facts(world))
    recover(world, lease)
    assert not (Path(facts(world)["attempt"]) / "seal").exists()


def test_a_mark_whose_evidence_is_gone_is_blocked(world: KilledWorld, lease: Lease) -> None:
    world.run("MS-M01", world.study(), STEP)
    lease.mark_dirty("ms-m01-r01", facts(world))
    shutil.rmtree(world.directory)
    with pytest.raises(BlockedError, match="the evidence of its run is gone") as caught:
        recover(world, lease)
    assert f"mark: {lease.mark_file}" in caught.value.diagnostics()
    assert lease.dirty() is not None


@pytest.mark.parametrize("file", ["attempt.json", "journal.jsonl"])
def test_a_mark_whose_evidence_was_damaged_is_never_released(
    world: KilledWorld, lease: Lease, file: str
) -> None:
    world.run("MS-M01", world.study(), STEP)
    lease.mark_dirty("ms-m01-r01", facts(world))
    (path,) = world.directory.glob(f"*/*/a01/{file}")
    path.write_text(path.read_text().replace("ms-m01", "ms-m02"))
    if file == "attempt.json":
        path.write_text("{")
    with pytest.raises((BlockedError, EvidenceError), match=r"cannot be read|TAMPERED"):
        recover(world, lease)
    assert lease.dirty() is not None


def test_a_mark_of_another_cluster_is_never_released(world: KilledWorld, lease: Lease) -> None:
    """A copy of the mark, or a kubeconfig that was pointed elsewhere."""
    world.run("MS-M01", world.study(), STEP)
    lease.mark_dirty("ms-m01-r01", facts(world))
    world.uid = "another"
    with pytest.raises(BlockedError, match="cannot be read"):
        recover(world, lease)
    assert lease.dirty() is not None


def test_a_mark_that_says_nothing_is_blocked(world: KilledWorld, lease: Lease) -> None:
    lease.mark_dirty("ms-m01-r01")
    with pytest.raises(BlockedError, match="the mark does not say"):
        recover(world, lease)
    lease.mark_file.write_text("{")
    with pytest.raises(BlockedError, match=r"session \? left the cluster mutated"):
        recover(world, lease)
    assert lease.dirty() is not None
