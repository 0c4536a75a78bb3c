"""Calling an oracle once, in whichever process that happens: what it returned or raised.

Whatever the oracle raises is its error: an exit, a Ctrl-C that it makes up, an exception of ours.
"""

from __future__ import annotations

from pytest_sremut.cluster.port import KubeApi
from pytest_sremut.errors import GuardRefusedError, UsageError
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.context import GraderContext, identity_guard
from pytest_sremut.oracles.oracle_port import json_ready, raised_as_text
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.oracles.told import Told

__all__ = ["perform"]


def perform(request: ReadingRequest, api: KubeApi) -> Told:
    """Build the oracle, evaluate it once, and make exact built-ins of what it returned.

    Raises:
        UsageError: All of the oracle's code is ours, and the study names something that does not
            exist.
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

    try:
        returned = json_ready(registry.build(request.oracle, context_of).evaluate())
    except BaseException as error:
        if isinstance(error, UsageError | GuardRefusedError) and not registry.is_foreign(
            request.oracle
        ):
            raise
        return Told(returned=None, exception=raised_as_text(error))
    return Told(returned=returned, exception=None)
