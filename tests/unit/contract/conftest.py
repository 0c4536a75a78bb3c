"""The healthy application and the contract's view of it."""

from __future__ import annotations

import pytest
from contract_port import FakePort
from world import World


@pytest.fixture
def world() -> World:
    """The healthy application."""
    return World()


@pytest.fixture
def port(world: World) -> FakePort:
    """The contract's view of it."""
    return FakePort(world.kube, baseline=world.baseline)
