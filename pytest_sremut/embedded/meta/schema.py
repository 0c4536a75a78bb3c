"""Types of API objects: reading bodies strictly, merging lists by key, telling the OpenAPI.

Rules kept here:

* ``types.txt`` is the only place that names fields; everything that needs a type asks here;
* `conform` makes of any JSON value what a real API server would have decoded: unknown fields
  dropped and listed, ``null`` and empty values left out where the real encoder leaves them out,
  quantities in canonical form, a value of the wrong JSON type refused in the words of Go's decoder.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time
from pytest_sremut.embedded.meta.quantity import canonical

__all__ = ["Conformed", "Field", "MismatchError", "Type", "conform", "type_of", "types"]

_LIMITS = {"int32": 2**31, "int64": 2**63}


class MismatchError(Exception):
    """A value has the wrong JSON type; the text is what Go's decoder says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a type.

    Attributes:
        name: name in JSON.
        shape: containers from the outside in: ``list`` and ``map``.
        base: name of a type, or of a scalar (``string``, ``int32``, ``int64``, ``number``,
            ``bool``, ``bytes``, ``time``, ``microtime``, ``quantity``, ``intstr``, ``any``).
        omit: left out when empty.
        always: ``null`` when left out.
        atomic: replaced as a whole by server-side apply.
        keys: keys that identify the items of a list of objects.
        unique: the list is a set.
    """

    name: str
    shape: tuple[str, ...]
    base: str
    omit: bool = False
    always: bool = False
    atomic: bool = False
    keys: tuple[str, ...] = ()
    unique: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A named type and its fields by name."""

    name: str
    fields: dict[str, Field]


@dataclass(slots=True)
class Conformed:
    """What `conform` found.

    Attributes:
        value: the decoded object.
        unknown: paths of the fields that were dropped, ``spec.ports[0].nope``.
    """

    value: JsonObject
    unknown: list[str] = field(default_factory=list)


@cache
def types() -> dict[str, Type]:
    """Every type by name."""
    text = resources.files(__package__).joinpath("types.txt").read_text(encoding="utf-8")
    found: dict[str, Type] = {}
    current: dict[str, Field] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        if not line.startswith(" "):
            current = {}
            found[words[0]] = Type(name=words[0], fields=current)
            words = words[1:]
        for word in words:
            item = _field(word)
            current[item.name] = item
    return found


_TYPE_NAMES = {("events.k8s.io/v1", "Event"): "EventsEvent"}


def type_of(api_version: str, kind: str) -> Type:
    """The type of objects of `kind`."""
    return types()[_TYPE_NAMES.get((api_version, kind), kind)]


def conform(root: Type, value: Any) -> Conformed:
    """Decode `value` as an object of type `root`.

    Raises:
        MismatchError: something in it has the wrong JSON type.
    """
    if not isinstance(value, dict):
        raise MismatchError(
            f"json: cannot unmarshal {_json_name(value)} into Go value of type v1.{root.name}"
        )
    result = Conformed({})
    result.value = _struct(root, value, "", "", result.unknown)
    return result


def _field(word: str) -> Field:
    name, _, kind = word.partition(":")
    kind, at, keys = kind.partition("@")
    shape = []
    while kind[:2] in ("[]", "{}"):
        shape.append("list" if kind[:2] == "[]" else "map")
        kind = kind[2:]
    return Field(
        name=name.rstrip("?*"),
        shape=tuple(shape),
        base=kind.rstrip("!"),
        omit=name.endswith("?"),
        always=name.endswith("*"),
        atomic=kind.endswith("!"),
        keys=tuple(keys.split(",")) if at and keys != "=" else (),
        unique=keys == "=",
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is: `path` counts list items (unknown fields), `plain` does not (Go)."""

    owner: Type
    item: Field
    path: str
    plain: str


def _struct(
    type_: Type, value: JsonObject, path: str, plain: str, unknown: list[str]
) -> JsonObject:
    result: JsonObject = {}
    for name, item in value.items():
        known = type_.fields.get(name)
        where = f"{path}.{name}" if path else name
        if known is None:
            unknown.append(where)
            continue
        if item is None:
            continue
        place = _Place(type_, known, where, f"{plain}.{name}" if plain else name)
        decoded = _value(place, known.shape, item, unknown)
        if decoded or not known.omit:
            result[name] = decoded
    for known in type_.fields.values():
        if known.always and known.name not in result:
            result[known.name] = None
    return result


def _value(place: _Place, shape: tuple[str, ...], value: Any, unknown: list[str]) -> Any:
    base = place.item.base
    if shape[:1] == ("list",):
        if not isinstance(value, list):
            raise _mismatch(place, shape, value)
        return [
            _value(replace(place, path=f"{place.path}[{index}]"), shape[1:], part, unknown)
            for index, part in enumerate(value)
            if part is not None or base == "any"
        ]
    if shape[:1] == ("map",):
        if not isinstance(value, dict):
            raise _mismatch(place, shape, value)
        return {
            key: _value(replace(place, path=f"{place.path}.{key}"), shape[1:], part, unknown)
            for key, part in value.items()
            if part is not None
        }
    nested = types().get(base)
    if nested is None:
        return _scalar(place, value)
    if not isinstance(value, dict):
        raise _mismatch(place, shape, value)
    return _struct(nested, value, place.path, place.plain, unknown)


def _scalar(place: _Place, value: Any) -> Any:
    base = place.item.base
    if base == "any":
        return value
    if base == "string":
        good = isinstance(value, str)
    elif base == "bool":
        good = isinstance(value, bool)
    elif base in _LIMITS:
        limit = _LIMITS[base]
        good = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    elif base == "number":
        good = isinstance(value, int | float) and not isinstance(value, bool)
    elif base == "intstr":
        good = isinstance(value, str) or (
            isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
        )
    elif base == "quantity":
        return _quantity(value)
    else:
        good = isinstance(value, str)
        if good:
            _check_text(base, value)
    if not good:
        raise _mismatch(place, (), value)
    return value


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise MismatchError(f"json: cannot unmarshal {_json_name(value)} into a quantity")
    try:
        return canonical(str(value))
    except ValueError as error:
        raise MismatchError(str(error)) from None


def _check_text(base: str, value: str) -> None:
    if base in ("time", "microtime"):
        try:
            parse_time(value)
        except ValueError:
            layout = "2006-01-02T15:04:05Z07:00"
            raise MismatchError(
                f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'
            ) from None
    elif base == "bytes":
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            raise MismatchError("illegal base64 data at input byte 0") from None


def _mismatch(place: _Place, shape: tuple[str, ...], value: Any) -> MismatchError:
    return MismatchError(
        f"json: cannot unmarshal {_json_name(value)} into Go struct field "
        f"{place.owner.name}.{place.plain} of type {_go_type(place.item, shape)}"
    )


def _go_type(item: Field, shape: tuple[str, ...]) -> str:
    prefix = "".join("[]" if part == "list" else "map[string]" for part in shape)
    base = {"number": "float64", "bytes": "[]uint8", "intstr": "int32"}.get(item.base, item.base)
    return prefix + (f"v1.{base}" if item.base in types() else base)


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number" if isinstance(value, int) and abs(value) < 2**31 else f"number {value}"
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names[type(value)]
