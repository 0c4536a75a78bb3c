"""A timeline of what the cluster looked like, independent of every grader.

It decides what a bad reading was; no verdict ever does. A look that fails is recorded as failed
and says nothing about the cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pytest_sremut.cluster.port import Absent, Failed, KubeApi, ObjectRef, Present
from pytest_sremut.engine.clock import Clock, rfc3339
from pytest_sremut.engine.own_pods import is_probe
from pytest_sremut.ledger.timeline import Sample, application_down
from pytest_sremut.study.model import Target

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext
    from pytest_sremut.evidence.attempt import AppendStream

__all__ = ["RunSamples", "SampleSink", "Sampler", "look"]


class SampleSink(Protocol):
    """Where samples go: one JSON-ready mapping a look."""

    def write(self, sample: Mapping[str, Any]) -> None: ...


IsProbe = Callable[[Mapping[str, Any]], bool]
"""Whether a pod is a probe's, and so says nothing about the application."""


def look(
    api: KubeApi, *, namespace: str, target: Target, is_probe: IsProbe = lambda _: False
) -> dict[str, Any]:
    """One look: pods that are not Running, the target Service, its endpoint slices."""
    pods = api.list("Pod", namespace)
    slices = api.list(
        "EndpointSlice", namespace, labels=f"kubernetes.io/service-name={target.name}"
    )
    service = api.get(ObjectRef(kind="Service", namespace=namespace, name=target.name))
    return {
        "pods": (
            {"failed": pods.message}
            if isinstance(pods, Failed)
            else {"total": len(pods.items), "not_running": _not_running(pods.items, is_probe)}
        ),
        "service": _service(service),
        "endpoints": (
            {"failed": slices.message} if isinstance(slices, Failed) else _addresses(slices.items)
        ),
    }


def _not_running(items: Sequence[Mapping[str, Any]], is_probe: IsProbe) -> list[dict[str, Any]]:
    return [
        {
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "phase": pod.get("status", {}).get("phase", ""),
            **({"probe": True} if is_probe(pod) else {}),
        }
        for pod in items
        if pod.get("status", {}).get("phase") != "Running"
    ]


def _service(read: Present | Absent | Failed) -> dict[str, str]:
    match read:
        case Present():
            return {
                "uid": read.body["metadata"]["uid"],
                "cluster_ip": read.body.get("spec", {}).get("clusterIP", ""),
            }
        case Absent():
            return {"absent": "NotFound"}
        case Failed():
            return {"failed": read.message}


def _addresses(slices: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"address": address, "conditions": endpoint.get("conditions", {})}
        for item in slices
        for endpoint in item.get("endpoints") or ()
        for address in endpoint.get("addresses", ())
    ]


class Sampler:
    """Looks at the cluster every `interval` seconds, in a thread of its own, until stopped.

    Args:
        api: A client that may be used from another thread.
        sink: Gets every sample with its UTC and monotonic time.
        is_probe: Pods that say nothing about the application; marked in the samples.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        target: Target,
        interval: float,
        clock: Clock,
        sink: SampleSink,
        is_probe: IsProbe = lambda _: False,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._target = target
        self._interval = interval
        self._clock = clock
        self._sink = sink
        self._is_probe = is_probe
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="sremut-sampler", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the look in progress; idempotent. Re-raises what ended the thread early."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def timeline(self) -> tuple[Sample, ...]:
        """Everything seen so far, ascending."""
        with self._lock:
            return tuple(self._samples)

    def _loop(self) -> None:
        try:
            while True:
                self._take()
                if self._stop.wait(self._interval):
                    return
        except BaseException as error:  # handed to stop(): a dead sampler must not pass unseen
            self._failure = error

    def _take(self) -> None:
        at = self._clock.monotonic()
        utc = rfc3339(self._clock.now())
        seen = look(
            self._api,
            namespace=self._namespace,
            target=self._target,
            is_probe=self._is_probe,
        )
        sample = Sample(at=at, not_running=application_down(seen["pods"]))
        with self._lock:
            self._samples.append(sample)
        self._sink.write({"utc": utc, "monotonic": f"{at:.6f}", **seen})


class RunSamples:
    """The sampler of one run, and the file of its samples. Before `start` there are none."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._file: AppendStream | None = None
        self._sampler: Sampler | None = None

    def start(self) -> None:
        """Begin to look, in a thread of its own. Raises EvidenceError."""
        ctx = self._ctx
        self._file = ctx.attempt.stream("sampler.jsonl")
        self._sampler = Sampler(
            ctx.api,
            namespace=ctx.namespace,
            target=ctx.study.target,
            interval=ctx.protocol.sampler_interval,
            clock=ctx.clock,
            sink=self._file,
            is_probe=lambda pod: is_probe(pod, ctx.study),
        )
        self._sampler.start()

    @property
    def timeline(self) -> tuple[Sample, ...]:
        """Everything seen so far, ascending."""
        return () if self._sampler is None else self._sampler.timeline

    def stop(self) -> None:
        """See `Sampler.stop`."""
        if self._sampler is not None:
            self._sampler.stop()

    def close(self) -> dict[str, Any] | None:
        """Close the file after `stop`; its reference for the record, None where there is none."""
        return None if self._file is None else self._file.close().as_json()
