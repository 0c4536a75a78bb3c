"""The summary's lines."""

from __future__ import annotations

import re

from ledger_world import Adjudicated

from pytest_sremut.ledger.renderings.text import summary_lines
from pytest_sremut.study.cells import cells


def test_what_reproduces_a_survivor_is_one_items_id(judged_whole: Adjudicated) -> None:
    """Not an expression: another study's or run's id may begin like this one's."""
    (judged,) = judged_whole.judged.studies
    text = "\n".join(summary_lines(judged.study, judged.attempts))
    commands = re.findall(r"reproduce: (.+)", text)
    known = [f"{judged.study.file}::test_cell[{cell.id}]" for cell in cells(judged.study)]
    assert commands == [f'pytest "{item}"' for item in known if "r01-faulted-O1" in item]
    assert len(commands) == 3
