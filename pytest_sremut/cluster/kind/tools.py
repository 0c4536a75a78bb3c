"""Running kind, the container engine and kubectl: argv lists, time limits, whole process groups.

Rules: no shell; output goes to files, so that nothing can block on a pipe or outlive us by holding
one; whoever takes too long, or is in the way of an interrupt, is ended with all it started.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.ground.durable.text_redaction import redact_text

__all__ = ["Completed", "KindError", "Tools", "executable_facts", "last_lines", "run"]

_GRACE: Final = 5.0  # between asking a program to end and ending it
_MOST_OUTPUT: Final = 16 << 20


class KindError(ClusterUnavailableError):
    """kind or the container engine did not do what was asked; `diagnostics` says what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        self._advice = advice
        super().__init__(message)

    def diagnostics(self) -> str:
        return self._advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that ended by itself."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def checked(self, what: str, advice: str = "") -> Completed:
        """Itself, if the exit status is 0. Raises KindError with the last lines of its stderr."""
        if self.code != 0:
            said = last_lines(self.stderr or self.stdout)
            raise KindError(f"{what}: {self.argv[0]} exited with {self.code}: {said}", advice)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The programs, and the environment in which they run.

    `environ` is the caller's own; kind's is that with the provider and a kubeconfig of our own, so
    that neither a variable nor a default makes it touch anybody else's.
    """

    environ: Mapping[str, str]
    provider: str  # "docker" or "podman"
    kubeconfig: Path
    cache: Path  # kubectl's own, so that two clusters never share one

    def kind(self, *arguments: str, timeout: float) -> Completed:
        """Run kind. Raises KindError when it is not there or does not end."""
        return run(["kind", *arguments], environ=self._around(), timeout=timeout)

    def engine(self, *arguments: str, timeout: float) -> Completed:
        """Run the container engine. Raises KindError when it is not there or does not end."""
        return run([self.provider, *arguments], environ=self._around(), timeout=timeout)

    def _around(self) -> dict[str, str]:
        own = {
            "KIND_EXPERIMENTAL_PROVIDER": self.provider,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.cache),
            # An image with attestations is an index, which not every store can load.
            "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
        }
        kept = {key: value for key, value in self.environ.items() if key != "KIND_CLUSTER_NAME"}
        return {**kept, **own}


def run(argv: Sequence[str], *, environ: Mapping[str, str], timeout: float) -> Completed:
    """Run a program found on `environ`'s PATH, at most `timeout` seconds.

    Raises:
        KindError: It is not there, cannot be started, or was ended because it took too long.
    """
    found = shutil.which(argv[0], path=environ.get("PATH", ""))
    if found is None:
        raise KindError(f"{argv[0]} is not on PATH", f"install {argv[0]}, or put it on PATH")
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [found, *argv[1:]],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
        except OSError as error:
            raise KindError(f"{argv[0]} cannot be started: {error.strerror}") from None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            said = last_lines(_text(errors))
            raise KindError(
                f"{' '.join(argv[:3])} did not end within {timeout:g} s"
                + (f"; its last words: {said}" if said else ""),
                f"see whether {argv[0]} answers: {argv[0]} "
                + ("get clusters" if argv[0] == "kind" else "info"),
            ) from None
        except BaseException:
            _end(process)
            raise
        return Completed(argv=tuple(argv), code=code, stdout=_text(output), stderr=_text(errors))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it started: politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
            break
    # Whatever it left behind in its group ends with it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_OUTPUT).decode("utf-8", "replace")


def last_lines(text: str, count: int = 3) -> str:
    """The last lines of an output in one line, without control characters and credentials."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = " | ".join(lines[-count:])
    return redact_text("".join(c if c.isprintable() else "?" for c in told))[:600]


def executable_facts(name: str, version: Sequence[str], environ: Mapping[str, str]) -> Any:
    """Version and SHA-256 of a program on PATH; None where there is none.

    The path is left out, since it may tell who somebody is. A version that cannot be read is None.
    """
    found = shutil.which(name, path=environ.get("PATH", ""))
    if found is None:
        return None
    digest: str | None
    try:
        with Path(found).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        digest = None
    told: str | None
    try:
        answer = run([name, *version], environ=environ, timeout=20.0)
        first = answer.stdout.strip().partition("\n")[0]  # kubectl tells more than its own
        told = last_lines(first) if answer.code == 0 else None
    except KindError:
        told = None
    return {"version": told or None, "sha256": digest}
