"""A client against a server that answers as scripted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from http_script import HttpScript
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import KubeClient
from pytest_sremut.cluster.transport import Transport


@pytest.fixture
def server() -> Iterator[HttpScript]:
    """The scripted server."""
    with HttpScript() as script:
        yield script


@pytest.fixture
def client(server: HttpScript, tmp_path: Path) -> Iterator[KubeClient]:
    """A client with short limits."""
    transport = Transport.load(write_kubeconfig(tmp_path, server.address, token="t0k3n"), "test")
    made = KubeClient(transport, read_timeout=0.4, write_timeout=0.4)
    yield made
    made.close()
