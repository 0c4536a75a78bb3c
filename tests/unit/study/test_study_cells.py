from __future__ import annotations

import dataclasses

from pytest_sremut.study.cells import cells, cells_of, runs
from pytest_sremut.study.model import Mutant, Study
from pytest_sremut.study.verdict import CONTRACT, State


def test_runs_go_round_robin(study: Study) -> None:
    assert [run.id for run in runs(study)] == [
        "ms-m01-r01", "ms-m02-r01", "ms-m03-r01",
        "ms-m01-r02", "ms-m02-r02", "ms-m03-r02",
        "ms-m01-r03", "ms-m02-r03", "ms-m03-r03",
    ]  # fmt: skip


def test_cells_of_a_run_go_state_by_state_with_the_contract_last(study: Study) -> None:
    run = next(iter(runs(study)))
    assert [cell.id for cell in cells_of(study, run)] == [
        f"ms-m01-r01-{state}-{reader}"
        for state in ("healthy", "faulted", "restored")
        for reader in ("O1", "O3", "O4", "contract")
    ]


def test_a_run_has_all_its_cells_before_the_next_begins(study: Study) -> None:
    listed = list(cells(study))
    assert len(listed) == 3 * 3 * 3 * 4
    assert [cell.run for cell in listed[::12]] == list(runs(study))
    assert listed[3].is_contract
    assert listed[3].oracle == CONTRACT
    assert listed[4].state is State.FAULTED


def test_ten_thousand_cells_have_ten_thousand_ids(study: Study) -> None:
    mutants = tuple(
        Mutant(
            id=f"X-{n}", slug=f"x-{n}", models="", absent=True, patch=(), creates=(),
            activation=(), differs=(),
        )
        for n in range(834)
    )  # fmt: skip
    large = dataclasses.replace(study, mutants=mutants, repetitions=1)
    ids = {cell.id for cell in cells(large)}
    assert len(ids) == 834 * 12 > 10_000
