"""Requests for logs, commands and ports of pods: read and checked here, carried out elsewhere.

Rules kept here:

* the container that is meant must exist; with several the request must say which;
* what the kubelet will do is only described (`LogCall`, `ExecCall`, `ForwardCall`).
"""

from __future__ import annotations

from pytest_sremut.embedded.apiserver.answers import ExecCall, ForwardCall, LogCall
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.meta.errors import Cause, bad_request, invalid, not_found
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["exec_call", "forward_call", "log_call"]


def log_call(registry: Registry, request: Request, route: Route) -> LogCall:
    """Read a request for a container's log.

    Raises:
        ApiStatus: 400, 404 or 422.
    """
    pod = _pod(registry, route)
    numbers = {name: request.integer(name) for name in ("tailLines", "sinceSeconds", "limitBytes")}
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        number = numbers[name]
        if number is not None and number < least:
            wording = "greater than or equal to 0" if least == 0 else "greater than 0"
            cause = Cause(field=name, message=f"Invalid value: {number}: must be {wording}")
            raise invalid("PodLogOptions", route.name, [cause])
    return LogCall(
        namespace=route.namespace,
        pod=route.name,
        container=_container(pod, request.first("container")),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        tail_lines=numbers["tailLines"],
        since_time=request.first("sinceTime") or None,
        since_seconds=numbers["sinceSeconds"],
        timestamps=request.flag("timestamps"),
        limit_bytes=numbers["limitBytes"],
    )


def exec_call(
    registry: Registry, request: Request, route: Route, *, attach: bool = False
) -> ExecCall:
    """Read a request to run a command, or to follow what the container says by itself.

    Raises:
        ApiStatus: 400 or 404.
    """
    pod = _pod(registry, route)
    container = _container(pod, request.first("container"))
    argv = tuple(request.every("command"))
    if not argv and not attach:
        raise bad_request("you must specify at least 1 command for the container")
    streams = {name: request.flag(name) for name in ("stdin", "stdout", "stderr", "tty")}
    if not any(streams[name] for name in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return ExecCall(
        namespace=route.namespace,
        pod=route.name,
        container=container,
        argv=() if attach else argv,
        stdin=streams["stdin"],
        stdout=streams["stdout"],
        stderr=streams["stderr"] and not streams["tty"],
        tty=streams["tty"],
    )


def forward_call(registry: Registry, request: Request, route: Route) -> ForwardCall:
    """Read a request to forward ports.

    Raises:
        ApiStatus: 400 or 404.
    """
    _pod(registry, route)
    ports = []
    for text in request.every("ports"):
        for part in text.split(","):
            if not (part.isascii() and part.isdigit() and 0 < int(part[:6]) < 65536):
                raise bad_request(f'unable to parse "{part}" as a port')
            ports.append(int(part))
    return ForwardCall(namespace=route.namespace, pod=route.name, ports=tuple(ports))


def _pod(registry: Registry, route: Route) -> JsonObject:
    pod = registry.get("pods", route.namespace, route.name)
    if pod is None:
        raise not_found("pods", route.name)
    return pod


def _container(pod: JsonObject, wanted: str) -> str:
    """The container that is meant: the one named, or the only one."""
    name = pod["metadata"]["name"]
    spec = pod.get("spec") or {}
    init = [item.get("name", "") for item in spec.get("initContainers") or []]
    main = [item.get("name", "") for item in spec.get("containers") or []]
    if wanted:
        if wanted not in init + main:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(main) == 1:
        return str(main[0])
    default = (pod["metadata"].get("annotations") or {}).get(
        "kubectl.kubernetes.io/default-container"
    )
    if default in main:
        return str(default)
    listed = " ".join(main)
    message = f"a container name must be specified for pod {name}, choose one of: [{listed}]"
    if init:
        message += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(message)
