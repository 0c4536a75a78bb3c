"""A census of source written in a test, and copies of the miniature benchmark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_sremut.census.interpreter.core import call
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.modules import load_module
from pytest_sremut.census.interpreter.values import Value
from pytest_sremut.census.model import Effect
from pytest_sremut.census.models.language import LANGUAGE
from pytest_sremut.census.rules import shipped_rules
from pytest_sremut.census.source import SourceTree

MINICENSUS = Path(__file__).resolve().parents[2] / "minicensus"
TORN = "def inject(:\n    pass\n"


class Program:
    """A program of one or more modules, followed from `main()` in `program.py`."""

    def __init__(self, root: Path, text: str, **modules: str) -> None:
        for name, module in {"program": text, **modules}.items():
            (root / f"{name}.py").write_text(module, encoding="utf-8")
        self.m = Machine(SourceTree(root), shipped_rules(), LANGUAGE)

    def run(self) -> Value:
        """The value of `main()`; effects and trails are in `m`."""
        module = load_module(self.m, "program")
        assert module is not None, self.m.tree.broken
        self.m.stack.append(Frame(module=module, scope=Scope()))
        return call(self.m, module.names["main"], [], {})

    @property
    def effects(self) -> list[Effect]:
        return [effect for effect in self.m.effects if effect.verb != "sleep"]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Program]:
    return lambda text, **modules: Program(tmp_path, text, **modules)


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    """The miniature benchmark with the file that does not parse (kept out of the repository)."""
    root = tmp_path / "mini"
    shutil.copytree(MINICENSUS, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "bench" / "torn.py").write_text(TORN, encoding="utf-8")
    return root
