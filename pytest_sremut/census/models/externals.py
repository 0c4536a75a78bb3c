"""External libraries: what a call does to the cluster, if anything.

The standard library is a table. The rules say which modules have no effect at all. Following ends
at a library that neither names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_sremut.census.interpreter.core import call
from pytest_sremut.census.interpreter.items import iterate
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import external_text
from pytest_sremut.census.interpreter.values import Const, Ext, ListV, Native, Rec, Unknown, Value
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.commands import run_command
from pytest_sremut.census.models.kubernetes import call_client, call_dynamic
from pytest_sremut.census.models.signals import endpoint, on_node
from pytest_sremut.census.models.stdlib import STANDARD

__all__ = ["call_external"]

Args = list[Value]
Kwargs = dict[str, Value]


def call_external(m: Machine, ext: Ext, args: Args, kwargs: Kwargs) -> Value:
    """The value of calling an external name."""
    path = ext.path
    handler = _EXACT.get(path) or STANDARD.get(path)
    if handler is not None:
        return handler(m, args, kwargs)
    if path.startswith("kubernetes"):
        return call_client(m, ext, args, kwargs)
    for prefix, library in _LIBRARIES.items():
        if path.startswith(prefix):
            return library(m, path, args, kwargs)
    if m.rules.is_pure(path):
        return Ext(f"{path}()", args[0] if args else ext.about)
    if path.startswith("?"):
        return Unknown(path, is_trail=True)
    m.trail(Reason.EXTERNAL_CALL, path)
    return Ext(f"{path}()")


def _process(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    command = args[0] if args else kwargs.get("args", Unknown("command"))
    stdout = run_command(m, command, stdin=kwargs.get("input", Const(None)))
    return Rec(
        {
            "stdout": stdout,
            "stderr": Unknown("stderr"),
            "returncode": Unknown("returncode"),
            "communicate": Native(
                lambda _args, _kwargs: ListV([stdout, Unknown("stderr")]), "communicate"
            ),
            "pid": Unknown("pid"),
        },
        text="process",
    )


def _output(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    command = args[0] if args else Unknown("command")
    return run_command(m, command, stdin=kwargs.get("input", Const(None)))


def _http(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    method = path.rpartition(".")[2]
    if method in {"get", "post", "put", "patch", "delete", "head", "request", "urlopen"}:
        url = args[-1] if method == "request" and args else (args[0] if args else Unknown())
        if isinstance(url, Ext) and url.about is not None:
            url = url.about  # urllib.request.Request(url)
        endpoint(
            m, external_text(kwargs.get("url", url)), program=path.partition(".")[0], method=method
        )
        return Ext(f"{path}()")
    return Ext(f"{path}()", args[0] if args else None)


def _ssh(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    if path.rpartition(".")[2] == "exec_command":
        on_node(m, args[0] if args else Unknown("command"), program="ssh")
        return ListV([Unknown("stdin"), Unknown("stdout"), Unknown("stderr")])
    return Ext(f"{path}()")


def _socket(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    tail = path.rpartition(".")[2]
    if tail in {"gethostbyname", "getaddrinfo", "gethostbyname_ex"}:
        m.effect(
            "exec",
            "DNS",
            name="",
            fields=("socket",),
            detail=external_text(args[0] if args else None),
        )
    elif tail in {"create_connection", "connect", "connect_ex"}:
        m.effect("exec", "TCP", name="", fields=("socket",), detail="socket.connect")
    return Ext(f"{path}()")


def _threads(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    tail = path.rpartition(".")[2]
    if tail in {"Thread", "Process", "Timer"}:
        return _thread(m, tail, args, kwargs)
    if tail == "submit" and args:
        result = call(m, args[0], args[1:], kwargs)
        return Rec({"result": Native(lambda _args, _kwargs: result, "result")}, text="future")
    if tail == "map" and len(args) > 1:
        items, _ = iterate(m, args[1])
        return ListV([call(m, args[0], [item], {}) for item in items], is_open=True)
    if tail == "as_completed" and args:
        return args[0]
    return Ext(f"{path}()")


def _thread(m: Machine, tail: str, args: Args, kwargs: Kwargs) -> Value:
    target = kwargs.get("target", args[1] if tail == "Timer" and len(args) > 1 else Unknown())
    given = kwargs.get("args", ListV([]))
    items = given.items if isinstance(given, ListV) else []

    def start(_args: Args, _kwargs: Kwargs) -> Value:
        with m.maybe():
            call(m, target, items, {})
        return Const(None)

    nothing = Native(lambda _args, _kwargs: Const(None), "join")
    attrs: dict[str, Value] = {"start": Native(start, "start"), "join": nothing}
    attrs["is_alive"] = Native(lambda _args, _kwargs: Unknown("alive"), "is_alive")
    return Rec(attrs, text="thread")


def _sleep(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.sleeps += 1
    detail = external_text(args[0]) if args else ""
    m.effect("sleep", "time", detail=detail)
    return Const(None)


_EXACT: Final[dict[str, Callable[[Machine, Args, Kwargs], Value]]] = {
    "subprocess.run": _process,
    "subprocess.Popen": _process,
    "subprocess.CompletedProcess": lambda m, args, kwargs: Rec(dict(kwargs), text="process"),
    "subprocess.call": _process,
    "subprocess.check_call": _process,
    "subprocess.check_output": _output,
    "subprocess.getoutput": _output,
    "os.system": _output,
    "os.popen": _process,
    "time.sleep": _sleep,
    "asyncio.sleep": _sleep,
}


_LIBRARIES: Final[dict[str, Callable[[Machine, str, Args, Kwargs], Value]]] = {
    "requests.": _http,
    "httpx.": _http,
    "urllib.request.": _http,
    "urllib3.": _http,
    "http.client.": _http,
    "socket.": _socket,
    "dynamic:": call_dynamic,
    "threading.": _threads,
    "concurrent.futures.": _threads,
    "multiprocessing.": _threads,
    "paramiko.": _ssh,
}
