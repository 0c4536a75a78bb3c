"""`--sremut-check`: the ledger that stands there must be the one that the records give."""

from __future__ import annotations

import pytest
from recorded import Recorded, recorded

__all__ = ["recorded"]

SELECT = ("-m", "mutant", "-k", "missing_service_social_network")
CHECK = ("--sremut-adjudicate", "--sremut-check", *SELECT)


@pytest.fixture
def adjudicated(recorded: Recorded, pytester: pytest.Pytester) -> Recorded:
    recorded.matrix()
    assert pytester.runpytest_inprocess("--sremut-adjudicate", *SELECT).ret == 0
    return recorded


def test_the_same_ledger_passes(
    adjudicated: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    before = (adjudicated.root / ".sremut" / "ledger.json").stat().st_mtime_ns
    result = pytester.runpytest_subprocess(*CHECK, *how)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*.sremut/ledger.json is what the records give (*"])
    assert (adjudicated.root / ".sremut" / "ledger.json").stat().st_mtime_ns == before


def test_another_ledger_fails_with_the_place(
    adjudicated: Recorded, pytester: pytest.Pytester
) -> None:
    path = adjudicated.root / ".sremut" / "ledger.json"
    changed = path.read_bytes().replace(b'"killed":0', b'"killed":3', 1)
    path.write_bytes(changed)
    result = pytester.runpytest_inprocess(*CHECK)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*.sremut/ledger.json is not what the records give:",
            "*ledger.json: studies[[]0[]].scores[[]0[]].killed: stands 3, the records give 0",
        ]
    )
    assert path.read_bytes() == changed  # nothing is written


def test_a_reformatted_ledger_fails(adjudicated: Recorded, pytester: pytest.Pytester) -> None:
    path = adjudicated.root / ".sremut" / "ledger.json"
    path.write_bytes(path.read_bytes().replace(b",", b", ", 1))
    result = pytester.runpytest_inprocess(*CHECK)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the values agree, the bytes differ from byte *"])


def test_an_edited_rendering_fails(adjudicated: Recorded, pytester: pytest.Pytester) -> None:
    path = adjudicated.root / ".sremut" / "ledger.md"
    path.write_text(path.read_text().replace("0 of 3", "3 of 3", 1))
    result = pytester.runpytest_inprocess(*CHECK)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ledger.md: -| `O1` | 3 of 3*", "*ledger.md: +| `O1` | 0 of 3*"])


def test_no_ledger_fails(recorded: Recorded, pytester: pytest.Pytester) -> None:
    recorded.matrix()
    result = pytester.runpytest_inprocess(*CHECK)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ledger.json: there is none"])
    assert not (recorded.root / ".sremut" / "ledger.json").exists()


def test_it_belongs_to_adjudication(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--sremut-check")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--sremut-check: allowed only with --sremut-adjudicate"])
