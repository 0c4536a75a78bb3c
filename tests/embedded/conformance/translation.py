"""How what the recorded cluster handed out is called in ours.

Rules kept here:

* values are paired place by place in answers to the same request, and only where both stand for the
  same thing (`rules.Side`);
* a pairing is never changed: a later answer pairs objects by what is already known of them;
* an address that was never handed out is moved into our networks, so that it is nobody's there too.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .rules import UNORDERED, Side, dumped

Json = Any

_PAIRED = frozenset(
    ("uid", "name", "clusterIP", "clusterIPs", "ip", "podIP", "addresses", "hostname")
)
_VERSION = re.compile(r"(resourceVersion=)(\d+)")
_CONTINUE = re.compile(r"(continue=)([A-Za-z0-9_=-]+)")
_PODS = re.compile(r"\b10\.42\.(\d{1,3}\.\d{1,3})\b")
_OUTSIDE = re.compile(r"\b10\.99\.")  # outside of the recorded cluster's networks, inside ours
_SERVICES = re.compile(r"\b10\.43\.(\d{1,3}\.\d{1,3})\b")
# Versions between these were handed out by the recorded cluster; others are made up on purpose.
_HANDED_OUT = range(3, 1_000_000)


class Translator:
    """Recorded values to ours."""

    def __init__(self, recorded: Side, ours: Side) -> None:
        self._sides = (recorded, ours)
        self._values: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self.latest = "0"

    def learn(self, recorded: Json, ours: Json, key: str = "") -> None:
        """Pair two answers to the same request."""
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for name in recorded.keys() & ours.keys():
                if name != "managedFields":
                    self.learn(recorded[name], ours[name], name)
        elif isinstance(recorded, list) and isinstance(ours, list):
            for left, right in self._pairs(recorded, ours, key):
                self.learn(left, right, key)
        elif isinstance(recorded, str) and isinstance(ours, str):
            self._value(recorded, ours, key)

    def _pairs(self, recorded: list[Json], ours: list[Json], key: str) -> list[tuple[Json, Json]]:
        if key not in UNORDERED:
            return list(zip(recorded, ours, strict=False))
        left = sorted(recorded, key=lambda item: dumped(self._sides[0].canonical(item)))
        right = sorted(ours, key=lambda item: dumped(self._sides[1].canonical(item)))
        pairs = []
        for item in list(left):
            translated = self._identity(self.body(item))
            same = [other for other in right if translated and self._identity(other) == translated]
            if same:
                pairs.append((item, same[0]))
                left.remove(item)
                right.remove(same[0])
        return pairs + list(zip(left, right, strict=False))

    @staticmethod
    def _identity(item: Json) -> str:
        if not isinstance(item, dict):
            return ""
        for holder in (item.get("metadata"), item.get("targetRef")):
            if isinstance(holder, dict) and isinstance(holder.get("uid"), str):
                return str(holder["uid"])
        return ""

    def _value(self, recorded: str, ours: str, key: str) -> None:
        if key == "resourceVersion":
            self._versions.setdefault(recorded, ours)
            if ours.isdigit() and int(ours) > int(self.latest):
                self.latest = ours
        elif key == "continue":
            self._tokens.setdefault(recorded, ours)
        elif key in _PAIRED and recorded != ours and len(recorded) > 4:
            sides = self._sides
            if recorded not in self._values and sides[0].text(recorded) == sides[1].text(ours):
                self._values[recorded] = ours
                self._pattern = None

    def version(self, recorded: str) -> str:
        """Our resource version for a recorded one."""
        if recorded not in self._versions:
            if not (recorded.isdigit() and int(recorded) in _HANDED_OUT):
                return recorded
            self._versions[recorded] = self.latest
        return self._versions[recorded]

    def pair(self, recorded: str, ours: str, called: str = "") -> None:
        """Say how a value that no answer shows is called in ours, and what it stands for."""
        if called:
            self._sides[1].know(ours, called)
        self._values.setdefault(recorded, ours)
        self._pattern = None
        self._sides[0].know(recorded, self._sides[1].text(ours))

    def knows(self, recorded: str) -> bool:
        """Whether a recorded name has its counterpart already."""
        return recorded in self._values

    def text(self, value: str) -> str:
        """A recorded text as it must be sent to ours."""
        if self._values:
            if self._pattern is None:
                longest = sorted(self._values, key=len, reverse=True)
                words = "|".join(map(re.escape, longest))
                self._pattern = re.compile(rf"(?<![\w.])(?:{words})(?!\w)(?!\.\d)")
            value = self._pattern.sub(lambda match: self._values[match[0]], value)
        value = _SERVICES.sub(r"10.96.\1", _PODS.sub(r"10.244.\1", value))
        return _OUTSIDE.sub("10.200.", value)

    def path(self, value: str) -> str:
        """A recorded path and query as it must be sent to ours."""
        value = _VERSION.sub(lambda match: match[1] + self.version(match[2]), self.text(value))
        return _CONTINUE.sub(lambda match: match[1] + self._tokens.get(match[2], match[2]), value)

    def body(self, value: Json, key: str = "") -> Json:
        """A recorded body as it must be sent to ours."""
        if isinstance(value, dict):
            return {name: self.body(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.body(item, key) for item in value]
        if not isinstance(value, str):
            return value
        return self.version(value) if key == "resourceVersion" else self.text(value)

    def raw(self, value: Json) -> bytes | None:
        """A recorded body as bytes: text as it is, anything else as JSON."""
        if value is None:
            return None
        if isinstance(value, str):
            return self.text(value).encode()
        return json.dumps(self.body(value)).encode()
