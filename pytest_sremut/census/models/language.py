"""Where the interpreter and the models meet: the handlers of every kind of syntax and of value.

The interpreter knows what the benchmark itself defines. The models know Python's builtins and
types, its standard library, and what touches a cluster.
"""

from __future__ import annotations

from typing import Final

from pytest_sremut.census.interpreter.attributes import ATTRIBUTES
from pytest_sremut.census.interpreter.calls import CALLS
from pytest_sremut.census.interpreter.expressions import EXPRESSIONS
from pytest_sremut.census.interpreter.machine import Language
from pytest_sremut.census.interpreter.statements import STATEMENTS
from pytest_sremut.census.interpreter.values import Const, Dict, Ext, KObj, ListV, Native, PathV
from pytest_sremut.census.models.builtins import builtin, builtin_attribute
from pytest_sremut.census.models.containers import list_attribute, mapping_attribute
from pytest_sremut.census.models.externals import call_external
from pytest_sremut.census.models.objects import object_attribute
from pytest_sremut.census.models.paths import path_attribute
from pytest_sremut.census.models.strings import constant_attribute

__all__ = ["LANGUAGE"]

LANGUAGE: Final = Language(
    expressions=EXPRESSIONS,
    statements=STATEMENTS,
    calls={**CALLS, Ext: call_external},
    attributes={
        **ATTRIBUTES,
        Const: constant_attribute,
        Dict: mapping_attribute,
        KObj: object_attribute,
        ListV: list_attribute,
        Native: builtin_attribute,
        PathV: path_attribute,
    },
    builtin=builtin,
)
"""Python as a benchmark uses it, on partly known values."""
