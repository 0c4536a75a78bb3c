"""What `doctor` tries in a child process: each step that the embedded cluster takes at its start.

Rules kept here: one finding a line, as JSON, written as soon as it is known, so that a probe that
hangs or dies does not take the others with it; after a needed step failed nothing more is tried.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_sremut.embedded.dns.server import DnsServer
from pytest_sremut.embedded.linux import syscalls
from pytest_sremut.embedded.proxy.addresses import DNS_ADDRESS, ClusterAddresses
from pytest_sremut.embedded.proxy.proxy import ProxyError, ServiceProxy
from pytest_sremut.embedded.selftest.checks import TOOLS, Check, failed
from pytest_sremut.embedded.selftest.selftest import Stage, check_tool

_ALLOW_NAMESPACES = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a "
    "container: its seccomp profile), or run as root with CAP_SYS_ADMIN"
)
_BY_ERRNO = {
    errno.ENOSPC: "raise the sysctl user.max_user_namespaces",
    errno.EPERM: _ALLOW_NAMESPACES,
    errno.EACCES: _ALLOW_NAMESPACES,
    errno.ENOSYS: "use a kernel with namespaces",
    errno.EINVAL: "use a kernel with user namespaces (CONFIG_USER_NS)",
}


def _try_all() -> None:
    for check in _probes():
        _say(check)
        if not check.ok and check.needed:
            return
    asyncio.run(_say_services())


async def _say_services() -> None:
    async for check in _services():
        _say(check)


def _say(check: Check) -> None:
    sys.stdout.write(json.dumps(asdict(check)) + "\n")
    sys.stdout.flush()


def _probes() -> Iterator[Check]:
    uid, gid = os.geteuid(), os.getegid()

    def user() -> str:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            Path("/proc/self", name).write_text(text, encoding="ascii")
        return f"entered, user {uid} is root inside"

    check = _try("user namespace", "unshare(CLONE_NEWUSER) and map the user", user)
    if not check.ok and uid == 0:
        # Root with CAP_SYS_ADMIN needs no user namespace; whether it has that shows next.
        check = Check(name=check.name, ok=True, detail=f"{check.detail}; going on as root")
    yield check

    def network() -> str:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        ClusterAddresses().prepare()
        return "entered, lo is up"

    def mounts() -> str:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        bound = _own_resolv_conf()
        return f"entered, {bound} can be bound over"

    def processes() -> str:
        syscalls.unshare(syscalls.CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            os._exit(0 if os.getpid() == 1 else 1)
        _, status = os.waitpid(child, 0)
        return "entered" if status == 0 else "entered, but its first process is not number 1"

    yield _try("network namespace", "unshare(CLONE_NEWNET) and bring lo up", network)
    yield _try("mount namespace", "unshare(CLONE_NEWNS) and bind /etc/resolv.conf", mounts)
    # In a child: later children would be born into the new one, which ends with its first.
    yield _in_fork(lambda: _try("pid namespace", "unshare(CLONE_NEWPID) and fork", processes))

    def addresses() -> str:
        cluster = ClusterAddresses()
        cluster.add_pod_address("10.244.255.250")
        with socket.create_server(("10.244.255.250", 0)):
            pass
        selective = cluster.select_ports()
        return "local per port" if selective else "local per address (no rules by port)"

    yield _try("cluster addresses", "add routes and rules to lo", addresses)
    yield _try(
        "packet sockets",
        "open an AF_PACKET socket",
        lambda: _opened(socket.AF_PACKET, socket.SOCK_DGRAM, 0),
    )
    yield _try(
        "raw sockets",
        "open a raw ICMP socket",
        lambda: _opened(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    )


def _try(name: str, step: str, action: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, detail=action())
    except OSError as error:
        number = error.errno or 0
        return failed(name, step, error, advice=_BY_ERRNO.get(number, _ALLOW_NAMESPACES))


def _opened(family: int, kind: int, protocol: int) -> str:
    socket.socket(family, kind, protocol).close()
    return "can be opened"


def _own_resolv_conf() -> str:
    """Bind one over this machine's, or over any file where it has none."""
    handle, path = tempfile.mkstemp(prefix="sremut-")
    try:
        text = "nameserver 10.96.0.10\nsearch svc.cluster.local cluster.local\noptions ndots:5\n"
        os.write(handle, text.encode())
        target = "/etc/resolv.conf" if Path("/etc/resolv.conf").exists() else path
        syscalls.mount(path, target, flags=syscalls.MS_BIND)
    finally:
        os.close(handle)
    if target != path:
        # The mount keeps the file.
        Path(path).unlink()
    return target


def _in_fork(action: Callable[[], Check]) -> Check:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(asdict(action())).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        text = source.read()
    os.waitpid(child, 0)
    return Check(**json.loads(text))


class _NothingYet:
    """A registry with nothing in it."""

    def list(self, _resource: str, _namespace: str = "") -> list[dict[str, Any]]:
        return []

    def subscribe(self, _callback: Callable[[Any], None], *_names: str) -> Callable[[], None]:
        return lambda: None


async def _nft(addresses: ClusterAddresses) -> Check:
    proxy = ServiceProxy(_NothingYet(), addresses=addresses, mode="nft")
    try:
        await proxy.start()
    except ProxyError as error:
        return Check(
            name="nft",
            ok=False,
            needed=False,
            detail=str(error),
            step="route test connections with nft",
            advice="none needed: Services are then forwarded without it, with the same answers",
        )
    facts = proxy.facts()["nft"]
    await proxy.stop()
    return Check(name="nft", ok=True, needed=False, detail=f"{facts['version']}, {facts['path']}")


async def _services() -> AsyncIterator[Check]:
    addresses = ClusterAddresses()
    yield await _nft(addresses)
    dns = DnsServer(_NothingYet(), address=DNS_ADDRESS)
    proxy = ServiceProxy(_NothingYet(), addresses=addresses, mode="forwarder")
    try:
        await dns.start()
        await proxy.start()
    except OSError as error:
        yield failed("Service routing", "start DNS and the forwarder", error)
        return
    ports = proxy.facts()["other_ports"]
    detail = f"without nft as well; ports that a Service does not have are {ports}"
    yield Check(name="Service routing", ok=True, detail=detail)
    async with Stage(router=proxy, dns=dns, addresses=addresses) as stage:
        for tool in TOOLS:
            yield await _tool(tool, stage)
    await proxy.stop()
    await dns.stop()


async def _tool(tool: str, stage: Stage) -> Check:
    path = shutil.which(tool)
    deviations = await check_tool(tool, path, stage=stage) if path else ["not on PATH"]
    return Check(
        name=f"machine's {tool}",
        ok=not deviations,
        needed=False,
        detail=f"{path or 'none'}: {'; '.join(deviations) or 'as recorded'}",
        advice="none needed: pods get our own" if deviations else "",
    )


if __name__ == "__main__":
    _try_all()
