"""The parts of a kubectl command line, and the objects that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import HOLE, Value
from pytest_sremut.census.model import Reason

__all__ = ["Given", "is_setting", "kind_of", "split", "targets"]


_WITH_VALUE: Final = frozenset(
    {"-n", "--namespace", "-o", "--output", "-l", "--selector", "-f", "--filename", "-c"}
    | {"--container", "--type", "-p", "--patch", "--replicas", "--timeout", "--context"}
    | {"--kubeconfig", "--for", "--sort-by", "--field-selector", "--image", "--restart"}
    | {"--overrides", "--tail", "--since", "--grace-period", "--raw", "--as", "--labels"}
    | {"--requests", "--limits", "--patch-file", "--from-literal", "--from-file", "-s", "--server"}
    | {"--request-timeout", "--port", "--target-port", "--name", "--pod-running-timeout", "-k"}
    | {"--resource-version", "--cascade", "--dry-run", "--chunk-size", "--cpu-percent", "--min"}
    | {"--max", "--env", "--subresource", "--min-ready-seconds", "--token", "--revision"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The parts of a command line."""

    verb: str
    rest: list[str]
    flags: dict[str, list[str]]
    inner: list[str]  # after `--`
    namespace: str
    stdin: Value
    raw: str

    def flag(self, *names: str) -> str | None:
        """The last value of the first of these flags that is given."""
        for name in names:
            if self.flags.get(name):
                return self.flags[name][-1]
        return None


def split(words: list[str], stdin: Value) -> Given:
    """The parts of the words after `kubectl`."""
    flags: dict[str, list[str]] = {}
    rest: list[str] = []
    inner: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            inner = words[index + 1 :]
            break
        if word.startswith("-") and len(word) > 1:
            name, has_value, value = word.partition("=")
            if not has_value and re.fullmatch(r"-[nolfcp].+", word) and not word.startswith("--"):
                name, value = word[:2], word[2:]  # -oyaml, -nkube-system
            elif not has_value and name in _WITH_VALUE:
                index += 1
                value = words[index] if index < len(words) else ""
            flags.setdefault(name, []).append(value)
        else:
            rest.append(word)
        index += 1
    namespace = next(iter(flags.get("-n", []) + flags.get("--namespace", [])), "")
    if "-A" in flags or "--all-namespaces" in flags:
        namespace = "*"
    verb = rest[0] if rest else ""
    return Given(
        verb=verb,
        rest=rest[1:],
        flags=flags,
        inner=inner,
        namespace=namespace,
        stdin=stdin,
        raw=" ".join(words)[:140],
    )


def targets(m: Machine, given: Given, rest: list[str]) -> list[tuple[str, str]]:
    """(kind, name) of `deploy/x svc/y`, `deploy x y`, `pods,svc`."""
    found: list[tuple[str, str]] = []
    if rest and "/" in rest[0] and not HOLE.fullmatch(rest[0]):
        for word in rest:
            word_kind, slash, name = word.partition("/")
            if slash:
                found.append((kind_of(m, word_kind, given), name))
        return found
    if rest:
        for word in rest[0].split(","):
            names = rest[1:] or [""]
            found += [(kind_of(m, word, given), name) for name in names]
    return found


def kind_of(m: Machine, word: str, given: Given) -> str:
    """The kind of a resource word. If it is not known, `?`, and a trail ends here."""
    kind = m.rules.kind_of_word(word)
    if kind:
        return kind
    m.trail(Reason.OPAQUE_COMMAND, f"kubectl {given.raw}: kind {word!r}")
    return "?"


def is_setting(word: str) -> bool:
    """Whether a word is `key=value` or `key-`."""
    return "=" in word or (word.endswith("-") and len(word) > 1)
