"""What a row says about a problem: its places, arguments, application and oracles."""

from __future__ import annotations

import ast
from typing import Final

from pytest_sremut.census.interpreter.classes import mro_of
from pytest_sremut.census.interpreter.machine import Machine, MissingRead
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    ClassV,
    Dict,
    Func,
    Inst,
    ListV,
    ModuleV,
    Value,
)
from pytest_sremut.census.layout import Layout
from pytest_sremut.census.model import OracleUse, Place

__all__ = [
    "application_of",
    "arguments_of",
    "children_of",
    "is_set_somewhere",
    "key_places",
    "oracle_use",
]

_NESTED: Final = 4


def key_places(module: ModuleV, registry: Dict) -> dict[str, Place]:
    """The place of each id; the top of the registry's file for an id that is computed."""
    file = module.module.file
    places: dict[str, Place] = {}
    wanted = {str(key) for key in registry.entries}
    first = Place(file, 1)
    for node in ast.walk(module.module.tree):
        if isinstance(node, ast.Constant) and node.value in wanted:
            places.setdefault(str(node.value), Place(file, node.lineno))
    return {key: places.get(key, first) for key in wanted}


def arguments_of(factory: Value, made: Inst) -> dict[str, str]:
    """The constructor's arguments, resolved through the attributes of the same names."""
    found: dict[str, str] = {}
    node: ast.AST | None = None
    if isinstance(factory, Func) and isinstance(factory.node, ast.Lambda):
        node = factory.node.body
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg:
                found[keyword.arg] = ast.unparse(keyword.value)[:80]
        for index, arg in enumerate(node.args):
            found[str(index)] = ast.unparse(arg)[:80]
    for key in list(found):
        text = as_text(made.attrs[key]) if key in made.attrs else None
        if text is not None:
            found[key] = text
    if hasattr(factory, "kwargs"):
        found |= {key: as_text(value) or "?" for key, value in factory.kwargs.items()}
    return dict(sorted(found.items()))


def application_of(made: Inst) -> str:
    """The class of the problem's application; empty if it has none."""
    app = made.attrs.get("app")
    return app.cls.name if isinstance(app, Inst) else ""


def _class_place(cls: ClassV) -> Place:
    return Place(cls.module.module.file, cls.node.lineno)


def _assigned(m: Machine, made: Inst, attribute: str, name: str) -> Place:
    """The line that assigns the oracle, in the problem's class or a base of it."""
    for cls in mro_of(m, made.cls):
        for node in ast.walk(cls.node):
            if (
                isinstance(node, ast.Assign)
                and any(
                    isinstance(target, ast.Attribute) and target.attr == attribute
                    for target in node.targets
                )
                and name in ast.unparse(node.value)
            ):
                return Place(cls.module.module.file, node.lineno)
    return _class_place(made.cls)


def is_set_somewhere(m: Machine, made: Inst, read: MissingRead) -> bool:
    """Whether any method of the problem's classes sets the attribute, so that it may exist."""
    if read.cls != made.cls.name:
        return True  # only the problem's own attributes are checked
    for cls in mro_of(m, made.cls):
        for node in ast.walk(cls.node):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Store()) if name == read.attribute:
                    return True
    return False


def oracle_use(m: Machine, made: Inst, attached: Inst | None, layout: Layout) -> OracleUse | None:
    """The attached oracle with all oracles that it consists of."""
    if attached is None:
        return None
    return OracleUse(
        name=attached.cls.name,
        place=_assigned(m, made, layout.oracle, attached.cls.name),
        children=_uses_below(attached, layout.children, 0),
    )


def _uses_below(oracle: Inst, children: str, depth: int) -> tuple[OracleUse, ...]:
    return tuple(
        OracleUse(
            name=one.cls.name,
            place=_class_place(one.cls),
            children=_uses_below(one, children, depth + 1) if depth < _NESTED else (),
        )
        for one in children_of(oracle, children)
    )


def children_of(oracle: Inst, children: str) -> list[Inst]:
    """The oracles that an oracle consists of, from its attribute of that name."""
    below = oracle.attrs.get(children)
    items: list[Value] = list(below.entries.values()) if isinstance(below, Dict) else []
    items = below.items if isinstance(below, ListV) else items
    return [one for one in items if isinstance(one, Inst)]
