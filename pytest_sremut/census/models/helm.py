"""helm command lines: which values of which release they set."""

from __future__ import annotations

from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import Unknown, Value

__all__ = ["helm"]

_WITH_VALUE: Final = frozenset(
    {"-n", "--namespace", "-f", "--values", "--set", "--set-string", "--set-file", "--version"}
    | {"--timeout", "--repo", "--set-json", "--kube-context", "--description"}
)
_READS: Final = frozenset({"list", "status", "get", "show", "template", "lint", "history", "repo"})


def helm(m: Machine, words: list[str]) -> Value:
    """Record a helm command. A release's values are its fields."""
    flags: dict[str, list[str]] = {}
    rest: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        name, has_value, value = word.partition("=")
        if word.startswith("-"):
            if name in _WITH_VALUE and not has_value:
                index += 1
                value = words[index] if index < len(words) else ""
            flags.setdefault(name, []).append(value)
        else:
            rest.append(word)
        index += 1
    verb, release = ([*rest, "", ""])[:2]
    namespace = next(iter(flags.get("-n", []) + flags.get("--namespace", [])), "")
    fields = sorted(
        part.partition("=")[0]
        for key in ("--set", "--set-string", "--set-file", "--set-json")
        for given in flags.get(key, [])
        for part in given.split(",")
        if "=" in part
    )
    if verb in _READS or verb in {"", "dependency", "version", "plugin"}:
        if verb in {"list", "status", "get"}:
            m.effect("read", "HelmRelease", namespace=namespace, name=release, via="helm")
    elif verb in {"upgrade", "install", "rollback"}:
        values = tuple(f"values.{field}" for field in fields) or ("*",)
        m.effect(
            "update" if verb != "install" else "create",
            "HelmRelease",
            namespace=namespace,
            name=release,
            fields=values,
            via="helm",
            detail=" ".join(words)[:160],
        )
    elif verb in {"uninstall", "delete"}:
        m.effect("delete", "HelmRelease", namespace=namespace, name=release, via="helm")
    return Unknown("output")
