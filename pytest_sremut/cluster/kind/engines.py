"""What docker, podman and buildah are asked when images are made for a cluster that exists."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_sremut.cluster.kind.tools import KindError, run

__all__ = ["ENGINES", "Engine"]

ENGINES: Final = ("docker", "podman", "buildah")
_BUILD: Final = 1800.0
_COPY: Final = 900.0
_DIGEST: Final = re.compile(r"\bsha256:[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One of `ENGINES`, found on `environ`'s PATH when it is used."""

    name: str
    environ: Mapping[str, str]

    def build(self, context: Path, *, tag: str, digest: str) -> None:
        """Build a context directory; the image notes the context's digest. Raises KindError."""
        self._run(
            ["build", f"--tag={tag}", f"--label=sremut.context={digest}", str(context)],
            f"image {tag} was not built",
            _BUILD,
            advice="its base image and sources come from the network",
        )

    def push(self, tag: str, target: str) -> str:
        """Push what is called `tag` as `target`; returns the digest that the registry has.

        Raises:
            KindError: It was not pushed, or the engine names no digest.
        """
        what = f"image {tag} was not pushed to {target}"
        if self.name == "docker":
            self._run(["tag", tag, target], what, _COPY)
            said = self._run(["push", target], what, _COPY)
        else:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "digest")
                self._run(["push", f"--digestfile={file}", tag, f"docker://{target}"], what, _COPY)
                said = file.read_text("utf-8", "replace") if file.is_file() else ""
        found = _DIGEST.findall(said)
        if not found:
            raise KindError(f"{what}: {self.name} named no digest")
        return str(found[-1])

    def save(self, tags: Sequence[str], archive: Path) -> None:
        """Write images into one archive that `ctr images import` reads. Raises KindError."""
        what = f"{archive} was not written"
        if self.name == "docker":
            self._run(["save", f"--output={archive}", *tags], what, _COPY)
        elif self.name == "podman":
            # Podman appends to an archive that is there.
            command = ["save", "--multi-image-archive", f"--output={archive}", *tags]
            self._run(command, what, _COPY)
        else:
            (tag,) = tags  # buildah has one image in an archive
            self._run(["push", tag, f"docker-archive:{archive}:{tag}"], what, _COPY)
        if not archive.is_file():
            raise KindError(f"{what}, although {self.name} said that it was")

    def _run(self, arguments: Sequence[str], what: str, timeout: float, *, advice: str = "") -> str:
        completed = run([self.name, *arguments], environ=self.environ, timeout=timeout)
        return completed.checked(what, advice).stdout
