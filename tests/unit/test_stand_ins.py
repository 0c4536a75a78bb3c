"""`docs/real-clusters.md` names a test for each thing that only a real cluster meets."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WANTED = (
    "load generator", "images", "clocks", "DNS", "self-test", "node reads", "slower starts",
    "a pod that takes up to 30 s", "throttled API", "several nodes",
)  # fmt: skip


def rows() -> dict[str, list[str]]:
    """What differs -> the tests that stand in for it."""
    text = (ROOT / "docs" / "real-clusters.md").read_text("utf-8")
    _, _, rest = text.partition("<!-- stand-ins: begin -->")
    table, end, _ = rest.partition("<!-- stand-ins: end -->")
    assert end
    found = {}
    for line in table.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 4, line
        found[cells[0]] = re.findall(r"`(tests/[^`]+)`", cells[3])
    return found


def test_everything_that_differs_has_a_test_that_is_there() -> None:
    table = rows()
    assert set(WANTED) <= set(table)
    for what, tests in table.items():
        assert tests, what
        for test in tests:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / file).read_text("utf-8"))
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            named = {one.name for one in tree.body if isinstance(one, functions)}
            assert name in named, f"{what}: {test} is not there"
