"""What `capture_baseline()` changed, carried from one process to the next.

Every reading runs in a fresh process, so what an oracle noted about the healthy state must be
carried. An oracle's state is every attribute of the objects of the benchmark's own classes that
can be reached from it, the problem and what that holds left out; what is carried is the difference
that capturing made. What JSON says exactly is carried as JSON and so can be read in the record; the
rest is pickled.
Pickles are made and opened in the benchmark's processes only, never in ours.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.oracle_port import json_ready

__all__ = ["difference", "reachable", "restore", "snapshot"]

Attributes = dict[str, tuple[Any, bytes | None]]
Snapshot = dict[str, Attributes]

_DEEPEST: Final = 12


def reachable(root: Any, ours: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Objects that satisfy `ours`, by their path (a JSON list) from the root, each once.

    Breadth first through attributes, values of mappings and items of lists and tuples.
    """
    seen: set[int] = set()
    level: list[tuple[list[Any], Any]] = [([], root)]
    for _ in range(_DEEPEST):
        following: list[tuple[list[Any], Any]] = []
        for path, value in level:
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Mapping):
                following += [([*path, key], item) for key, item in value.items() if _named(key)]
            elif isinstance(value, list | tuple):
                following += [([*path, index], item) for index, item in enumerate(value)]
            elif hasattr(value, "__dict__") and ours(value):
                yield json.dumps(path), value
                following += [([*path, name], item) for name, item in vars(value).items()]
        level = following


def snapshot(root: Any, ours: Callable[[Any], bool]) -> Snapshot:
    """The state now; pickled as well, so that a change in place shows."""
    return {
        path: {name: (item, _pickled(item)) for name, item in vars(value).items()}
        for path, value in reachable(root, ours)
    }


def difference(
    before: Snapshot, root: Any, ours: Callable[[Any], bool]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Attributes that are new or other than before: path -> name -> `{"json"|"pickle": ...}`.

    Raises:
        HarnessError: One of them can be neither said in JSON nor pickled.
    """
    changed: dict[str, dict[str, dict[str, Any]]] = {}
    for path, value in reachable(root, ours):
        known = before.get(path, {})
        for name, item in vars(value).items():
            same = name in known and known[name][0] is item
            # What changed inside an object of the benchmark's is carried under its own path.
            if same and (known[name][1] == _pickled(item) or _holds(item, ours)):
                continue
            changed.setdefault(path, {})[name] = _carried(f"{type(value).__name__}.{name}", item)
    return changed


def restore(
    state: Mapping[str, Mapping[str, Mapping[str, Any]]], root: Any, ours: Callable[[Any], bool]
) -> None:
    """Put carried attributes onto a new oracle. Raises HarnessError where it is built otherwise."""
    for path, attributes in state.items():
        objects = dict(reachable(root, ours))  # anew: a parent's attribute may just have come
        if path not in objects:
            raise HarnessError(f"what was captured belongs to {path}, which this oracle lacks")
        for name, carried in attributes.items():
            setattr(objects[path], name, _opened(carried))


def _holds(value: Any, ours: Callable[[Any], bool]) -> bool:
    """Whether it is one of the benchmark's objects, or a collection with one in it."""
    return next(reachable(value, ours), None) is not None


def _named(key: Any) -> bool:
    return isinstance(key, str | int)


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # a foreign object may raise anything: then only its identity is compared
        return None


def _carried(what: str, value: Any) -> dict[str, Any]:
    plain = json_ready(value)
    if _exact(value, plain):
        return {"json": plain}
    pickled = _pickled(value)
    if pickled is None:
        raise HarnessError(
            f"capture_baseline() left {what}, {_article(value)} that cannot be carried to the "
            "process of a reading"
        )
    return {"pickle": base64.b64encode(pickled).decode("ascii")}


def _opened(carried: Mapping[str, Any]) -> Any:
    if "json" in carried:
        return carried["json"]
    return pickle.loads(base64.b64decode(carried["pickle"]))  # noqa: S301 - made by this benchmark


def _exact(value: Any, plain: Any) -> bool:
    """Whether JSON gives back the same: `json_ready` puts a `$repr` where it does not."""
    if type(value) is not type(plain):
        return False
    if type(value) is dict:
        return value.keys() == plain.keys() and all(_exact(value[k], plain[k]) for k in value)
    if type(value) is list:
        return len(value) == len(plain) and all(map(_exact, value, plain))
    return bool(value == plain)


def _article(value: Any) -> str:
    return f"an object of {type(value).__name__}"
