"""What git knows of the project, asked by argv lists.

Rules: nothing is written, no hook and no configured program runs, replace refs are not followed,
and the environment cannot point git at another repository. Paths are relative to the project's
root, which may lie below the top of the checkout.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_sremut.attestation.errors import CheckoutError
from pytest_sremut.evidence.identity import product_digest_of
from pytest_sremut.ground.formats.canonical import sha256

__all__ = ["Checkout", "open_checkout", "product_at"]

_PACKAGE = "pytest_sremut"
_TIMEOUT = 60.0  # seconds for one question to git
_SAFE = (
    "--no-replace-objects",
    "--literal-pathspecs",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.quotePath=false",
)  # fmt: skip


def open_checkout(root: Path) -> Checkout:
    """The git checkout that `root` lies in.

    Raises:
        CheckoutError: There is none, git is not installed, or git refuses to read it.
    """
    checkout = Checkout(root=root)
    if checkout._run("rev-parse", "--is-inside-work-tree").strip() != b"true":
        raise CheckoutError(f"{root} is not in a git work tree")
    return checkout


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """One entry of a commit's tree."""

    path: bytes
    mode: bytes
    is_file: bool  # False: a submodule
    content: str  # SHA-256 of its bytes; `commit:ID` of a submodule


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A work tree. Every method may raise CheckoutError."""

    root: Path

    def head(self) -> str:
        """The full id of the commit that is checked out."""
        return self._run("rev-parse", "--verify", "HEAD^{commit}").decode().strip()

    def has_commit(self, commit: str) -> bool:
        """Whether the commit is in this clone."""
        return self._asks("cat-file", "-e", f"{commit}^{{commit}}")

    def is_ancestor(self, commit: str) -> bool:
        """Whether `commit` is HEAD or an ancestor of it."""
        return self._asks("merge-base", "--is-ancestor", commit, "HEAD")

    def tracks(self, path: str) -> bool:
        """Whether git tracks the file."""
        return self._asks("ls-files", "--error-unmatch", "--", path)

    def changed_since(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Files below `paths` that are not as in `commit`: edited, added, removed, untracked."""
        if not paths:
            return ()
        differing = self._names(
            "diff", "--name-only", "--no-ext-diff", "--no-textconv", "--no-renames",
            "--ignore-submodules=none", "--relative", "-z", commit, "--", *paths,
        )  # fmt: skip
        untracked = self._names("ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
        return tuple(sorted({*differing, *untracked}))

    def content_digest(self, commit: str, paths: Sequence[str]) -> str:
        """SHA-256 over the path, mode and SHA-256 of every file below `paths` at `commit`."""
        lines = [
            b" ".join((one.mode, one.content.encode(), one.path))
            for one in self._objects(commit, paths)
        ]
        return sha256(b"\0".join(sorted(lines)))

    def altered(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Files below `paths` whose bytes are not those of `commit`'s objects.

        The index is not asked: a file that git was told not to look at is looked at, and no filter
        stands between. So a file that git converts (line endings) differs, too.
        """
        return tuple(
            sorted(
                os.fsdecode(one.path)
                for one in self._objects(commit, paths)
                if one.is_file and self._bytes_of(one) != one.content
            )
        )

    def digests(self, commit: str, path: str) -> dict[str, str]:
        """SHA-256 of every file below `path` at `commit`, from git's objects, by its path in it."""
        prefix = os.fsencode(path.rstrip("/") + "/")
        return {
            os.fsdecode(one.path.removeprefix(prefix)): one.content
            for one in self._objects(commit, [path])
            if one.is_file and one.path.startswith(prefix)
        }

    def _bytes_of(self, one: _Object) -> str:
        """SHA-256 of what lies in the work tree in the place of an object; empty for nothing."""
        place = self.root / os.fsdecode(one.path)
        try:
            if one.mode == b"120000":
                return sha256(os.fsencode(place.readlink()))
            return sha256(place.read_bytes()) if not place.is_symlink() else ""
        except OSError:
            return ""

    def _objects(self, commit: str, paths: Sequence[str]) -> list[_Object]:
        """Every entry below `paths` at `commit`."""
        listing = self._run("ls-tree", "-r", "-z", commit, "--", *paths)
        entries = []
        for line in filter(None, listing.split(b"\0")):
            facts, _, path = line.partition(b"\t")
            mode, kind, object_id = facts.split(b" ")
            entries.append((path, mode, kind, object_id))
        wanted = b"".join(entry[3] + b"\n" for entry in entries if entry[2] == b"blob")
        blobs = _batch(self._run("cat-file", "--batch", stdin=wanted))
        return [
            _Object(
                path=path,
                mode=mode,
                is_file=kind == b"blob",
                content=next(blobs) if kind == b"blob" else f"commit:{object_id.decode()}",
            )
            for path, mode, kind, object_id in entries
        ]

    def _names(self, *arguments: str) -> list[str]:
        output = self._run(*arguments)
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def _asks(self, *arguments: str) -> bool:
        return self._call(arguments, b"").returncode == 0

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._call(arguments, stdin)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise CheckoutError(
                f"git {arguments[0]} in {self.root}: {said[0].removeprefix('fatal: ')}",
                details=said[1:],
            )
        return done.stdout

    def _call(self, arguments: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("GIT_")
        }
        environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(
                ["git", *_SAFE, *arguments],
                cwd=self.root,
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except FileNotFoundError:
            raise CheckoutError("git is not installed") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CheckoutError(f"git cannot be asked: {error}") from error


def product_at(checkout: Checkout, commit: str) -> str:
    """The digest of the product that a commit holds; empty where it holds none.

    Raises:
        CheckoutError: The commit is not at hand.
    """
    files = checkout.digests(commit, _PACKAGE)
    return product_digest_of(files) if "__init__.py" in files else ""


def _batch(output: bytes) -> Iterator[str]:
    """SHA-256 of every blob in the output of `git cat-file --batch`."""
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        size = int(output[position:end].rsplit(b" ", 1)[1])
        yield sha256(output[end + 1 : end + 1 + size])
        position = end + 1 + size + 1
