"""What concurrent connects to a Service without endpoints meet, by a real kernel's rules.

    python benchmarks/unreachable.py          as root, with `ip` and `nft`

Two network namespaces of its own, a pod's and a node's, and a link between them. The node rejects
one address and port with ICMP port unreachable, as kube-proxy does for a Service without endpoints.
The pod connects as `wget -T 3` does: a blocking connect that its kernel bounds. Nothing of the
embedded cluster takes part: this is what its `proxy.limit` stands for.

Prints one JSON document: the kernel's limits, and for each scenario how many were refused, when,
and how many timed out.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter

TARGET = ("10.96.0.7", 9090)
SYSCTLS = ("icmp_ratelimit", "icmp_ratemask", "icmp_msgs_per_sec", "icmp_msgs_burst")
RULES = """\
table ip sremut_unreachable {
  chain forward {
    type filter hook forward priority 0
    ip daddr %s tcp dport %d reject with icmp type port-unreachable
  }
}
"""
CLIENT = """
import json, socket, struct, sys, threading, time
count, together, limit = int(sys.argv[1]), sys.argv[2] == "together", float(sys.argv[3])
found = []
def one():
    client = socket.socket()
    bound = struct.pack("ll", int(limit), int(limit % 1 * 1e6))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
    began = time.monotonic()
    try:
        client.connect((sys.argv[4], int(sys.argv[5])))
        found.append(["connected", time.monotonic() - began])
    except BlockingIOError:
        found.append(["timed out", time.monotonic() - began])
    except ConnectionRefusedError:
        found.append(["refused", time.monotonic() - began])
if together:
    threads = [threading.Thread(target=one) for _ in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
else:
    [one() for _ in range(count)]
print(json.dumps(found))
"""
SCENARIOS = [
    ("ten at once, first", 10, True, 8.0),
    ("ten at once, at once again", 10, True, 0.0),
    ("ten at once, a third time", 10, True, 0.0),
    ("thirty at once", 30, True, 8.0),
    ("twelve one after another", 12, False, 8.0),
]


def main() -> int:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft", path=_path()):
        print("needs root, `ip` (iproute2) and `nft` (nftables)", file=sys.stderr)
        return 2
    mark = f"{os.getpid():x}"
    pod, node = f"sremut-pod-{mark}", f"sremut-node-{mark}"
    try:
        connect_namespaces(pod, node)
        limits = {name: _inside(node, "cat", f"/proc/sys/net/ipv4/{name}") for name in SYSCTLS}
        found = {}
        for name, count, together, rest in SCENARIOS:
            time.sleep(rest)  # the bucket fills by itself: there is no event to wait for
            found[name] = scenario(pod, count, together=together)
    finally:
        for name in (pod, node):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
    document = {"kernel": platform.release(), "limits": limits, "scenarios": found}
    print(json.dumps(document, indent=1))
    return 0


def connect_namespaces(pod: str, node: str) -> None:
    """A pod and its node, with the node's reject rule."""
    for name in (pod, node):
        _ip("netns", "add", name)
    _ip("link", "add", "eth0", "netns", pod, "type", "veth", "peer", "name", "cni0", "netns", node)
    for name, device, address in ((pod, "eth0", "10.244.0.2/24"), (node, "cni0", "10.244.0.1/24")):
        _ip("-n", name, "addr", "add", address, "dev", device)
        for one in (device, "lo"):
            _ip("-n", name, "link", "set", one, "up")
    _ip("-n", pod, "route", "add", "default", "via", "10.244.0.1")
    # Somewhere to go: what is forwarded passes the rule on its way.
    _ip("-n", node, "route", "add", "default", "dev", "lo")
    _inside(node, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    subprocess.run(
        ["ip", "netns", "exec", node, "nft", "-f", "-"],
        input=(RULES % TARGET).encode(),
        env={**os.environ, "PATH": _path()},
        check=True,
    )


def scenario(pod: str, count: int, *, together: bool) -> dict[str, object]:
    """How so many connects of at most three seconds end."""
    how = "together" if together else "one by one"
    target = (TARGET[0], str(TARGET[1]))
    told = _inside(pod, sys.executable, "-c", CLIENT, str(count), how, "3", *target)
    ends = json.loads(told)
    times = sorted(round(after, 2) for end, after in ends if end == "refused")
    return {**Counter(end for end, _ in ends), "refused after": times}


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _inside(namespace: str, *command: str) -> str:
    argv = ["ip", "netns", "exec", namespace, *command]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
