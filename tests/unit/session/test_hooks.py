"""Every hook is one call: what a session does is in the rooms behind the hooks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_sremut

PACKAGE = Path(pytest_sremut.__file__).parent
LONGEST = 10  # lines of a body, without its docstring


def hooks() -> dict[str, ast.FunctionDef]:
    """Every hook implementation of the package, by file and name. Specifications are none."""
    found: dict[str, ast.FunctionDef] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.name == "hookspecs.py":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        owners = {
            child: node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for child in node.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("pytest_"):
                owner = f"{owners[node]}." if node in owners else ""
                found[f"{file.relative_to(PACKAGE)}: {owner}{node.name}"] = node
    return found


def body_of(hook: ast.FunctionDef) -> list[ast.stmt]:
    """Without the docstring."""
    first, rest = hook.body[0], hook.body[1:]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return rest if is_docstring else hook.body


def is_one_call(body: list[ast.stmt]) -> bool:
    """`call(...)` or `return call(...)`, and nothing else."""
    return (
        len(body) == 1
        and isinstance(body[0], ast.Expr | ast.Return)
        and isinstance(body[0].value, ast.Call)
    )


def length(body: list[ast.stmt]) -> int:
    """Lines."""
    if not body:
        return 0
    last = body[-1].end_lineno
    assert last is not None
    return last - body[0].lineno + 1


def test_every_hook_is_one_call() -> None:
    more = [name for name, hook in hooks().items() if not is_one_call(body_of(hook))]
    assert more == []


def test_no_hook_is_longer_than_ten_lines() -> None:
    longer = {
        name: lines for name, hook in hooks().items() if (lines := length(body_of(hook))) > LONGEST
    }
    assert longer == {}


def test_the_hooks_of_every_role_are_found() -> None:
    """Or the tests above would pass for having looked nowhere."""
    found = set(hooks())
    assert {
        "plugin.py: pytest_configure",
        "distribution.py: XdistHooks.pytest_configure_node",
        "session/controller.py: Controller.pytest_sessionstart",
        "session/runner.py: Single.pytest_sessionstart",
        "session/runner.py: Worker.pytest_sessionstart",
        "session/adjudication.py: Adjudication.pytest_sessionfinish",
        "session/census.py: CensusItems.pytest_collection_modifyitems",
    } <= found


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("self.go(1)", True),
        ("'''Why.'''\n    return self.go(1)", True),
        ("return 1", False),
        ("self.go(1)\n    self.go(2)", False),
        ("if self:\n        self.go(1)", False),
    ],
)
def test_what_one_call_is(text: str, *, holds: bool) -> None:
    (hook,) = ast.parse(f"def pytest_x(self):\n    {text}\n").body
    assert isinstance(hook, ast.FunctionDef)
    assert is_one_call(body_of(hook)) is holds
