"""What changed around the namespace: from a record into the summary, and into nothing else."""

from __future__ import annotations

from dataclasses import replace

from ledger_world import Adjudicated

from pytest_sremut.ledger.renderings.text import summary_lines

TITLE = "the cluster around the namespace changed during an attempt (noted; it decides nothing)"


def test_the_summary_tells_it_and_stays_as_it_was(judged_whole: Adjudicated) -> None:
    (judged,) = judged_whole.judged.studies
    quiet = summary_lines(judged.study, judged.attempts)
    assert TITLE not in quiet
    lines = tuple(f"Node n{number} (u) changed" for number in range(5))
    first, *others = judged.attempts
    told = summary_lines(judged.study, [replace(first, around=lines), *others])
    shown = "; ".join(lines[:3])
    added = [TITLE, f"  {first.run} attempt {first.attempt}: {shown}; and 2 more"]
    assert [line for line in told if line not in quiet] == added
    rest = [line for line in told if line and line not in added]
    assert rest == [line for line in quiet if line]
