"""What code that is not ours is told of a run: where the application is, and what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sremut.oracles.request import OracleNode, ReadingRequest

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["request_for"]


def request_for(ctx: RunContext, oracle: OracleNode, *, timeout: float) -> ReadingRequest:
    """What an instrument is told: where the application is, and what was known while it was well.

    Args:
        ctx: The run.
        oracle: Which grader; for an injector its name alone.
        timeout: Hard limit, in seconds.
    """
    return ReadingRequest(
        oracle=oracle,
        kubeconfig=str(ctx.cluster.kubeconfig),
        context=ctx.cluster.context,
        cluster_uid=ctx.cluster_uid,
        namespace=ctx.namespace,
        target=ctx.study.target,
        baseline=dict(ctx.baseline),
        timeout=timeout,
        benchmark=ctx.study.benchmark,
    )
