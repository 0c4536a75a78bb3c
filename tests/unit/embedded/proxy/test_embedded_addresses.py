"""Which addresses answer, which refuse, which are silent: in a namespace of their own."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from embedded_netns import connecting, in_namespace

from pytest_sremut.embedded.linux.listeners import is_local
from pytest_sremut.embedded.linux.netlink import Netlink
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses

PATIENCE = 0.2


def prepared() -> ClusterAddresses:
    addresses = ClusterAddresses()
    addresses.prepare()
    return addresses


@in_namespace
async def test_pods_live_and_die() -> None:
    with closing(prepared()) as addresses:
        assert not is_local("10.244.0.5")
        assert (await connecting("10.244.0.5", 80, patience=PATIENCE)).result == "timed out"
        addresses.add_pod_address("10.244.0.5")
        addresses.add_pod_address("10.244.0.5")
        assert is_local("10.244.0.5")
        assert (await connecting("10.244.0.5", 80)).result == "refused"
        with socket.create_server(("10.244.0.5", 80)):
            met = await connecting("10.244.0.5", 80)
            assert (met.result, met.source) == ("connected", "192.0.2.2")
        addresses.remove_pod_address("10.244.0.5")
        addresses.remove_pod_address("10.244.0.5")
        assert (await connecting("10.244.0.5", 80, patience=PATIENCE)).result == "timed out"


@in_namespace
async def test_own_addresses_are_local_and_others_silent() -> None:
    with closing(prepared()):
        assert all(map(is_local, ("127.0.0.1", "192.0.2.2", "10.96.0.1", "10.96.0.10")))
        for stranger in ("10.96.7.7", "198.51.100.1"):
            assert (await connecting(stranger, 80, patience=PATIENCE)).result == "timed out"


@in_namespace
async def test_preparing_twice_is_no_error() -> None:
    with closing(prepared()) as addresses:
        addresses.prepare()


@in_namespace
async def test_ports_open_one_by_one() -> None:
    with closing(prepared()) as addresses:
        if not addresses.select_ports():
            pytest.skip("this kernel has no routing rules by port")
        addresses.open_port("10.96.1.1", 80)
        addresses.open_port("10.96.1.1", 80)
        assert (await connecting("10.96.1.1", 80)).result == "refused"
        assert (await connecting("10.96.1.1", 81, patience=PATIENCE)).result == "timed out"
        with socket.create_server(("10.96.1.1", 80)):
            assert (await connecting("10.96.1.1", 80)).source == "192.0.2.2"
        addresses.open_port("10.96.1.1", 81)
        addresses.close_port("10.96.1.1", 80)
        assert (await connecting("10.96.1.1", 80, patience=PATIENCE)).result == "timed out"
        assert (await connecting("10.96.1.1", 81)).result == "refused"
        addresses.close_port("10.96.1.1", 81)
        addresses.close_port("10.96.1.1", 81)
        assert not is_local("10.96.1.1")
        # The cluster's own addresses and the pods' are untouched by all that.
        addresses.add_pod_address("10.244.0.1")
        for own in ("10.96.0.10", "10.244.0.1", "192.0.2.2"):
            assert (await connecting(own, 9)).result == "refused"


@in_namespace
async def test_without_port_rules_the_whole_address_opens() -> None:
    with closing(prepared()) as addresses:
        addresses.open_port("10.96.1.1", 80)
        assert (await connecting("10.96.1.1", 81)).result == "refused"
        addresses.close_port("10.96.1.1", 80)
        assert (await connecting("10.96.1.1", 81, patience=PATIENCE)).result == "timed out"


@in_namespace
async def test_networks_open_and_close() -> None:
    with closing(prepared()) as addresses:
        addresses.open_network(addresses.service_network)
        assert (await connecting("10.100.1.1", 80)).result == "refused"
        addresses.close_network(addresses.service_network)
        assert (await connecting("10.100.1.1", 80, patience=PATIENCE)).result == "timed out"


@in_namespace
async def test_an_address_may_be_added_again() -> None:
    with Netlink() as link:
        link.loopback_up()
        link.add_address("192.0.2.9")
        link.add_address("192.0.2.9")
        assert is_local("192.0.2.9")
        assert not is_local("192.0.2.10")


@in_namespace
async def test_the_kernel_s_refusal_names_the_object() -> None:
    with Netlink() as link, pytest.raises(OSError, match=r"local route 10\.9\.9\.9/32: ") as met:
        link.add_local_route("10.9.9.9", source="203.0.113.77")
    assert met.value.errno


def test_only_pod_addresses_are_pods() -> None:
    with closing(ClusterAddresses()) as addresses:
        with pytest.raises(ValueError, match="not in the pods' network"):
            addresses.add_pod_address("10.96.0.1")
        with pytest.raises(ValueError, match="not in the pods' network"):
            addresses.remove_pod_address("192.0.2.2")


@pytest.mark.parametrize("bad", [{"pod_cidr": "x"}, {"node_address": "fd00::1"}, {"own": ["1"]}])
def test_networks_must_be_networks(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        ClusterAddresses(**bad)  # type: ignore[arg-type]
