"""What this machine must offer before a cluster is made, found out by asking; each lack says what
to do. The same checks stand behind `sremut doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pytest_sremut.cluster.kind.settings import pins
from pytest_sremut.cluster.kind.tools import KindError, executable_facts, last_lines, run
from pytest_sremut.embedded import Check
from pytest_sremut.errors import UsageError

__all__ = ["PROVIDERS", "Survey", "diagnose", "refusal", "survey"]

PROVIDERS: Final = ("docker", "podman")
_ANSWER: Final = 15.0
_INOTIFY: Final = Path("/proc/sys/fs/inotify")
# What kind's own documentation raises them to. With less, pods of a second cluster crash with
# "too many open files", which looks like what a mutant does.
_LEAST: Final = {"max_user_instances": 512, "max_user_watches": 524_288}
_DISK: Final = 6 << 30  # node image, our images, and what a node writes
_DISK_PER_WORKER: Final = 2 << 30
_ARCHITECTURES: Final = {
    "x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64",
}  # fmt: skip

Usage = Callable[[Path], int]
"""Free bytes where a path lies. Raises OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found. `provider` and `platform` are empty where nothing usable was."""

    checks: tuple[Check, ...]
    provider: str = ""
    platform: str = ""  # "linux/amd64"
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lacking(self) -> tuple[Check, ...]:
        """The checks that forbid a cluster."""
        return tuple(check for check in self.checks if check.needed and not check.ok)


def refusal(found: Survey) -> KindError | None:
    """Why no cluster can be made here, with what to do; None if one can."""
    if not found.lacking:
        return None
    told = "; ".join(f"{check.name}: {check.detail}" for check in found.lacking)
    advice = [f"{check.name}: {check.advice}" for check in found.lacking if check.advice]
    return KindError(f"no kind cluster on this machine: {told}", "\n".join(advice))


def survey(
    environ: Mapping[str, str],
    *,
    image: str,
    workers: int = 0,
    inotify: Path = _INOTIFY,
    usage: Usage = lambda path: shutil.disk_usage(path).free,
    timeout: float = _ANSWER,
) -> Survey:
    """Ask everything; nothing is changed.

    Args:
        environ: PATH, and which engine kind is to use (KIND_EXPERIMENTAL_PROVIDER).
        image: The node image; another than the pinned one may go with another kind release.
        workers: Nodes besides the control plane.
        inotify: Where the kernel tells its limits.
        usage: How free space is found out.
        timeout: Seconds for an engine to answer.

    Raises:
        UsageError: KIND_EXPERIMENTAL_PROVIDER names an engine that we cannot use.
    """
    kind = executable_facts("kind", ["version"], environ)
    kubectl = executable_facts("kubectl", ["version", "--client"], environ)
    engine, provider, platform, root = _engine(environ, timeout)
    checks = [
        _kind(kind, own_image=image != pins().node_image),
        engine,
        *(_limit(inotify, name, least) for name, least in _LEAST.items()),
        _disk(root, usage, _DISK + workers * _DISK_PER_WORKER),
        _kubectl(kubectl),
    ]
    return Survey(
        checks=tuple(checks),
        provider=provider,
        platform=platform,
        facts={
            "provider": engine.detail if provider else None,
            "executables": {"kind": kind, "kubectl": kubectl},
        },
    )


def diagnose(environ: Mapping[str, str]) -> list[Check]:
    """For `sremut doctor`: kind is one way to get a cluster, so nothing of it is needed."""
    try:
        checks = survey(environ, image=pins().node_image, timeout=5.0).checks
    except UsageError as error:
        checks = (Check(name="engine", ok=False, detail=str(error)),)
    return [
        replace(check, name=f"kind: {check.name}", needed=False)
        for check in checks
        if check.name != "kubectl"  # asked for by itself
    ]


def _kind(facts: Mapping[str, Any] | None, *, own_image: bool) -> Check:
    pinned = pins()
    advice = f"install kind {pinned.kind} ({pinned.source}) and put it on PATH"
    if facts is None:
        return Check(name="kind", ok=False, detail="not on PATH", advice=advice)
    version = str(facts["version"] or "")
    if not version.startswith("kind "):
        return Check(name="kind", ok=False, detail="does not tell its version", advice=advice)
    if version.split()[1] != pinned.kind and not own_image:
        return Check(
            name="kind",
            ok=False,
            detail=f"{version}, and the pinned node image is of {pinned.kind}",
            advice=f"{advice}, or name a node image of your release by digest in the ini file: "
            "sremut_kind_image",
        )
    return Check(name="kind", ok=True, detail=version)


def _kubectl(facts: Mapping[str, Any] | None) -> Check:
    if facts is None:
        return Check(
            name="kubectl",
            ok=False,
            needed=False,
            detail="not on PATH",
            advice="install it for a benchmark's own fault injector; the rest does without",
        )
    return Check(
        name="kubectl", ok=True, needed=False, detail=str(facts["version"] or "no version")
    )


def _engine(environ: Mapping[str, str], timeout: float) -> tuple[Check, str, str, Path | None]:
    """The check, the engine, its platform, and where it keeps its data."""
    named = environ.get("KIND_EXPERIMENTAL_PROVIDER", "")
    if named and named not in PROVIDERS:
        raise UsageError(
            f"KIND_EXPERIMENTAL_PROVIDER: found {named!r}; allowed: {' | '.join(PROVIDERS)}"
        )
    complaints, advice = [], []
    for provider in (named,) if named else PROVIDERS:
        told = _asked(provider, environ, timeout)
        if isinstance(told, KindError):
            complaints.append(str(told))
            advice.append(told.diagnostics())
            continue
        system, architecture, version, root = told
        known = _ARCHITECTURES.get(architecture)
        if system != "linux" or known is None:
            complaints.append(f"{provider} runs on {system}/{architecture}")
            advice.append("kind's node images are for linux/amd64 and linux/arm64")
            continue
        detail = f"{provider} {version}, linux/{known}"
        return (
            Check(name="engine", ok=True, detail=detail),
            provider,
            f"linux/{known}",
            Path(root),
        )
    return (
        Check(name="engine", ok=False, detail="; ".join(complaints), advice="; ".join(advice)),
        "",
        "",
        None,
    )


_INFO: Final = {
    "docker": "{{.OSType}}|{{.Architecture}}|{{.ServerVersion}}|{{.DockerRootDir}}",
    "podman": "{{.Host.OS}}|{{.Host.Arch}}|{{.Version.Version}}|{{.Store.GraphRoot}}",
}


def _asked(
    provider: str, environ: Mapping[str, str], timeout: float
) -> tuple[str, str, str, str] | KindError:
    """System, architecture, version and data directory of an engine, or why there is none."""
    start = (
        "start the Docker daemon (systemctl start docker) and see that you may use it: docker info"
        if provider == "docker"
        else "see that it works for this user: podman info"
    )
    try:
        answer = run([provider, "info", "--format", _INFO[provider]], environ=environ,
                     timeout=timeout)  # fmt: skip
    except KindError as error:
        advice = f"install {provider}" if "not on PATH" in str(error) else start
        return KindError(str(error), advice)
    if answer.code != 0:
        return KindError(f"{provider} info: {last_lines(answer.stderr, 1)}", start)
    # A client prints what it knows of a server that it cannot reach, and may exit with 0.
    words = answer.stdout.strip().split("|")
    if len(words) != 4 or not all(words):
        return KindError(
            f"{provider} info: found {last_lines(answer.stdout, 1)!r}; "
            f"{last_lines(answer.stderr, 1)}",
            start,
        )
    return words[0], words[1], words[2], words[3]


def _limit(directory: Path, name: str, least: int) -> Check:
    sysctl = f"fs.inotify.{name}"
    try:
        found = int((directory / name).read_text("ascii"))
    except (OSError, ValueError):
        return Check(
            name=sysctl,
            ok=True,
            needed=False,
            detail="cannot be read; the engine's own machine decides",
        )
    return Check(
        name=sysctl,
        ok=found >= least,
        detail=f"{found}, needed {least}",
        advice="" if found >= least else f"sudo sysctl {sysctl}={least}",
    )


def _disk(root: Path | None, usage: Usage, least: int) -> Check:
    if root is None:
        return Check(name="free disk", ok=False, needed=False, detail="not asked: no engine")
    for place in (root, *root.parents):
        try:
            free = usage(place)
        except OSError:
            continue  # not ours to look into, or on another machine: the next one above
        enough = free >= least
        return Check(
            name="free disk",
            ok=enough,
            detail=f"{free >> 20} MiB where {place} lies, needed {least >> 20}",
            advice="" if enough else "free some: docker system df, or podman system df, says what",
        )
    return Check(name="free disk", ok=True, needed=False, detail="cannot be asked")
