"""The checkout that the user named: is it the one that the study pins, and is it untouched?

Read only: nothing is imported from it here, and git is asked in a way that writes nothing. Every
difference is told with the file, what was found and what was pinned.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles.benchmark.layout import Layout
from pytest_sremut.study.code import imported_names, with_parents
from pytest_sremut.study.model import BenchmarkPins, OracleSpec, Study
from pytest_sremut.study.names import Instrument

__all__ = ["Checkout"]

_PATIENCE: Final = 60.0
_SHOWN: Final = 5
_CLASS: Final = re.compile(r"^class[ \t]+(\w+)", re.MULTILINE)


class Checkout:
    """A benchmark's directory, read by the seams of its layout.

    Args:
        directory: Its root.
        layout: Where things lie in it.

    Raises:
        UsageError: There is no such directory, or it has none of the oracle directories.
    """

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory.resolve()
        self.layout = layout
        if not self.directory.is_dir():
            raise UsageError(f"--sremut-benchmark: there is no directory {directory}")
        for folder in layout.oracles:
            if not (self.directory / folder).is_dir():
                raise UsageError(
                    f"--sremut-benchmark: {directory} is no checkout of {layout.name}: it has no "
                    f"{folder}"
                )
        self._classes: Mapping[str, list[str]] | None = None

    # -- is it the pinned one? ----------------------------------------------------------------

    def differences(self, pins: BenchmarkPins, oracles: Iterable[OracleSpec]) -> list[str]:
        """Everything in which it is not what was pinned, a sentence each; empty when it is.

        Commit, work tree, every pinned file, and that every oracle module which the oracles load
        is pinned at all.
        """
        problems: list[str] = []
        commit = self._git("rev-parse", "--verify", "HEAD")
        if commit.stderr or commit.stdout.strip() != pins.commit:
            found = commit.stdout.strip() or commit.stderr.strip() or "none"
            problems.append(f"{self.directory}: commit: found {found}; pinned: {pins.commit}")
        problems += self.dirt()
        for file, pinned in sorted(pins.files.items()):
            found = self.digest(file)
            if found != pinned:
                problems.append(
                    f"{self.directory / file}: SHA-256: found {found or 'no such file'}; "
                    f"pinned: {pinned}"
                )
        try:
            loaded = self.oracle_files(oracles)
        except UsageError as error:
            return [*problems, str(error)]
        problems += [
            f"{self.directory / file}: SHA-256: found {self.digest(file)}; pinned: nothing "
            "(an oracle of the study loads it)"
            for file in loaded
            if file not in pins.files
        ]
        return problems

    def dirt(self) -> list[str]:
        """What git calls changed, added or untracked, one line; empty when it is clean."""
        status = self._git("status", "--porcelain=v1", "--untracked-files=all")
        lines = [line for line in status.stdout.splitlines() if line]
        if status.returncode or status.stderr:
            return [f"{self.directory}: not a git checkout: {status.stderr.strip()}"]
        if not lines:
            return []
        shown = ", ".join(line.strip() for line in lines[:_SHOWN])
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        return [f"{self.directory}: work tree: found {shown}{more}; allowed: a clean work tree"]

    def written_since(self, moment: float) -> list[str]:
        """Files that git ignores and that were written beside tracked ones, one line.

        A `__pycache__` beside an oracle is no part of the work tree, and yet would be read by the
        next process that imports it. What lies in directories of its own, such as a virtual
        environment, is not looked at.

        Args:
            moment: Seconds since the epoch.
        """
        tracked = self._git("ls-files", "-z")
        ignored = self._git("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
        if tracked.returncode or ignored.returncode:
            return [f"{self.directory}: not a git checkout: {tracked.stderr or ignored.stderr}"]
        folders = {Path(name).parent for name in tracked.stdout.split("\0") if name}
        found = [
            name
            for name in filter(None, ignored.stdout.split("\0"))
            if _beside(Path(name), folders) and self._changed(name) >= moment
        ]
        if not found:
            return []
        shown = ", ".join(found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return [f"{self.directory}: found {shown}{more}, written meanwhile; allowed: nothing new"]

    def _changed(self, file: str) -> float:
        """When the file's content or name last changed; long ago where it is gone again."""
        try:
            return (self.directory / file).lstat().st_ctime
        except OSError:
            return 0.0

    def digest(self, file: str) -> str:
        """SHA-256 of a file of it; empty where there is none."""
        try:
            return hashlib.sha256((self.directory / file).read_bytes()).hexdigest()
        except OSError:
            return ""

    def copy_to(self, directory: Path) -> None:
        """Copy what git tracks, submodules included, into a new directory.

        Raises:
            HarnessError: Git does not say what that is, or a file of it cannot be copied.
        """
        listing = self._git("ls-files", "-z", "--cached", "--recurse-submodules")
        names = [name for name in listing.stdout.split("\0") if name]
        if listing.returncode or not names:
            raise HarnessError(f"{self.directory}: cannot be copied: {listing.stderr.strip()}")
        try:
            for name in names:
                source, copy = self.directory / name, directory / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir() and not source.is_symlink():
                    copy.mkdir(exist_ok=True)  # a submodule that was not checked out
                else:
                    shutil.copy2(source, copy, follow_symlinks=False)
        except OSError as error:
            raise HarnessError(f"{self.directory}: cannot be copied: {error}") from error

    # -- what stands in it --------------------------------------------------------------------

    def place(self, use: str) -> str:
        """`module:Class` behind a `use`. Raises UsageError for none and for several."""
        prefix, _, rest = use.partition(":")
        if prefix == "python":
            return rest
        known = self._known_classes()
        modules = known.get(rest, [])
        if not modules:
            near = difflib.get_close_matches(rest, known, n=3)
            hint = f"; did you mean {', '.join(near)}" if near else ""
            raise UsageError(
                f"{use}: no class {rest} in {', '.join(self.layout.oracles)} of "
                f"{self.directory}{hint}"
            )
        if len(modules) > 1:
            raise UsageError(
                f"{use}: class {rest} stands in {', '.join(modules)}; say which with "
                f"python:{modules[0]}:{rest}"
            )
        return f"{modules[0]}:{rest}"

    def oracle_files(self, oracles: Iterable[OracleSpec]) -> list[str]:
        """Files of the oracle directories that the oracles load, imports followed, sorted.

        Raises:
            UsageError: A class does not exist, or a module cannot be parsed.
        """
        waiting = [self.place(spec.use).partition(":")[0] for spec in oracles]
        found: set[str] = set()
        while waiting:
            module = waiting.pop()
            for part in with_parents(module):
                file = self._file(part)
                if file and file not in found and self._is_oracle_file(file):
                    found.add(file)
                    waiting += self._imported(part, file)
        return sorted(found)

    @staticmethod
    def graded(study: Study) -> list[OracleSpec]:
        """The study's oracles that are a benchmark's classes."""
        return [
            spec
            for spec in study.oracles
            if any(Instrument(name).of_benchmark for name in spec.instruments)
        ]

    def _known_classes(self) -> Mapping[str, list[str]]:
        if self._classes is None:
            classes: dict[str, list[str]] = {}
            for folder in self.layout.oracles:
                for path in sorted((self.directory / folder).rglob("*.py")):
                    module = self._module(path)
                    for name in _CLASS.findall(path.read_text(encoding="utf-8", errors="replace")):
                        classes.setdefault(name, []).append(module)
            self._classes = classes
        return self._classes

    def _module(self, path: Path) -> str:
        roots = [(self.directory / entry).resolve() for entry in self.layout.path]
        root = next(root for root in roots if path.is_relative_to(root))
        parts = path.relative_to(root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _file(self, module: str) -> str:
        """The checkout's file of a module; empty where it has none."""
        relative = Path(*module.split("."))
        for entry in self.layout.path:
            for name in (relative.with_suffix(".py"), relative / "__init__.py"):
                path = (self.directory / entry / name).resolve()
                if path.is_file() and path.is_relative_to(self.directory):
                    return path.relative_to(self.directory).as_posix()
        return ""

    def _is_oracle_file(self, file: str) -> bool:
        return any(Path(file).is_relative_to(folder) for folder in self.layout.oracles)

    def _imported(self, module: str, file: str) -> Iterator[str]:
        """Names of modules that a module's source imports anywhere; more than exist."""
        try:
            tree = ast.parse((self.directory / file).read_bytes(), filename=file)
        except (SyntaxError, ValueError) as error:
            raise UsageError(f"{self.directory / file}: cannot be parsed: {error}") from error
        package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]
        yield from imported_names(tree, package)

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            "git",
            "--no-optional-locks",
            "-c",
            f"safe.directory={self.directory}",
            "-c",
            "core.fsmonitor=false",
            "-C",
            str(self.directory),
            *arguments,
        ]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_PATIENCE,
                errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 127, "", f"git cannot be run: {error}")


def _beside(file: Path, folders: Collection[Path]) -> bool:
    """Whether it lies in one of the directories, or in a bytecode cache of one."""
    parent = file.parent
    return (parent.parent if parent.name == "__pycache__" else parent) in folders
