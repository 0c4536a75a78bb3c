"""The shipped JSON Schemas, and their verdicts said in the words of `InputError`.

Schemas are loaded, and jsonschema imported, only when something is validated: the import alone
takes a quarter of a second. Of several errors the first in the file is told, unknown keys before
others, because a misspelt key also shows as a missing one.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlevents import Step
from pytest_sremut.ground.formats.yamlfile import YamlFile

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["describe", "load_schema", "show", "validate", "validator_for"]

_SHOWN: Final = 60
_TYPES: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_UNKNOWN_KEY: Final = frozenset({"additionalProperties", "propertyNames"})


def load_schema(package: str, name: str) -> Mapping[str, Any]:
    """The schema `schemas/<name>.schema.json` of a package of ours."""
    resource = importlib.resources.files(package).joinpath("schemas", f"{name}.schema.json")
    schema = json.loads(resource.read_text(encoding="utf-8"))
    assert isinstance(schema, dict)
    return schema


@functools.cache
def validator_for(package: str, name: str) -> Validator:
    """A validator of that schema. `3.0` is not an integer, unlike in JSON Schema's own reading."""
    from jsonschema import Draft202012Validator, validators

    strict = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    cls: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, type_checker=strict
    )
    validator: Validator = cls(load_schema(package, name))
    return validator


def validate(source: YamlFile, name: str, *, package: str = "pytest_sremut.study") -> None:
    """Check a file against a schema of a package of ours, by default one of a study's own.

    Args:
        source: The file.
        name: Of the schema: study, contract, mutants or predictions.
        package: In whose `schemas/` it lies.

    Raises:
        InputError: The first thing in the file that is not allowed.
    """
    errors = list(validator_for(package, name).iter_errors(source.value))
    if errors:
        raise min((_told(source, error) for error in errors), key=lambda told: (told[0], told[1]))[
            2
        ]


# One case a keyword: each has its own sentence.
def describe(error: ValidationError) -> tuple[tuple[Step, ...], str, str]:  # noqa: C901
    """A validation error as (path, found, allowed)."""
    path: tuple[Step, ...] = tuple(error.absolute_path)
    rule: Any = error.validator_value
    instance: Any = error.instance
    schema: Any = error.schema
    # The schema's own description says what is allowed better than its regular expression.
    described = schema.get("description") if isinstance(schema, dict) else None
    match error.validator:
        case "additionalProperties" if rule is False and isinstance(instance, Mapping):
            known = sorted(schema.get("properties", {}))
            key = next(key for key in instance if key not in known)
            return (*path, key), f"unknown key {show(key)}", _keys(known, key)
        case "propertyNames" | "pattern" if "propertyNames" in error.absolute_schema_path:
            return (*path, instance), f"key {show(instance)}", str(described)
        case "required" if isinstance(instance, Mapping):
            missing = next(key for key in rule if key not in instance)
            return path, f"no key {missing}", f"{missing} is required here"
        case "enum":
            return path, show(instance), described or _choice(rule)
        case "const":
            return path, show(instance), described or show(rule)
        case "type":
            kinds = [rule] if isinstance(rule, str) else list(rule)
            allowed = " or ".join(_TYPES[kind] for kind in kinds)
            return path, show(instance), described or allowed
        case "minimum":
            return path, show(instance), described or f"{rule} or more"
        case "maximum":
            return path, show(instance), described or f"{rule} or less"
        case "minItems" | "minProperties":
            found = f"{len(instance)} entries"
            return path, found, described or f"{rule} or more entries"
        case "maxItems" | "maxProperties":
            found = f"{len(instance)} entries"
            return path, found, described or f"at most {rule} entries"
        case "uniqueItems":
            return path, "the same entry twice", "every entry once"
        case "anyOf" if not described and error.context:
            # The alternative that came furthest is the one that was meant.
            meant = max(
                error.context, key=lambda one: (len(one.absolute_path), one.validator != "type")
            )
            return describe(meant)
        case "not" if rule == {}:  # the schema that nothing satisfies
            key = path[-1] if path else "a value"
            return path, f"{key}, which has no place here", described or "nothing"
        case _:
            return path, show(instance), described or f"{error.validator} {show(rule)}"


def show(value: Any) -> str:
    """A value as an error shows it: short, on one line, its kind recognisable."""
    match value:
        case None:
            return "nothing"
        case True:
            return "true"
        case False:
            return "false"
        case str():
            return f"text {value!r}" if len(value) <= _SHOWN else f"text {value[:_SHOWN] + '…'!r}"
        case Mapping():
            return f"a mapping of {len(value)} keys"
        case list() | tuple():
            inside = ", ".join(str(item) for item in value)
            plain = all(isinstance(item, str | int | float) for item in value)
            return f"[{inside}]" if plain and len(inside) <= _SHOWN else f"a list of {len(value)}"
        case _:
            return str(value)


def _is_integer(_checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _told(source: YamlFile, error: ValidationError) -> tuple[bool, tuple[int, int], InputError]:
    path, found, allowed = describe(error)
    told = source.error(path, found=found, allowed=allowed)
    return error.validator not in _UNKNOWN_KEY, source.place(*path), told


def _choice(words: Sequence[Any]) -> str:
    return ", ".join(word if isinstance(word, str) else show(word) for word in words)


def _keys(known: Iterable[str], key: str) -> str:
    names = list(known)
    if not names:
        return "no key here"
    close = difflib.get_close_matches(key, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return ", ".join(names) + hint
