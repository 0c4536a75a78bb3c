"""A reading without a process beside ours, from a cluster in memory: performed, sent, judged."""

from __future__ import annotations

import json
import time

from pytest_sremut.cluster.port import KubeApi
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.conclude import Answer, reading_of
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.perform import perform
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.serving import now
from pytest_sremut.oracles.told import BEGUN

__all__ = ["answered", "direct"]


def answered(*frames: object, **changes: object) -> Answer:
    """What a worker collects of a fresh process that sent these frames and exited with 0."""
    fields: dict[str, object] = {
        "frames": [one if isinstance(one, str) else json.dumps(one) for one in frames],
        "rest": 0, "status": 0, "goes_on": False, "fresh": True, "in_time": True,
        "stdout": ["", 0], "stderr": ["", 0], "pid": 7, "started": now(), "elapsed": 0.01,
    }  # fmt: skip
    return Answer.of({**fields, **changes})


def direct(request: ReadingRequest, api: KubeApi, *, instrument: str) -> Reading:
    """As an instrument reads, refusals of ours included."""
    begun = time.perf_counter()
    told = perform(request, api)
    if told.exception is not None and told.exception.type == "KeyboardInterrupt":
        raise KeyboardInterrupt(told.exception.message)  # here it is the session's own process
    return reading_of(
        request,
        answered(BEGUN, told.frame(), elapsed=time.perf_counter() - begun),
        instrument=instrument,
        facts={"pid": 7},
        foreign=registry.is_foreign(request.oracle),
    )
