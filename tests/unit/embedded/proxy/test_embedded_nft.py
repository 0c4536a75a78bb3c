"""The rules given to nft, as text; what they do is tested with the proxy."""

from __future__ import annotations

import shutil
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import needs
import pytest
from embedded_netns import connecting, in_child, in_namespace

from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.nft import Nft, NftError, ruleset
from pytest_sremut.embedded.proxy.table import Action, Backend, Destination, Route

NETWORK = IPv4Network("10.96.0.0/12")
NFT = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")


def at(number: int, protocol: str = "TCP") -> Destination:
    return Destination(address=f"10.96.1.{number}", port=80, protocol=protocol)


def route(*backends: str, action: Action = "forward", sticky: bool = False) -> Route:
    return Route(
        service="demo/web:80",
        action=action,
        backends=tuple(Backend(address=address, port=8080) for address in backends),
        sticky=sticky,
    )


TABLE = {
    at(1): route("10.244.0.1"),
    at(2): route("10.244.0.1", "10.244.0.2"),
    at(3): route("10.244.0.1", "10.244.0.2", sticky=True),
    at(4): route(action="reject"),
    at(5): route(action="drop"),
    at(6, "UDP"): route("10.244.0.1"),
    at(7, "SCTP"): route("10.244.0.3"),
}


def test_each_kind_of_route() -> None:
    text = ruleset(TABLE, NETWORK, own=["10.96.0.10"])
    assert "dnat to 10.244.0.1:8080" in text
    assert "numgen random mod 2 map { 0 : 10.244.0.1 . 8080, 1 : 10.244.0.2 . 8080 }" in text
    assert "jhash ip saddr mod 2 map" in text
    assert "10.96.1.6 . udp . 80 : goto" in text
    assert "elements = { 10.96.1.4 . tcp . 80 }" in text
    assert "10.96.1.5" not in text
    assert "ip daddr 10.96.0.10 accept" in text
    assert "ip daddr 10.96.0.0/12 drop" in text


def test_same_backends_share_a_chain_and_order_does_not_matter() -> None:
    table = {at(number): route("10.244.0.1") for number in range(1, 9)}
    text = ruleset(table, NETWORK)
    assert text.count("chain to-") == 1
    assert ruleset(dict(reversed(table.items())), NETWORK) == text


def test_the_table_is_replaced_in_one_piece() -> None:
    lines = ruleset({}, NETWORK, name="mine").splitlines()
    assert lines[:3] == ["add table ip mine", "delete table ip mine", "table ip mine {"]


@needs.program("nft")
@pytest.mark.parametrize("table", [{}, TABLE, {at(1): route(action="reject")}])
def test_nft_takes_it(table: dict[Destination, Route]) -> None:
    def body() -> tuple[int, str]:
        assert NFT is not None
        done = subprocess.run(
            [NFT, "-f", "-"],
            input=ruleset(table, NETWORK, own=["10.96.0.1"]),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    assert in_child(body) == (0, "")


@in_namespace
async def test_missing_program_is_named() -> None:
    addresses = ClusterAddresses()
    with pytest.raises(NftError, match=r"/nonexistent/nft: No such file"):
        await Nft("/nonexistent/nft", addresses).start()
    addresses.close()


@in_namespace
async def test_failing_program_s_words_are_kept(tmp_path: Path) -> None:
    bad = tmp_path / "nft"
    bad.write_text("#!/bin/sh\necho 'cannot do that' >&2\nexit 3\n")
    bad.chmod(0o755)
    addresses = ClusterAddresses()
    with pytest.raises(NftError, match="cannot do that"):
        await Nft(str(bad), addresses).start()
    addresses.close()


@needs.program("nft")
@in_namespace
async def test_check_leaves_nothing() -> None:
    assert NFT is not None
    addresses = ClusterAddresses()
    addresses.prepare()
    nft = Nft(NFT, addresses)
    await nft.check()
    listed = subprocess.run([NFT, "list", "ruleset"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    assert (await connecting("203.0.113.3", 80, patience=0.2)).result == "timed out"
    addresses.close()
