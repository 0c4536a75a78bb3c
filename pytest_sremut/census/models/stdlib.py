"""The standard library, as far as it moves values from one place to another.

Nothing here touches the cluster. Reading a copy of an object counts as reading the object, paths
stay texts, and a file that the benchmark would write exists only in the interpretation.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable
from typing import Final

from pytest_sremut.census.interpreter.core import call
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.modules import resolve
from pytest_sremut.census.interpreter.texts import external_text
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    Dict,
    Lazy,
    ListV,
    Native,
    Partial,
    PathV,
    Unknown,
    Value,
    copied,
)
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models import files

__all__ = ["STANDARD"]

Args = list[Value]
Kwargs = dict[str, Value]


def _copy(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    value = args[0] if args else Unknown()
    return copied(value)


def _first(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return args[0] if args else next(iter(kwargs.values()), Unknown())


def _path(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    texts = [files.plain_path(arg) for arg in args]
    return PathV("/".join(texts) if texts else ".")


def _path_join(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Const("/".join(external_text(arg).rstrip("/") for arg in args))


def _dirname(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Const(external_text(args[0] if args else None).rpartition("/")[0])


def _dedent(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    text = external_text(args[0] if args else None)
    return Const(textwrap.dedent(text))


def _quote(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    text = external_text(args[0] if args else None)
    return Const(text if HOLE.fullmatch(text) else shlex.quote(text))


def _shlex_join(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    items = args[0].items if args and isinstance(args[0], ListV) else []
    return Const(" ".join(files.plain_path(_quote(m, [item], {})) for item in items))


def _environment(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if len(args) > 1:
        return args[1]  # the value if the variable is not set
    return Unknown(f"environ_{external_text(args[0] if args else None)}")


def _partial(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Partial(args[0], args[1:], kwargs) if args else Unknown("partial")


def _temporary(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.order += 1
    suffix = external_text(kwargs.get("suffix"))
    return files.open_file(m, Const(f"/tmp/⟦tmp{m.order}⟧{suffix}"))  # noqa: S108 - a name, not a file


def _made(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.order += 1
    path = Const(f"/tmp/⟦tmp{m.order}⟧")  # noqa: S108
    return ListV([Unknown("fd"), path])


def _directory(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.order += 1
    return ListV([Const(f"/tmp/⟦dir{m.order}⟧")])  # noqa: S108


def _import_module(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    text = external_text(args[0] if args else None)
    if not text or HOLE.search(text):
        m.trail(Reason.UNRESOLVED_DISPATCH, f"import of {text or 'an unknown name'}")
        return Unknown("module", is_trail=True)
    return resolve(m, Lazy(text))


def _wraps(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Native(lambda given, _kwargs: given[0] if given else Unknown(), "wraps")


def _reduce(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Unknown("reduced")


def _default_dict(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    element = call(m, args[0], [], {}) if args else None
    return Dict({}, is_open=True, element=element)


def _dynamic_code(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.trail(Reason.UNRESOLVED_DISPATCH, "code made at run time")
    return Unknown("value", is_trail=True)


def _attrgetter(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Unknown("getter")


STANDARD: Final[dict[str, Callable[[Machine, Args, Kwargs], Value]]] = {
    "json.loads": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "json.load": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "yaml.safe_load": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "yaml.load": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "yaml.full_load": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "yaml.safe_load_all": lambda m, args, kwargs: files.load(m, args[0] if args else Unknown()),
    "json.dumps": files.dump,
    "json.dump": files.dump,
    "yaml.dump": files.dump,
    "yaml.safe_dump": files.dump,
    "yaml.dump_all": files.dump,
    "yaml.safe_dump_all": files.dump,
    "copy.deepcopy": _copy,
    "copy.copy": _copy,
    "functools.partial": _partial,
    "functools.wraps": _wraps,
    "functools.reduce": _reduce,
    "collections.defaultdict": _default_dict,
    "collections.OrderedDict": lambda m, args, kwargs: args[0] if args else Dict({}),
    "operator.attrgetter": _attrgetter,
    "pathlib.Path": _path,
    "pathlib.PurePath": _path,
    "os.path.join": _path_join,
    "os.path.dirname": _dirname,
    "os.path.abspath": _first,
    "os.path.realpath": _first,
    "os.path.expanduser": _first,
    "os.fspath": _first,
    "os.environ.get": _environment,
    "os.getenv": _environment,
    "textwrap.dedent": _dedent,
    "textwrap.indent": _first,
    "shlex.quote": _quote,
    "shlex.join": _shlex_join,
    "typing.cast": lambda m, args, kwargs: args[1] if len(args) > 1 else Unknown("cast"),
    "tempfile.NamedTemporaryFile": _temporary,
    "tempfile.mkstemp": _made,
    "tempfile.mkdtemp": _directory,
    "tempfile.TemporaryDirectory": _directory,
    "importlib.import_module": _import_module,
    "builtins.__import__": _import_module,
    "builtins.eval": _dynamic_code,
    "builtins.exec": _dynamic_code,
    "builtins.compile": _dynamic_code,
    "io.StringIO": lambda m, args, kwargs: files.open_file(m, Const(f"⟦memory{m.order}⟧")),
    "contextlib.nullcontext": _first,
}
