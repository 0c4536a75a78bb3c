"""Links, addresses, routes and rules of the current network namespace, over rtnetlink.

Rules kept here:

* standard library only: no ``ip`` command, no kernel module beyond IPv4 itself;
* one request, one acknowledgement: a call returns after the kernel did it, or raises `OSError` with
  the kernel's errno and a sentence that names the object;
* a socket belongs to the network namespace in which the object was made.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from types import TracebackType

__all__ = ["LOCAL", "MAIN", "Netlink"]

LOCAL = 255
"""The table that says which addresses are this machine's."""
MAIN = 254

_NEWLINK, _NEWADDR = 16, 20
_NEWROUTE, _DELROUTE, _NEWRULE, _DELRULE = 24, 25, 32, 33
_ERROR = 2
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE = 0x1, 0x4, 0x100, 0x200, 0x400

_UNICAST, _LOCAL_TYPE = 1, 2
_SCOPE_LINK, _SCOPE_HOST = 253, 254
_PROTOCOL_STATIC = 4
_ACTION_TO_TABLE = 1

_RTA_DST, _RTA_OIF, _RTA_PREFSRC = 1, 4, 7
_FRA_DST, _FRA_PRIORITY, _FRA_IP_PROTO, _FRA_DPORT_RANGE = 1, 6, 22, 24
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFF_UP = 1

_HEADER = struct.Struct("=IHHII")


class Netlink:
    """A NETLINK_ROUTE socket. Also a context manager.

    Raises:
        OSError: the kernel gives no such socket.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0
        self._loopback = socket.if_nametoindex("lo")

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def loopback_up(self) -> None:
        """Bring ``lo`` up; the kernel then adds 127.0.0.1/8 itself."""
        body = struct.pack("=BBHiII", socket.AF_UNSPEC, 0, 0, self._loopback, _IFF_UP, _IFF_UP)
        self._request(_NEWLINK, 0, body, "cannot bring lo up")

    def add_address(self, address: str, prefix: int = 32) -> None:
        """Give ``lo`` an address; one that is there already is no error."""
        self._request(
            _NEWADDR,
            _CREATE | _REPLACE,
            self._address(address, prefix),
            f"cannot add the address {address}/{prefix} to lo",
        )

    def add_unicast_route(self, address: str, prefix: int, *, source: str) -> None:
        """Route a network out through ``lo``.

        Nothing forwards what comes back in on ``lo``, so addresses in it that are not local are a
        black hole: neither refused nor unreachable.
        """
        body = self._route(address, prefix, source, unicast=True)
        self._request(
            _NEWROUTE, _CREATE | _REPLACE, body, f"cannot add the route {address}/{prefix}"
        )

    def add_local_route(self, address: str, prefix: int = 32, *, source: str) -> None:
        """Make a network local, with `source` as what its unbound clients get as their own."""
        body = self._route(address, prefix, source, unicast=False)
        self._request(
            _NEWROUTE,
            _CREATE | _REPLACE,
            body,
            f"cannot add the local route {address}/{prefix}",
        )

    def remove_local_route(self, address: str, prefix: int = 32) -> None:
        """Undo `add_local_route`; a route that is not there is no error."""
        body = self._route(address, prefix, None, unicast=False)
        self._request(
            _DELROUTE,
            0,
            body,
            f"cannot remove the local route {address}/{prefix}",
            absent=errno.ESRCH,
        )

    def add_rule(
        self,
        priority: int,
        table: int,
        *,
        to: tuple[str, int] | None = None,
        tcp_port: int | None = None,
    ) -> None:
        """Look destinations (network, and port of TCP) up in `table`; one there is no error."""
        body = self._rule(priority, table, to, tcp_port)
        what = f"cannot add the routing rule {priority} to {to} port {tcp_port}"
        self._request(_NEWRULE, _CREATE | _EXCL, body, what, absent=errno.EEXIST)

    def remove_rule(
        self,
        priority: int,
        table: int,
        *,
        to: tuple[str, int] | None = None,
        tcp_port: int | None = None,
    ) -> None:
        """Undo `add_rule`; a rule that is not there is no error."""
        body = self._rule(priority, table, to, tcp_port)
        what = f"cannot remove the routing rule {priority} to {to} port {tcp_port}"
        self._request(_DELRULE, 0, body, what, absent=errno.ENOENT)

    def _address(self, address: str, prefix: int) -> bytes:
        raw = socket.inet_aton(address)
        header = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, _SCOPE_HOST, self._loopback)
        return header + _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw)

    def _route(self, address: str, prefix: int, source: str | None, *, unicast: bool) -> bytes:
        place = (
            (MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST)
            if unicast
            else (LOCAL, _PROTOCOL_STATIC, _SCOPE_HOST, _LOCAL_TYPE)
        )
        header = struct.pack("=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, *place, 0)
        body = header + _attribute(_RTA_OIF, struct.pack("=I", self._loopback))
        if prefix:
            body += _attribute(_RTA_DST, socket.inet_aton(address))
        if source is not None:
            body += _attribute(_RTA_PREFSRC, socket.inet_aton(source))
        return body

    @staticmethod
    def _rule(priority: int, table: int, to: tuple[str, int] | None, tcp_port: int | None) -> bytes:
        body = struct.pack(
            "=BBBBBBBBI",
            socket.AF_INET,
            to[1] if to else 0,
            0,
            0,
            table,
            0,
            0,
            _ACTION_TO_TABLE,
            0,
        )
        body += _attribute(_FRA_PRIORITY, struct.pack("=I", priority))
        if to:
            body += _attribute(_FRA_DST, socket.inet_aton(to[0]))
        if tcp_port is not None:
            body += _attribute(_FRA_IP_PROTO, struct.pack("=B", socket.IPPROTO_TCP))
            body += _attribute(_FRA_DPORT_RANGE, struct.pack("=HH", tcp_port, tcp_port))
        return body

    def _request(self, kind: int, flags: int, body: bytes, what: str, *, absent: int = 0) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        header = _HEADER.pack(length, kind, flags | _REQUEST | _ACK, self._sequence, 0)
        self._socket.send(header + body)
        while True:
            answer = self._socket.recv(65536)
            _length, answered, _flags, sequence, _pid = _HEADER.unpack_from(answer)
            if answered == _ERROR and sequence == self._sequence:
                break
        code = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if code and code != absent:
            raise OSError(code, f"{what}: {os.strerror(code)}")


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)
