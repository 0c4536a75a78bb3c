"""Which addresses of the cluster are local, and which are a black hole.

Rules kept here:

* every cluster address is routed to ``lo``; what is not local there is dropped, as on a network
  where nobody answers: a connect times out, it is neither refused nor unreachable;
* a pod's address is local exactly while the pod lives (`add_pod_address`, `remove_pod_address`), so
  a Service or a client pinned to a dead pod's address times out, as it does on a real cluster;
* unbound clients get the node's address as their source, never the address that they ask for;
* the cluster's own addresses (API, DNS) are always local;
* whether a Service's *port* is local is decided per port (`open_port`), by routing rules that match
  ports (Linux 4.17, ``CONFIG_IP_MULTIPLE_TABLES``). Without those a Service's whole address is
  local while one of its ports is, and a port that it does not have is refused instead of dropped:
  `ports_are_selective` says which.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network

from pytest_sremut.embedded.linux.netlink import LOCAL, MAIN, Netlink

__all__ = [
    "API_ADDRESS",
    "DNS_ADDRESS",
    "NODE_ADDRESS",
    "POD_CIDR",
    "SERVICE_CIDR",
    "ClusterAddresses",
]

POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/12"
NODE_ADDRESS = "192.0.2.2"
API_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"

# Evaluated in this order; the kernel's own local rule moves from 0 to _LOCAL_RULE.
_PORT_RULE, _SERVICE_RULE, _LOCAL_RULE = 10, 500, 1000
_NO_PORT_RULES = {errno.EOPNOTSUPP, errno.EINVAL, errno.EAFNOSUPPORT}


class ClusterAddresses:
    """The cluster's addresses in the network namespace in which this object is made.

    Args:
        pod_cidr: network of the pods.
        service_cidr: network of the Services' addresses.
        node_address: the node's address; also the source of clients that bind none.
        own: addresses inside `service_cidr` that the cluster itself serves on any port.

    Raises:
        OSError: no rtnetlink socket.
        ValueError: not IPv4 networks or addresses.
    """

    def __init__(
        self,
        *,
        pod_cidr: str = POD_CIDR,
        service_cidr: str = SERVICE_CIDR,
        node_address: str = NODE_ADDRESS,
        own: Collection[str] = (API_ADDRESS, DNS_ADDRESS),
    ) -> None:
        self.pod_network = IPv4Network(pod_cidr)
        self.service_network = IPv4Network(service_cidr)
        self.node_address = str(IPv4Address(node_address))
        self.own = tuple(str(IPv4Address(address)) for address in own)
        self.ports_are_selective = False
        self.changes = 0
        """Counts changes of the pods' addresses: equal counts, same addresses."""
        self._open: dict[str, set[int]] = {}
        self._netlink = Netlink()

    def close(self) -> None:
        """Give the netlink socket back; addresses and routes stay."""
        self._netlink.close()

    def prepare(self) -> None:
        """Bring ``lo`` up, give the node and the cluster their addresses; may be repeated.

        Raises:
            OSError: the kernel refuses (not root in this network namespace).
        """
        link = self._netlink
        link.loopback_up()
        link.add_address(self.node_address)
        # The default route makes strangers' addresses a black hole too, as in an isolated cluster.
        for network in (self.pod_network, self.service_network, IPv4Network("0.0.0.0/0")):
            link.add_unicast_route(
                str(network.network_address), network.prefixlen, source=self.node_address
            )
        for address in self.own:
            link.add_local_route(address, source=self.node_address)

    def add_pod_address(self, address: str) -> None:
        """Make a pod's address local. There already: no error.

        Raises:
            ValueError: `address` is not in the pods' network.
            OSError: the kernel refuses.
        """
        self._netlink.add_local_route(self._pod(address), source=self.node_address)
        self.changes += 1

    def remove_pod_address(self, address: str) -> None:
        """Make a dead pod's address a black hole. Not local anyway: no error.

        Raises:
            ValueError: `address` is not in the pods' network.
            OSError: the kernel refuses.
        """
        self._netlink.remove_local_route(self._pod(address))
        self.changes += 1

    def select_ports(self) -> bool:
        """Let only opened ports of Services' addresses be local; False where the kernel cannot."""
        link = self._netlink
        try:
            for address in self.own:
                link.add_rule(_PORT_RULE, LOCAL, to=(address, 32))
            # A rule that no packet matches shows whether ports can be matched at all.
            link.add_rule(_PORT_RULE, LOCAL, to=(self.own[0], 32), tcp_port=1)
        except OSError as error:
            if error.errno not in _NO_PORT_RULES:
                raise
            return False
        link.remove_rule(_PORT_RULE, LOCAL, to=(self.own[0], 32), tcp_port=1)
        network = self.service_network
        link.add_rule(_SERVICE_RULE, MAIN, to=(str(network.network_address), network.prefixlen))
        link.add_rule(_LOCAL_RULE, LOCAL)
        link.remove_rule(0, LOCAL)
        self.ports_are_selective = True
        return True

    def open_port(self, address: str, port: int) -> None:
        """Make TCP `port` of a Service's `address` local."""
        ports = self._open.setdefault(address, set())
        if not ports:
            self._netlink.add_local_route(address, source=self.node_address)
        if port not in ports and self.ports_are_selective:
            self._netlink.add_rule(_PORT_RULE, LOCAL, to=(address, 32), tcp_port=port)
        ports.add(port)

    def close_port(self, address: str, port: int) -> None:
        """Undo `open_port`."""
        ports = self._open.get(address, set())
        if port not in ports:
            return
        if self.ports_are_selective:
            self._netlink.remove_rule(_PORT_RULE, LOCAL, to=(address, 32), tcp_port=port)
        ports.discard(port)
        if not ports:
            del self._open[address]
            self._netlink.remove_local_route(address)

    def open_network(self, network: IPv4Network) -> None:
        """Make a whole network local: for a driver that sorts its packets itself."""
        self._netlink.add_local_route(
            str(network.network_address), network.prefixlen, source=self.node_address
        )

    def close_network(self, network: IPv4Network) -> None:
        """Undo `open_network`."""
        self._netlink.remove_local_route(str(network.network_address), network.prefixlen)

    def _pod(self, address: str) -> str:
        if IPv4Address(address) not in self.pod_network:
            raise ValueError(f"{address} is not in the pods' network {self.pod_network}")
        return address
