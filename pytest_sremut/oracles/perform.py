"""One reading, whichever process it happens in.

The oracle's exception becomes an ERROR reading, `SystemExit` included. What is not the oracle's
comes out as it is: a refused write, a wrong name in the study, a person's Ctrl-C, a time limit.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_sremut.cluster.port import KubeApi
from pytest_sremut.errors import GuardRefusedError, UsageError
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.context import GraderContext, identity_guard
from pytest_sremut.oracles.oracle_port import (
    Raised,
    Reading,
    json_ready,
    judge,
    raised_as_text,
    why_no_verdict,
)
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.verdict import Verdict

__all__ = ["TimeLimitError", "perform"]


class TimeLimitError(BaseException):
    """The hard limit of a reading passed; no `except Exception` of an oracle may swallow it."""


def perform(request: ReadingRequest, api: KubeApi, *, instrument: str) -> Reading:
    """Build the oracle and evaluate it once.

    Raises:
        UsageError: The study names something that does not exist.
        GuardRefusedError: A grader of ours was about to write to another cluster.
    """
    guarded = identity_guard(api, request.cluster_uid)

    def context_of(node: OracleNode) -> GraderContext:
        return GraderContext(
            api=api,
            namespace=request.namespace,
            target=request.target,
            problem=node.problem,
            baseline=request.baseline,
            guarded=guarded,
            # Its own waits end, and are its error, before the hard limit ends the process.
            timeout=0.8 * request.timeout,
        )

    started = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    begun = time.perf_counter()
    returned: Any = None
    raised: Raised | None = None
    try:
        returned = registry.build(request.oracle, context_of).evaluate()
    except (UsageError, GuardRefusedError, KeyboardInterrupt, TimeLimitError):
        raise
    except BaseException as error:
        raised = raised_as_text(error)
    elapsed = time.perf_counter() - begun
    reason = f"{raised.type}: {raised.message}" if raised else why_no_verdict(returned)
    return Reading(
        oracle=request.oracle.id,
        use=request.oracle.use,
        instrument=instrument,
        verdict=Verdict.ERROR if raised else judge(returned),
        reason=reason,
        returned=json_ready(returned),
        exception=raised,
        started=started,
        elapsed=elapsed,
        stdout="",
        stderr="",
        facts=_facts(request.oracle),
    )


def _facts(node: OracleNode) -> dict[str, Any]:
    modules = sorted({registry.module_of(part.use) for part in node.walk()})
    return {**_versions(), "modules": {module: _digest(module) for module in modules}}


@cache
def _versions() -> Mapping[str, str]:
    versions = {"python": platform.python_version()}
    for distribution in ("kubernetes", "pytest-sremut"):
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            versions[distribution] = "not installed"
    return versions


def _digest(module: str) -> str:
    """SHA-256 of the source file that the module was loaded from; empty when it has none."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    if not origin:
        return ""
    try:
        return hashlib.sha256(Path(origin).read_bytes()).hexdigest()
    except OSError:
        return ""
