"""What this machine offers the embedded cluster, found out by trying.

Rules kept here:

* everything is really tried, in a child process that ends afterwards: what the documentation of a
  distribution promises, and what a container forbids, are different things;
* a step that is forbidden is named with its errno and what to do; what depends on it is reported as
  not tried, never as broken;
* no root, no network, no traces; about a second. A child that hangs is ended after a minute.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_sremut.embedded.selftest.checks import OPTIONAL, TRIED, Check, failed

__all__ = ["Check", "diagnose"]

_PATIENCE = 60.0  # seconds; a busy machine is no worse a machine
_MEMORY = 512 * 1024 * 1024
_DESCRIPTORS = 1024
_WATCHES = 64


def diagnose() -> list[Check]:
    """All checks, in the order in which they build on each other. Never raises for the machine."""
    return [
        _python(),
        _linux(),
        *_namespaces(),
        _memory(),
        _descriptors(),
        _inotify(),
        _temporary(),
        _kubectl(),
        _policies(),
    ]


def _python() -> Check:
    found = platform.python_version()
    return Check(
        name="Python",
        ok=sys.version_info >= (3, 11),
        detail=f"{platform.python_implementation()} {found}",
        advice="" if sys.version_info >= (3, 11) else "use Python 3.11 or newer",
    )


def _linux() -> Check:
    linux = sys.platform == "linux"
    return Check(
        name="Linux",
        ok=linux,
        detail=f"{platform.system()} {platform.release()} {platform.machine()}",
        advice="" if linux else "use Linux, or a cluster of kind's or your own",
    )


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        (line,) = (line for line in lines if line.startswith("MemAvailable:"))
        free = int(line.split()[1]) * 1024
    except (OSError, ValueError) as error:
        return failed("free memory", "read /proc/meminfo", error, needed=False)
    enough = free >= _MEMORY
    return Check(
        name="free memory",
        ok=enough,
        needed=False,
        detail=f"{free >> 20} MiB",
        advice="" if enough else f"free some: about {_MEMORY >> 20} MiB are used",
    )


def _descriptors() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS
    return Check(
        name="open files",
        ok=enough,
        needed=False,
        detail=f"soft limit {soft}, hard limit {hard}",
        advice="" if enough else f"raise the hard limit to {_DESCRIPTORS} (ulimit -Hn)",
    )


def _inotify() -> Check:
    place = Path("/proc/sys/fs/inotify/max_user_instances")
    try:
        limit = int(place.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        return failed("inotify instances", f"read {place}", error, needed=False)
    enough = limit >= _WATCHES
    return Check(
        name="inotify instances",
        ok=enough,
        needed=False,
        detail=f"limit {limit}",
        advice="" if enough else "raise the sysctl fs.inotify.max_user_instances",
    )


def _temporary() -> Check:
    try:
        with tempfile.NamedTemporaryFile(prefix="sremut-") as written:
            written.write(b"x")
            written.flush()
            place = Path(written.name).parent
    except OSError as error:
        return failed(
            "temporary folder",
            "write a temporary file",
            error,
            advice="make /tmp writable, or set TMPDIR to a folder that is",
        )
    return Check(name="temporary folder", ok=True, detail=str(place))


def _policies() -> Check:
    return Check(
        name="network policies",
        ok=False,
        needed=False,
        detail="stored, not enforced: all pods share one network",
        advice="repairs that need enforcement are not applicable here; use a real cluster for them",
    )


def _kubectl() -> Check:
    found = shutil.which("kubectl")
    return Check(
        name="kubectl",
        ok=found is not None,
        needed=False,
        detail=found or "not on PATH",
        advice="" if found else "install it to look into the cluster by hand; studies do without",
    )


def _namespaces() -> list[Check]:
    said, reason = _child()
    found: dict[str, Check] = {}
    for line in said.splitlines():
        check = Check(**json.loads(line))
        found[check.name] = check
    broken = next((check.name for check in found.values() if not check.ok and check.needed), "")
    why = f"not tried: {broken} failed" if broken else f"not tried: {reason}"
    return [
        found.get(name, Check(name=name, ok=False, needed=name not in OPTIONAL, detail=why))
        for name in TRIED
    ]


def _child() -> tuple[str, str]:
    """What the probes wrote, and why they ended."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.doctor_probes"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
                start_new_session=True,
            )
        except OSError as error:
            return "", f"no child process: {error}"
        try:
            code = child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            reason = f"the probes took longer than {_PATIENCE:g} s"
        else:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"the probes ended with {code}"
        output.seek(0)
        return output.read().decode(), reason


def _import_path() -> list[str]:
    """Where this very package is, first; the child must not find another."""
    return [str(Path(__file__).parents[3]), *(entry for entry in sys.path if entry)]


if __name__ == "__main__":
    for found in diagnose():
        state = "ok" if found.ok else "FAIL" if found.needed else "no"
        sys.stdout.write(f"{state:5}{found.name}: {found.detail}\n")
        if found.advice:
            what = f"{found.step} (errno {found.errno}): " if found.step else ""
            sys.stdout.write(f"     {what}{found.advice}\n")
