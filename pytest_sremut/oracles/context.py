"""What a grader of ours may look at, and the only way in which it may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_sremut.cluster.port import Absent, Failed, KubeApi, Listing, ObjectRef, Present
from pytest_sremut.errors import ClusterUnavailableError, GuardRefusedError
from pytest_sremut.study.model import Target

__all__ = ["GraderContext", "existing", "identity_guard", "listed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderContext:
    """One grader's view of one state.

    Args:
        api: The cluster.
        namespace: The only namespace it looks at.
        target: The object that the fault hits.
        problem: Attributes that the study gives to this oracle (`expected_service_port`, ...).
        baseline: Deployment -> replicas, seen while healthy; empty when nobody captured it.
        guarded: Called right before each write; raises GuardRefusedError.
        timeout: Seconds that a wait of the grader's may take.
    """

    api: KubeApi
    namespace: str
    target: Target
    problem: Mapping[str, Any]
    baseline: Mapping[str, int]
    guarded: Callable[[], None]
    timeout: float


def identity_guard(api: KubeApi, kube_system_uid: str) -> Callable[[], None]:
    """A guard that refuses to write to any cluster but the one that was leased.

    The context itself is fixed: a client is made for one context of one file.
    """

    def guarded() -> None:
        found = api.get(ObjectRef(kind="Namespace", namespace="", name="kube-system"))
        if isinstance(found, Failed):
            raise ClusterUnavailableError(
                f"cannot tell which cluster this is: {found}",
                status=found.status,
                reason=found.reason,
            )
        if not isinstance(found, Present):
            raise GuardRefusedError("cannot tell which cluster this is: it has no kube-system")
        uid = found.body["metadata"].get("uid")
        if uid != kube_system_uid:
            raise GuardRefusedError(
                f"this is another cluster (kube-system {uid}, leased {kube_system_uid})"
            )

    return guarded


def existing(found: Present | Absent | Failed) -> Mapping[str, Any] | None:
    """The object, None where it is absent. Raises ClusterUnavailableError for a failed read."""
    if isinstance(found, Failed):
        _unavailable(found)
    return found.body if isinstance(found, Present) else None


def listed(found: Listing | Failed) -> tuple[Mapping[str, Any], ...]:
    """The items. Raises ClusterUnavailableError for a failed read."""
    if isinstance(found, Failed):
        _unavailable(found)
    return found.items


def _unavailable(failed: Failed) -> NoReturn:
    raise ClusterUnavailableError(
        f"{failed.what}: {failed.reason}: {failed.message}",
        status=failed.status,
        reason=failed.reason,
    )
