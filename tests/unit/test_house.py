"""The house in numbers: how large a room and a module may be, and that no imports go in a circle.

`lint-imports` holds the floors; what it cannot say is here.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pytest_sremut"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def imports(name: str, path: Path) -> Iterator[str]:
    """Modules of ours that a module imports when it is imported, or for its types."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _outside_functions(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name in NAMES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - max(0, node.level - 1)]
            inside = [node.module] if node.module else []
            base = ".".join([*(above if node.level else []), *inside])
            for item in node.names:
                whole = f"{base}.{item.name}"
                if whole in NAMES or base in NAMES:
                    yield whole if whole in NAMES else base


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that is not in a function: what is imported there is imported later."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _outside_functions(node)


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that are left when those that import nothing left are taken away, again and again."""
    left = {name: set(found) for name, found in graph.items()}
    while free := [name for name, found in left.items() if not found & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_room_has_more_than_twenty_five_modules() -> None:
    rooms: dict[Path, int] = {}
    for path in MODULES:
        rooms[path.parent] = rooms.get(path.parent, 0) + (path.name != "__init__.py")
    assert {str(room.relative_to(ROOT)): n for room, n in rooms.items() if n > 25} == {}


def test_modules_are_small() -> None:
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path in MODULES
        if path.name != "__init__.py"
    }
    assert {str(path): n for path, n in lines.items() if n > 400} == {}
    assert statistics.median(lines.values()) <= 160  # 156 today; the goal is 150


def test_no_imports_go_in_a_circle() -> None:
    """Also none that are there for types alone."""
    graph = {name: set(imports(name, path)) - {name} for name, path in NAMES.items()}
    assert sum(map(len, graph.values())) > 1000, "the imports were not found"
    # A package's face imports its modules; they may not import the face.
    assert circles(graph) == []


def test_the_search_for_circles_finds_one() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == [
        "a", "b", "c", "d",
    ]  # fmt: skip
