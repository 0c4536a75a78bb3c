"""Executables that stand for kind, container engines and kubectl, and do what a test says."""

from __future__ import annotations

import ast
import os
import stat
import sys
from pathlib import Path
from typing import Any

__all__ = ["PIN", "Fakes"]

PIN = "kind v0.33.0 go1.26.1 linux/amd64"
_TOOL = Path(__file__).with_name("fake_tool.py")


class Fakes:
    """A directory of executables with a world of their own, and the environment to run them in."""

    def __init__(self, directory: Path, *tools: str, cache: Path | None = None) -> None:
        self.directory = directory
        self.cache = cache or directory / "cache"
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        self._write(
            {
                "rules": [],
                "clusters": {},
                "images": {},
                "built": [],
                "count": 0,
                "api": "1.51 1.51",
                "kind_version": PIN,
                "write_kubeconfig": True,
                "create": [],
                "delete": [],
            }
        )
        for tool in tools or ("kind", "docker", "kubectl"):
            self.install(tool)

    def install(self, tool: str) -> Path:
        """Put one executable on PATH."""
        path = self.bin / tool
        # -S -E: quickly, and untouched by the test's own environment.
        arguments = f'"{sys.executable}" -S -E "{_TOOL}" "{self.directory}" "{path}"'
        path.write_text(f'#!/bin/sh\nexec {arguments} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @property
    def environ(self) -> dict[str, str]:
        """PATH, and everything that is ours in this directory."""
        return {
            "PATH": str(self.bin),
            "HOME": str(self.directory / "home"),
            "XDG_STATE_HOME": str(self.directory / "state"),
            "XDG_CACHE_HOME": str(self.cache),
        }

    @property
    def state(self) -> dict[str, Any]:
        """What the executables know."""
        found: dict[str, Any] = ast.literal_eval((self.directory / "facts").read_text())
        return found

    def change(self, **fields: Any) -> None:
        """Let the world be otherwise."""
        self._write({**self.state, **fields})

    def rule(self, match: str, *, times: int = 1000, **behaviour: Any) -> None:
        """Let calls that hold all these words behave: `code`, `stdout`, `stderr`, `hang`,
        `stubborn`, `leave_child`; `effect` does what the call asks for as well."""
        self.change(rules=[*self.state["rules"], {"match": match, "times": times, **behaviour}])

    def heal(self) -> None:
        """Forget every rule."""
        self.change(rules=[])

    def calls(self, *words: str) -> list[list[str]]:
        """Every call so far that holds these words."""
        return [call["argv"] for call in self.all_calls() if set(words) <= set(call["argv"])]

    def all_calls(self) -> list[dict[str, Any]]:
        """Every call so far with what it was told by the environment."""
        try:
            lines = (self.directory / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [ast.literal_eval(line) for line in lines]

    def clusters(self) -> list[str]:
        """The clusters that there are."""
        return sorted(self.state["clusters"])

    def _write(self, state: dict[str, Any]) -> None:
        temporary = self.directory / f"facts.{os.getpid()}"
        temporary.write_text(repr(state))
        temporary.replace(self.directory / "facts")
