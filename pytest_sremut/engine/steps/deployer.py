"""An application that the benchmark's own code deploys, and takes away again.

Its writes have none of our preconditions and name no objects beforehand. So the namespace is read
before and after: what came while it deployed is the application, noted with UIDs in the receipt,
and what is left after its removal is deleted by those UIDs. That nobody else writes there meanwhile
rests on the lease, and on a namespace that was found empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Absent, Failed, Kind, Present
from pytest_sremut.engine.faults.writes import target_ref
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.reconciliation import look_all
from pytest_sremut.engine.state import Role, request_for
from pytest_sremut.engine.stops import RunStoppedError, told
from pytest_sremut.errors import ClusterUnavailableError, HarnessError
from pytest_sremut.evidence.redaction import redact_value
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.oracles.request import OracleNode
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import BenchmarkOperator
    from pytest_sremut.engine.state import Owned, RunContext, RunState

__all__ = ["DEPLOYED", "Deployer", "there", "unlike"]

DEPLOYED: Final[tuple[Kind, ...]] = ("ConfigMap", "Service", "Deployment")
"""Kinds of which an application consists, for us. What else a deployer makes is its own affair:
Secrets are never read."""

_EVERYWHERE: Final = "kube-root-ca.crt"  # a controller puts it into every namespace
_COMPARED: Final = ("type", "selector", "ports")
_HEADLESS: Final = "None"


class Deployer:
    """Asks a benchmark's deployment for one attempt.

    Args:
        operator: Runs it; None where no benchmark is here.
    """

    def __init__(self, operator: BenchmarkOperator | None) -> None:
        self._operator = operator
        self._asked = 0  # times; the files of its answers are numbered by it
        self._began = False

    @property
    def began(self) -> bool:
        """Whether it began to deploy, and the application was not taken away since."""
        return self._began

    def ended(self) -> None:
        """The application was taken away."""
        self._began = False

    def deploy(self, ctx: RunContext, owned: Owned) -> None:
        """Let the benchmark deploy; returns when its code has.

        Raises:
            RunStoppedError: It failed, or what it deployed lacks the study's target, or has
                another one than the mutants were proven against (infrastructure).
        """
        before: set[str] = set()

        def came() -> Sequence[Captured]:
            found = [item for item in there(ctx) if item.uid not in before]
            with uninterrupted():
                owned.made(Role.APPLICATION, *found)
            return found

        try:
            self._operate(ctx, "remove", OperationKind.BENCHMARK_REMOVE)
            before |= {item.uid for item in there(ctx)}
            self._began = True
            self._operate(ctx, "deploy", OperationKind.BENCHMARK_DEPLOY, found=came)
        except HarnessError as error:
            raise RunStoppedError(
                Outcome.INFRASTRUCTURE_FAILURE, f"the benchmark did not deploy: {told(error)}"
            ) from error
        _check_target(ctx)

    def remove(self, ctx: RunContext, state: RunState) -> tuple[Captured, ...]:
        """Let the benchmark take its application away.

        A failure is noted and stops nothing, because the caller deletes by UID.

        Returns:
            What of `state.application` is still there.
        """
        application = state.application
        try:
            self._operate(ctx, "remove", OperationKind.BENCHMARK_REMOVE, baseline=state.baseline)
        except HarnessError as error:
            ctx.tell(f"the benchmark's own removal failed: {told(error)}")
            ctx.attempt.json(f"{self._name}-failed.json", {"reason": told(error)})
        seen_now = look_all(ctx.api, [item.ref for item in application])
        return tuple(
            item
            for item, seen in zip(application, seen_now, strict=True)
            if not isinstance(seen, Absent)
        )

    @property
    def _name(self) -> str:
        return f"deployer-{self._asked:02d}"

    def _operate(
        self,
        ctx: RunContext,
        action: str,
        kind: OperationKind,
        *,
        baseline: Mapping[str, int] = MappingProxyType({}),
        found: Callable[[], Sequence[Captured]] = tuple,
    ) -> None:
        operator = self._operator
        if operator is None:
            raise HarnessError(f"nothing here deploys {ctx.study.application}")
        ctx.tell(f"the benchmark's own {action}")
        self._asked += 1
        name = ctx.study.deployer
        request = request_for(
            ctx,
            OracleNode(id=name, use=""),
            baseline=baseline,
            timeout=ctx.protocol.deploy_timeout,
        )
        answer = ctx.guard.operate(
            kind,
            refs=[target_ref(ctx)],
            call=f"{action} {ctx.study.application} (every object of the application)",
            act=lambda: operator.operate(action, request, name),
            found=found,
        )
        ctx.attempt.json(f"{self._name}-{action}.json", redact_value(answer))


def unlike(live: Mapping[str, Any], captured_body: Mapping[str, Any]) -> str:
    """In what a live target is not the one that the mutants were proven against; empty if like it.

    Compared is what mutants change: labels and annotations are the deployer's.
    """
    if live["spec"].get("clusterIP") == _HEADLESS:
        return "it is headless"
    ours = strip_server_fields(captured_body)["spec"]
    theirs = strip_server_fields(live)["spec"]
    for name in _COMPARED:
        if ours.get(name) != theirs.get(name):
            return f"spec.{name}: found {theirs.get(name)!r}, proven against {ours.get(name)!r}"
    return ""


def _check_target(ctx: RunContext) -> None:
    ref = target_ref(ctx)
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(
            f"{found.what}: {found.message}", status=found.status, reason=found.reason
        )
    problem = (
        unlike(found.body, ctx.study.registry.captured)
        if isinstance(found, Present)
        else "it is not there"
    )
    if problem:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"the benchmark deployed another {ref} than {ctx.study.registry.file} changes: "
            f"{problem}",
        )


def there(ctx: RunContext) -> Iterator[Captured]:
    """The namespace's objects of which an application can consist."""
    for kind in DEPLOYED:
        listing = ctx.api.list(kind, ctx.namespace)
        if isinstance(listing, Failed):
            raise ClusterUnavailableError(
                str(listing), status=listing.status, reason=listing.reason
            )
        for item in listing.items:
            if (kind, item["metadata"]["name"]) != ("ConfigMap", _EVERYWHERE):
                yield captured({"kind": kind, **item})
