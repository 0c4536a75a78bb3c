"""How the engine is built: no circle, one writer of each state, no type hidden in a string."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_sremut.engine
from pytest_sremut.engine.state import Role, RunContext, RunState
from pytest_sremut.engine.steps.recording import StateNotes

ENGINE = Path(pytest_sremut.engine.__file__).parent
MODULES = {path.relative_to(ENGINE).as_posix(): path for path in sorted(ENGINE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}

RUN = frozenset(field.name for field in dataclasses.fields(RunState))
NOTES = frozenset(field.name for field in dataclasses.fields(StateNotes)) - {"state", "waiting"}
"""Two names that other values have, too: the notes' own are set where the notes are made."""

WRITERS = {"run.py"}
MAKERS = {"run.py", "recovery/owned_objects.py"}  # a recovery makes one from the journal
NOTE_WRITERS = {"steps/reader.py", "steps/recording.py"}
CHANGING = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove",
    "setdefault", "sort", "update", "__setitem__",
}  # fmt: skip


# -- one writer of the run's state ----------------------------------------------------------------


def written(tree: ast.AST, fields: frozenset[str]) -> Iterator[str]:
    """Every place where an attribute of that name is assigned, deleted or changed in place."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
            targets = [node.target]
        elif isinstance(node, ast.With):
            targets = [item.optional_vars for item in node.items if item.optional_vars]
        elif isinstance(node, ast.Call):
            yield from _called(node, fields)
        for target in targets:
            yield from _targeted(target, fields)


def _called(node: ast.Call, fields: frozenset[str]) -> Iterator[str]:
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr in CHANGING:
        yield from _targeted(called.value, fields)
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name in {"setattr", "__setattr__", "delattr"}:
        yield f"{name} in line {node.lineno}"
    named = fields & {word.arg for word in node.keywords}
    if name in {"replace", "write"} and named:
        yield f"{name}({', '.join(sorted(named))}) in line {node.lineno}"


def _targeted(target: ast.expr, fields: frozenset[str]) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _targeted(one, fields)
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _targeted(target.value, fields)
    elif isinstance(target, ast.Attribute) and target.attr in fields:
        yield f"{ast.unparse(target)} in line {target.lineno}"


def made(tree: ast.AST) -> list[int]:
    """Lines in which a `RunState` is made."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "RunState"
    ]


def test_only_the_run_writes_its_state() -> None:
    found = {name: list(written(tree, RUN)) for name, tree in TREES.items()}
    assert {name for name, places in found.items() if places} <= MAKERS
    assert found["run.py"]
    assert {name for name, tree in TREES.items() if made(tree)} == MAKERS
    # What a recovery has of it are values that it makes; it sets no attribute.
    assert all(place.startswith("replace(") for place in found["recovery/owned_objects.py"])


def test_only_its_book_has_it() -> None:
    """`Book.state` is assigned in the class `Book`, and a book is written in run.py alone."""
    assigned = {name for name, tree in TREES.items() if list(written(tree, frozenset({"state"})))}
    assert assigned == WRITERS
    for node in ast.walk(TREES["run.py"]):
        if isinstance(node, ast.ClassDef) and node.name != "Book":
            assert list(written(node, frozenset({"state"}))) == []


def test_only_the_reader_writes_the_notes_of_a_state() -> None:
    found = {name: list(written(tree, NOTES)) for name, tree in TREES.items()}
    assert {name for name, places in found.items() if places} == NOTE_WRITERS


@pytest.mark.parametrize(
    "code",
    [
        "ctx.target = body",
        "ctx.application += [item]",
        "a, state.mutants = 1, ()",
        "state.baseline['x'] = 1",
        "del state.target",
        "ctx.temporary.append(item)",
        "state.graders.update(more)",
        "state = replace(state, target=body)",
        "state = dataclasses.replace(state, application=())",
        "book.write(target=None)",
        "object.__setattr__(state, 'target', body)",
        "for state.target in bodies: pass",
    ],
)
def test_a_write_anywhere_is_found(code: str) -> None:
    assert list(written(ast.parse(code), RUN))


def test_neither_can_be_changed_in_place() -> None:
    state = RunState()
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.target = {}  # type: ignore[misc]
    assert RunContext.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert {role.value for role in Role} <= RUN
    assert all(isinstance(getattr(state, role.value), tuple) for role in Role)


# -- no circle ------------------------------------------------------------------------------------


def imports() -> dict[str, set[str]]:
    """Module -> modules of the engine that it imports, under TYPE_CHECKING and in functions too."""
    names = {_dotted(name): name for name in MODULES}
    graph: dict[str, set[str]] = {}
    for name, tree in TREES.items():
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        graph[name] = {names[one] for one in found & names.keys()} - {name}
    return graph


def _dotted(name: str) -> str:
    return f"pytest_sremut.engine.{name.removesuffix('.py').replace('/', '.')}".removesuffix(
        ".__init__"
    )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A way from a node back to itself; empty where there is none."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for after in sorted(graph[node]):
            if found := walk(after, [*way, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := walk(node, []))), [])


def test_no_module_of_the_engine_imports_itself_in_a_circle() -> None:
    graph = imports()
    assert sum(map(len, graph.values())) > 100
    assert circle(graph) == []


def test_no_room_of_the_engine_imports_itself_in_a_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for name, found in imports().items():
        room = name.partition("/")[0]
        rooms.setdefault(room, set()).update({one.partition("/")[0] for one in found} - {room})
    assert {"steps", "faults", "observe", "recovery"} <= rooms.keys()
    assert circle(rooms) == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


# -- no type in a string --------------------------------------------------------------------------


def looked_for(tree: ast.AST) -> Iterator[Any]:
    """What is asked for by `"text" in ...`."""
    for node in ast.walk(tree):
        asks = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
        if isinstance(node, ast.Compare) and asks and isinstance(node.left, ast.Constant):
            yield node.left.value


def test_no_colon_says_what_a_fault_is() -> None:
    assert all(":" not in list(looked_for(tree)) for tree in TREES.values())
    assert list(looked_for(ast.parse('":" in fault'))) == [":"]
