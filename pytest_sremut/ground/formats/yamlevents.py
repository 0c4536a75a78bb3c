"""From YAML events to plain values and their places, every bound kept on the way.

Built from events, so that nothing can grow or nest before it is refused: keys are text and stand
once, there are no tags, scalars have one meaning, aliases count as all that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, NoReturn

from yaml import events

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.scalars import AmbiguousScalarError, plain

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "Builder",
    "Document",
    "Place",
    "Step",
    "dotted_path",
    "input_error",
]

MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
"""Values of a file, each alias counted as everything that it stands for."""

Step = str | int
_SHOWN: Final = 60


class Place(NamedTuple):
    """Where a value stands; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def input_error(
    file: PurePosixPath, path: tuple[Step, ...], place: Place, *, found: str, allowed: str
) -> InputError:
    """An `InputError` whose place reads `oracles.O3.use (line 12, column 7)`."""
    dotted = dotted_path(path)
    where = f"{dotted} ({place})" if dotted else str(place)
    return InputError(file=str(file), place=where, found=found, allowed=allowed)


def dotted_path(path: tuple[Step, ...]) -> str:
    """`mutants[0].patch` for ("mutants", 0, "patch")."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            shown = step if step.isprintable() and len(step) <= _SHOWN else repr(step[:_SHOWN])
            text += f".{shown}" if text else shown
    return text


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    path: tuple[Step, ...]
    anchor: str | None
    nodes_before: int
    height: int = 1  # levels from here down, aliases expanded
    key: str | None = None  # of a mapping: the key whose value comes next


class _Anchored(NamedTuple):
    value: Any
    nodes: int
    height: int


class Document(NamedTuple):
    """A finished document, and the places of its values."""

    value: Any
    places: dict[tuple[Step, ...], Place]


@dataclass(slots=True)
class Builder:
    """Turns events into values; keeps every bound, those of size over all documents together."""

    file: PurePosixPath
    several: bool = False  # documents are allowed
    documents: int = 0
    finished: list[Document] = field(default_factory=list)
    root: Any = None
    nodes: int = 0
    open: list[_Open] = field(default_factory=list)
    places: dict[tuple[Step, ...], Place] = field(default_factory=dict)
    anchors: dict[str, _Anchored] = field(default_factory=dict)

    def take(self, event: events.Event) -> None:
        match event:
            case events.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1 and not self.several:
                    self._refuse(event, found="a second document", allowed="one document")
                self.root, self.places, self.anchors = None, {}, {}
            case events.DocumentEndEvent():
                self.finished.append(Document(self.root, self.places))
            case events.ScalarEvent():
                self._scalar(event)
            case events.AliasEvent():
                self._alias(event)
            case events.MappingStartEvent():
                self._begin(event, {})
            case events.SequenceStartEvent():
                self._begin(event, [])
            case events.MappingEndEvent() | events.SequenceEndEvent():
                self._end()
            case _:
                pass  # stream start and end

    # -- events ------------------------------------------------------------------------------

    def _scalar(self, event: events.ScalarEvent) -> None:
        self._no_tag(event)
        value: Any = event.value
        if event.implicit[0]:
            try:
                value = plain(event.value)
            except AmbiguousScalarError as error:
                self._refuse(event, found=error.found, allowed=error.allowed)
        elif not _is_unicode(event.value):
            self._refuse(event, found="half of a surrogate pair", allowed="Unicode text")
        if self._expects_key():
            self._key(event, value)
            return
        self._count(event, 1)
        self._remember(event.anchor, _Anchored(value, 1, 0))
        self._place(event, value)

    def _alias(self, event: events.AliasEvent) -> None:
        if self._expects_key():
            self._refuse(event, found="an alias as a key", allowed="text keys")
        known = self.anchors.get(event.anchor or "")
        if known is None:
            # Also an alias inside its own anchor: a collection is remembered when it ends.
            self._refuse(
                event,
                found=f"alias *{event.anchor} of no finished anchor",
                allowed="an alias of an anchor that stands before it",
            )
        self._count(event, known.nodes)
        self._deepen(event, known.height)
        self._place(event, known.value)

    def _begin(self, event: events.CollectionStartEvent, value: dict[str, Any] | list[Any]) -> None:
        self._no_tag(event)
        if self._expects_key():
            self._refuse(event, found="a collection as a key", allowed="text keys")
        self._deepen(event, 1)
        before = self.nodes
        self._count(event, 1)
        path = self._place(event, value)
        self.open.append(_Open(value, path, event.anchor, before))

    def _end(self) -> None:
        done = self.open.pop()
        nodes = self.nodes - done.nodes_before
        self._remember(done.anchor, _Anchored(done.value, nodes, done.height))

    # -- helpers -----------------------------------------------------------------------------

    def _expects_key(self) -> bool:
        return (
            bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None
        )

    def _key(self, event: events.ScalarEvent, key: Any) -> None:
        around = self.open[-1]
        if not isinstance(key, str):
            shown = "an empty key" if key is None else f"`{event.value}` as a key"
            self._refuse(event, found=shown, allowed="text keys; quote it to make it text")
        if key in around.value:
            self._refuse(
                event,
                found=f"key {_short(key)} a second time",
                allowed="every key once in a mapping",
            )
        around.key = key
        self.places[(*around.path, key)] = _place_of(event)

    def _place(self, event: events.NodeEvent, value: Any) -> tuple[Step, ...]:
        if not self.open:
            self.root = value
            self.places[()] = _place_of(event)
            return ()
        around = self.open[-1]
        step: Step
        if isinstance(around.value, dict):
            assert around.key is not None
            step, around.key = around.key, None
            around.value[step] = value
        else:
            step = len(around.value)
            around.value.append(value)
        path = (*around.path, step)
        self.places[path] = _place_of(event)
        return path

    def _count(self, event: events.Event, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            self._refuse(
                event,
                found=f"more than {MAX_NODES} values, aliases expanded",
                allowed=f"at most {MAX_NODES} values",
            )

    def _deepen(self, event: events.Event, height: int) -> None:
        if len(self.open) + height > MAX_DEPTH:
            self._refuse(
                event,
                found=f"more than {MAX_DEPTH} levels, aliases expanded",
                allowed=f"at most {MAX_DEPTH} levels",
            )
        for below, around in enumerate(reversed(self.open), start=1):
            around.height = max(around.height, below + height)

    def _remember(self, anchor: str | None, anchored: _Anchored) -> None:
        if anchor is not None:
            self.anchors[anchor] = anchored

    def _no_tag(self, event: events.ScalarEvent | events.CollectionStartEvent) -> None:
        if event.tag is not None:
            self._refuse(event, found=f"tag {_short(event.tag)}", allowed="no tags")

    def _refuse(self, event: events.Event, *, found: str, allowed: str) -> NoReturn:
        path = self.open[-1].path if self.open else ()
        if self.open and isinstance(self.open[-1].value, list):
            path = (*path, len(self.open[-1].value))
        elif self.open and self.open[-1].key is not None:
            path = (*path, self.open[-1].key)
        raise input_error(self.file, path, _place_of(event), found=found, allowed=allowed)


def _place_of(event: events.Event) -> Place:
    mark = event.start_mark
    assert mark is not None  # the parser marks every event
    return Place(mark.line + 1, mark.column + 1)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
