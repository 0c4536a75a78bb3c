"""What the self-test expects, as recorded from pods of a real Kubernetes. Data.

Rules kept here: each expectation names the recording (file and command) that it repeats; where the
program's own timeout is shortened, nothing else differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EXPECTATIONS", "Expectation", "When"]

When = Literal["at once", "after 1 s", "at its timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One recorded command.

    ``argv``, ``stdout`` and ``stderr`` are templates over `Stage.names`; of the streams the lines
    that are not blank count. ``timeout``: the program's own, in seconds. ``source`` and
    ``command``: file and command line of the recording.
    """

    name: str
    argv: tuple[str, ...]
    exit_code: int
    source: str
    command: str
    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    when: When = "at once"
    timeout: float = 0.0

    @property
    def tool(self) -> str:
        """The program."""
        return self.argv[0]


_BASELINE = "v1.36.2/03-service/003-baseline.probe.json"
_DELETED = "v1.36.2/03-service/008-deleted.probe.json"
_NO_MATCH = "v1.36.2/03-service/011-nomatch.probe.json"
_CLOSED_PORT = "v1.36.2/03-service/015-port65535.probe.json"
_TIMING = "v1.36.2/07-connect-timing"
_SERVER_LINES = ("Server:\t\t{dns}", "Address:\t{dns}:53")

_WGET = "wget -T 3 -qO- http://web/"


def _nc(host: str, port: int, *, wait: int, says: bool = False) -> tuple[str, ...]:
    return ("nc", "-zv" if says else "-z", "-w", str(wait), host, str(port))


def _wget(host: str) -> tuple[str, ...]:
    return ("wget", "-T", "3", "-qO-", f"http://{host}/")


EXPECTATIONS = (
    Expectation(
        name="no endpoints, nc",
        argv=_nc("{empty}", 80, wait=5, says=True),
        exit_code=1,
        when="after 1 s",
        source=f"{_TIMING}/004-pod-zero.probe.json",
        command="nc -zv -w 5 10.43.78.241 80",
    ),
    Expectation(
        name="no endpoints, wget",
        argv=_wget("{empty_name}"),
        exit_code=1,
        stderr=("wget: can't connect to remote host ({empty}): Connection refused",),
        when="after 1 s",
        source=_NO_MATCH,
        command=_WGET,
    ),
    Expectation(
        name="address of a deleted Service, nc",
        argv=_nc("{deleted}", 80, wait=1, says=True),
        exit_code=1,
        stderr=("nc: {deleted} ({deleted}:80): Connection timed out",),
        when="at its timeout",
        timeout=1,
        source=f"{_TIMING}/008-pod-gone.probe.json",
        command="nc -zv -w 5 10.43.73.31 80",
    ),
    Expectation(
        name="port that the Service does not have, nc",
        argv=_nc("{good}", 81, wait=1),
        exit_code=1,
        when="at its timeout",
        timeout=1,
        source=_BASELINE,
        command="nc -z -w 3 web 81",
    ),
    Expectation(
        name="address of a pod that is gone, nc",
        argv=_nc("{gone_pod}", 8080, wait=1),
        exit_code=1,
        when="at its timeout",
        timeout=1,
        source=_BASELINE,
        command="nc -z -w 3 10.42.0.250 8080",
    ),
    Expectation(
        name="known name, nslookup",
        argv=("nslookup", "{good_name}"),
        exit_code=0,
        stdout=(*_SERVER_LINES, "Name:\t{good_name}", "Address: {good}"),
        source=_BASELINE,
        command="nslookup web.golden-svc.svc.cluster.local",
    ),
    Expectation(
        name="unknown name, nslookup",
        argv=("nslookup", "{deleted_name}"),
        exit_code=1,
        stdout=(*_SERVER_LINES, *(("** server can't find {deleted_name}: NXDOMAIN",) * 2)),
        source=_DELETED,
        command="nslookup web.golden-svc.svc.cluster.local",
    ),
    Expectation(
        name="good Service by name, nc",
        argv=_nc("{good_name}", 80, wait=3),
        exit_code=0,
        source=_BASELINE,
        command="nc -z -w 3 web 80",
    ),
    Expectation(
        name="good Service by address, nc",
        argv=_nc("{good}", 80, wait=5, says=True),
        exit_code=0,
        stderr=("{good} ({good}:80) open",),
        source=f"{_TIMING}/002-pod-ok.probe.json",
        command="nc -zv -w 5 10.43.92.227 80",
    ),
    Expectation(
        name="closed target port, nc",
        argv=_nc("{closed}", 80, wait=5, says=True),
        exit_code=1,
        source=f"{_TIMING}/006-pod-closed.probe.json",
        command="nc -zv -w 5 10.43.34.80 80",
    ),
    Expectation(
        name="closed port of a pod, nc",
        argv=_nc("{pod}", 9999, wait=3),
        exit_code=1,
        source=_BASELINE,
        command="nc -z -w 3 10.42.0.4 9999",
    ),
    Expectation(
        name="unknown name, nc",
        argv=_nc("{deleted_name}", 80, wait=3),
        exit_code=1,
        stderr=("nc: bad address '{deleted_name}'",),
        source=_DELETED,
        command="nc -z -w 3 web 80",
    ),
    Expectation(
        name="good Service, wget",
        argv=_wget("{good_name}"),
        exit_code=0,
        stdout=("{body}",),
        source=_BASELINE,
        command=_WGET,
    ),
    Expectation(
        name="closed target port, wget",
        argv=_wget("{closed_name}"),
        exit_code=1,
        stderr=("wget: can't connect to remote host ({closed}): Connection refused",),
        source=_CLOSED_PORT,
        command=_WGET,
    ),
    Expectation(
        name="unknown name, wget",
        argv=_wget("{deleted_name}"),
        exit_code=1,
        stderr=("wget: bad address '{deleted_name}'",),
        source=_DELETED,
        command=_WGET,
    ),
)
