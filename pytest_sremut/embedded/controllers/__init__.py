"""The controllers of the embedded cluster: what keeps its objects as they are wanted.

Each control loop is a module of its own over `base`; `ControllerManager` runs them all on one
event loop. They know the registry and nothing else of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.bootstrap import (
    API_ENDPOINT,
    DNS_ENDPOINT,
    Endpoint,
    bootstrap,
)
from pytest_sremut.embedded.controllers.claims import ClaimController
from pytest_sremut.embedded.controllers.garbage import GarbageCollector
from pytest_sremut.embedded.controllers.index import ObjectIndex
from pytest_sremut.embedded.controllers.namespace import NamespaceController
from pytest_sremut.embedded.controllers.networking.endpoints import EndpointsController
from pytest_sremut.embedded.controllers.networking.endpointslice import EndpointSliceController
from pytest_sremut.embedded.controllers.networking.mirroring import EndpointSliceMirroringController
from pytest_sremut.embedded.controllers.node import NodeController
from pytest_sremut.embedded.controllers.queue import Activity, CallLater, Failure, Timer
from pytest_sremut.embedded.controllers.quota import QuotaController
from pytest_sremut.embedded.controllers.scheduler import SchedulerController
from pytest_sremut.embedded.controllers.workloads.daemonset import DaemonSetController
from pytest_sremut.embedded.controllers.workloads.deployment import DeploymentController
from pytest_sremut.embedded.controllers.workloads.disruption import DisruptionController
from pytest_sremut.embedded.controllers.workloads.job import JobController
from pytest_sremut.embedded.controllers.workloads.replicaset import ReplicaSetController
from pytest_sremut.embedded.controllers.workloads.statefulset import StatefulSetController
from pytest_sremut.embedded.registry.registry import Registry

__all__ = [
    "API_ENDPOINT",
    "DNS_ENDPOINT",
    "CallLater",
    "ControllerManager",
    "Endpoint",
    "Failure",
    "Timer",
]


class ControllerManager:
    """All controllers of one cluster.

    Args:
        registry: the cluster's objects.
        node_names: the nodes to create; their kubelet is somebody else's.
        now: the clock; the registry's when ``None``.
        call_later: timers; the running loop's when ``None``.
        root_ca: PEM of the certificates that verify the API, for ``kube-root-ca.crt``.
        api: where the API is served to pods.
        dns: where the DNS server answers.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        node_names: Sequence[str],
        now: Callable[[], datetime] | None = None,
        call_later: CallLater | None = None,
        root_ca: str = "",
        api: Endpoint = API_ENDPOINT,
        dns: Endpoint = DNS_ENDPOINT,
    ) -> None:
        self._registry = registry
        self._node_names = tuple(node_names)
        self._now = now if now is not None else registry.now
        self._call_later = call_later
        self._root_ca = root_ca
        self._api = api
        self._dns = dns
        self._activity = Activity()
        self._indexes: list[ObjectIndex] = []
        self._controllers: list[Controller[Any]] = []

    @property
    def failures(self) -> Sequence[Failure]:
        """Defects of controllers, the latest last; a sound cluster has none."""
        return tuple(self._activity.failures)

    def start(self) -> None:
        """Create what every cluster holds and start all controllers, on the running event loop.

        Raises:
            ApiStatus: the registry refuses an object that every cluster holds.
        """
        if self._controllers:
            raise RuntimeError("the controllers run already")
        bootstrap(self._registry, node_names=self._node_names, api=self._api, dns=self._dns)
        loop = asyncio.get_running_loop()
        pods, replicasets, services = (
            ObjectIndex(self._registry, key) for key in ("pods", "replicasets.apps", "services")
        )
        self._indexes = [pods, replicasets, services]
        for index in self._indexes:
            index.start()  # before any controller, so that none sees an index behind the store
        context = Context(
            registry=self._registry,
            pods=pods,
            replicasets=replicasets,
            services=services,
            now=self._now,
            call_later=self._call_later if self._call_later is not None else loop.call_later,
            activity=self._activity,
        )
        self._controllers = [
            NamespaceController(context, root_ca=self._root_ca),
            NodeController(context),
            DeploymentController(context),
            ReplicaSetController(context),
            StatefulSetController(context),
            DaemonSetController(context),
            JobController(context),
            SchedulerController(context),
            EndpointsController(context),
            EndpointSliceController(context),
            EndpointSliceMirroringController(context),
            DisruptionController(context),
            ClaimController(context),
            QuotaController(context),
            GarbageCollector(context),
        ]
        for controller in self._controllers:
            controller.start()

    async def stop(self) -> None:
        """Stop all controllers; objects stay as they are."""
        for controller in self._controllers:
            await controller.stop()
        for index in self._indexes:
            index.stop()
        self._controllers = []
        self._indexes = []

    async def settle(self) -> None:
        """Wait until no controller has anything to do now (what waits for a time does not count).

        Raises:
            RuntimeError: a controller failed, from what it failed of.
        """
        await self._activity.idle()
        if self._activity.failures:
            first = self._activity.failures[0]
            raise RuntimeError(f"{first.controller} failed at {first.key!r}") from first.error
