"""The census's rules are data with schemas and one digest, so that a verdict can be traced.

`words.yaml` says what names mean, `modules.yaml` which libraries have no effect, `verdicts.yaml`
what follows from an observation and a perturbation. The digest is over the canonical JSON of all
of them, so comments do not change it.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.canonical import canonical_sha256
from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlfile import YamlFile, parse_yaml

__all__ = ["Rules", "check", "shipped_rules"]

_FILES: Final = ("words", "modules", "verdicts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules, and the digest that identifies them."""

    words: Mapping[str, Any]
    modules: Mapping[str, Any]
    verdicts: Mapping[str, Any]
    digest: str
    local_programs: frozenset[str]
    node_programs: frozenset[str]
    shell_words: frozenset[str]
    readers: frozenset[str]
    shows_status: frozenset[str]
    _kinds: Mapping[str, str] = field(repr=False)
    _channels: Mapping[str, str] = field(repr=False)
    _pure: tuple[str, ...] = field(repr=False)
    _methods: Mapping[str, str] = field(repr=False)

    def kind_of_word(self, word: str) -> str:
        """The kind of a kubectl resource word, with or without its group; empty if none."""
        plain = word.partition(".")[0].lower()
        known = self._kinds.get(plain, "")
        # A resource that no rule names is still known: its word is its kind.
        return known or (plain if re.fullmatch(r"[a-z][a-z0-9-]*", plain) else "")

    def kind_of_method(self, rest: str) -> str:
        """The kind in a client method's name (`horizontal_pod_autoscaler`)."""
        known = self._methods.get(rest.replace("_", ""))
        return known or "".join(part[:1].upper() + part[1:] for part in rest.split("_"))

    def channel_of(self, program: str) -> str:
        """The channel that a program uses; empty if no rule names the program."""
        return self._channels.get(program, "")

    def is_pure(self, path: str) -> bool:
        """Whether a call of this external name changes nothing outside the process."""
        return path.startswith(self._pure) or path.partition(".")[0] in self._pure


def check(source: YamlFile, name: str) -> None:
    """Validate a file of this room against its schema. Raises InputError."""
    validate(source, name, package="pytest_sremut.census")


@functools.cache
def shipped_rules() -> Rules:
    """The rules that come with this package."""
    folder = importlib.resources.files("pytest_sremut.census").joinpath("rules")
    texts = {name: folder.joinpath(f"{name}.yaml").read_bytes() for name in _FILES}
    return rules_from(texts)


def rules_from(texts: Mapping[str, bytes]) -> Rules:
    """Rules from the bytes of their files. Raises InputError."""
    values: dict[str, Any] = {}
    for name in _FILES:
        source = parse_yaml(texts[name], PurePosixPath(f"rules/{name}.yaml"))
        check(source, name)
        values[name] = source.value
    words, modules, verdicts = (values[name] for name in _FILES)
    kinds = {word: kind for kind, names in words["kinds"].items() for word in names}
    kinds |= {kind.lower(): kind for kind in words["kinds"]}
    channels = {
        program: channel for channel, names in words["channels"].items() for program in names
    }
    for pattern in [one.get("fields", "") for one in verdicts["effects"]]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(
                file="rules/verdicts.yaml",
                place="effects",
                found=f"{pattern!r}: {error}",
                allowed="a regular expression",
            ) from None
    return Rules(
        words=words,
        modules=modules,
        verdicts=verdicts,
        digest=canonical_sha256(values, what="rules"),
        local_programs=frozenset(words["local"]),
        node_programs=frozenset(words["node_programs"]),
        shell_words=frozenset(words["shell_words"]),
        readers=frozenset(words["readers"]),
        shows_status=frozenset(words["shows_status"]),
        _kinds=kinds,
        _channels=channels,
        _pure=tuple(modules["pure"]),
        _methods={kind.lower(): kind for kind in words["kinds"]},
    )
