"""Requests for readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubeconfigs import write_kubeconfig

from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.model import Target

TARGET = Target(
    kind="Service",
    name="user-service",
    workload_kind="Deployment",
    workload_name="user-service",
    port=9090,
)


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., ReadingRequest]:
    """A request for a rogue oracle by class name, or for any `use`."""

    def make(name: str, *, timeout: float = 20.0, **arguments: Any) -> ReadingRequest:
        use = name if ":" in name or "-" in name else f"python:rogue_oracles:{name}"
        return ReadingRequest(
            oracle=OracleNode(id="O1", use=use, arguments=arguments),
            kubeconfig=str(write_kubeconfig(tmp_path)),
            context="test",
            cluster_uid="cluster-1",
            namespace="social-network",
            target=TARGET,
            baseline={"user-service": 3},
            timeout=timeout,
        )

    return make
