"""One benchmark's oracle in the process of one reading: made, given its problem, called.

Rules kept here:

* the problem object has what the layout, the study and the oracle's own `problem` say, and nothing
  else; the last of these are set for this one call and deleted after it;
* attributes that must be absent are asserted to be absent before anything is called;
* what the oracle or its constructor raises, `SystemExit` included, is its ERROR; what goes wrong
  while its problem is made is ours;
* what is noted here of a call is shown, and never decided upon: the oracle's code ran beside it;
* nothing is patched: not the classes, not the modules, not the client.

Standard library only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles.benchmark.layout import Application, Call, Layout
from pytest_sremut.oracles.benchmark.source import CheckoutImports
from pytest_sremut.oracles.benchmark.state import difference, reachable, restore, snapshot
from pytest_sremut.oracles.oracle_port import Raised, json_ready, raised_as_text
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.oracles.serving import Begun
from pytest_sremut.oracles.told import Told
from pytest_sremut.study.model import BenchmarkPins

__all__ = ["Subject"]


class Subject:
    """Everything about one request that several tasks need.

    Args:
        imports: The checkout's modules.
        layout: The benchmark's seams.
        request: What is asked.
        classes: `use` of each oracle -> `module:Class`.
    """

    def __init__(
        self,
        imports: CheckoutImports,
        layout: Layout,
        request: ReadingRequest,
        classes: Mapping[str, str],
    ) -> None:
        if request.benchmark is None:
            raise HarnessError("the request names no benchmark")
        self._imports = imports
        self._layout = layout
        self._request = request
        self._classes = classes
        self._pins: BenchmarkPins = request.benchmark
        self._fault = ""
        self._given_to_it: set[int] = set()
        self.notes: dict[str, Any] = {}

    # -- tasks --------------------------------------------------------------------------------

    def read(self, begun: Begun) -> Told:
        """Evaluate once. Raises HarnessError or UsageError before `begun` was called."""
        problem = self._problem()
        self._assert_absent(problem)
        for place in self._classes.values():
            self._imports.find(place)
        sources = self._sources()
        returned: Any = None
        raised: Raised | None = None
        with self._given(problem):
            begun()
            try:
                oracle = self._built(self._request.oracle, problem)
                self._restore(oracle)
                returned = json_ready(getattr(oracle, self._layout.evaluate)())
            except BaseException as error:
                raised = raised_as_text(error)
        notes = {"problem": {"class": self._pins.problem_class, **self.notes}, "sources": sources}
        return Told(returned=returned, exception=raised, notes=notes)

    def capture(self) -> dict[str, Any]:
        """Let the oracle see the healthy state; what that changed in it. Raises HarnessError."""
        problem = self._problem()
        with self._given(problem):
            oracle = self._guarded("make", lambda: self._built(self._request.oracle, problem))
            method = getattr(oracle, self._layout.capture, None)
            if not callable(method):
                return {}
            before = snapshot(oracle, self._ours)
            self._guarded(f"{self._layout.capture}() of", method)
            return difference(before, oracle, self._ours)

    def diagnose(self) -> dict[str, Any]:
        """Call a method of the oracle, or of those it is made of, once each, and say what came.

        The problem is the one that the reading had. Whatever comes of it touches no verdict.
        """
        method = self._request.oracle.diagnostic
        problem = self._problem()
        self._assert_absent(problem)
        calls: list[dict[str, Any]] = []
        with self._given(problem):
            oracle = self._guarded("make", lambda: self._built(self._request.oracle, problem))
            self._restore(oracle)
            for path, item in reachable(oracle, self._ours):
                if callable(getattr(item, method, None)):
                    seen = {name: _seen(problem, name) for name in self._watched()}
                    calls.append({"at": path, "attributes": seen, **_called(item, method)})
        if not calls:
            raise UsageError(f"oracle {self._request.oracle.id}: no method {method} to diagnose")
        return {"method": method, "calls": calls}

    def operate(self, call: Call, fault: str) -> dict[str, Any]:
        """Let the benchmark's injector inject or recover. Raises HarnessError."""
        self._fault = fault
        layout = self._layout
        if not layout.injector:
            raise UsageError(f"the layout {layout.name} has no fault injector")
        make = self._imports.find(layout.injector)
        begun = time.perf_counter()

        def act() -> Any:
            injector = make(**self._filled(layout.injector_arguments))
            return getattr(injector, call.method)(**self._filled(call.arguments))

        returned = self._guarded(f"{call.method} of {layout.injector}:", act)
        return {"returned": json_ready(returned), "elapsed": time.perf_counter() - begun}

    def deploy(self, application: Application, call: Call) -> dict[str, Any]:
        """Let the benchmark deploy an application or take it away. Raises HarnessError.

        Raises:
            GuardRefusedError: Its code writes to another namespace than the study's.
        """
        make = self._imports.find(application.deployer)
        what = f"{application.deployer}.{call.method}() of"
        begun = time.perf_counter()
        deployer = self._guarded(what, lambda: make(**self._filled(application.arguments)))
        if application.namespace:
            where = getattr(deployer, application.namespace, None)
            if where != self._request.namespace:
                raise GuardRefusedError(
                    f"{application.deployer} deploys into namespace {where!r}, and the study's is "
                    f"{self._request.namespace!r}"
                )
        arguments = self._filled(call.arguments)
        returned = self._guarded(what, lambda: getattr(deployer, call.method)(**arguments))
        return {"returned": json_ready(returned), "elapsed": time.perf_counter() - begun}

    # -- pieces -------------------------------------------------------------------------------

    def _ours(self, value: Any) -> bool:
        """Whether an object's class comes from the checkout, and it is no part of the problem."""
        if id(value) in self._given_to_it:
            return False
        return bool(self._imports.file_of(type(value).__module__))

    def _problem(self) -> Any:
        attributes = {**self._filled(self._layout.problem), **self._pins.problem}
        problem = type(self._pins.problem_class, (), {"__module__": self._pins.name})()
        for name, value in attributes.items():
            setattr(problem, name, value)
        self.notes["attributes"] = sorted(attributes)
        self._given_to_it = {id(problem), *map(id, attributes.values())}
        return problem

    def _assert_absent(self, problem: Any) -> None:
        names = {name for node in self._request.oracle.walk() for name in node.absent}
        there = sorted(name for name in names if hasattr(problem, name))
        if there:
            raise HarnessError(f"the problem already has {', '.join(there)}, which must be absent")
        if names:
            self.notes["asserted_absent"] = sorted(names)

    @contextlib.contextmanager
    def _given(self, problem: Any) -> Iterator[None]:
        """The oracles' own attributes, set for one call and deleted after it."""
        given = self._own_attributes()
        before = {name: _seen(problem, name) for name in given}
        for name, value in given.items():
            setattr(problem, name, value)
        self.notes["seen"] = {name: _seen(problem, name) for name in self._watched()}
        try:
            yield
        finally:
            for name in given:
                with contextlib.suppress(AttributeError):  # the oracle may have taken it away
                    delattr(problem, name)
            self.notes["set"] = {
                name: {
                    "before": before[name],
                    "value": json_ready(value),
                    "after": _seen(problem, name),
                }
                for name, value in given.items()
            }

    def _own_attributes(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for node in self._request.oracle.walk():
            for name, value in node.problem.items():
                if name in given and given[name] != value:
                    raise UsageError(
                        f"oracle {node.id}: problem.{name} is {value!r} here and "
                        f"{given[name]!r} elsewhere in {self._request.oracle.id}; they share one "
                        "problem"
                    )
                given[name] = value
        return given

    def _watched(self) -> list[str]:
        names = set(self._own_attributes())
        return sorted(names.union(*(node.absent for node in self._request.oracle.walk())))

    def _built(self, node: OracleNode, problem: Any) -> Any:
        parts = [self._built(child, problem) for child in node.of]
        make = self._imports.find(self._classes[node.use])
        if self._layout.constructor == "problem":
            return make(problem, *parts, **node.arguments)
        return make(*parts, **{**vars(problem), **node.arguments})

    def _restore(self, oracle: Any) -> None:
        restore(self._request.captured, oracle, self._ours)

    def _sources(self) -> dict[str, list[str]]:
        """For each class, the checkout's files in which it and what it inherits from stand."""
        found: dict[str, list[str]] = {}
        for use, place in self._classes.items():
            kind = self._imports.find(place)
            bases = getattr(kind, "__mro__", (kind,))
            files = (self._imports.file_of(base.__module__) for base in bases)
            found[use] = list(dict.fromkeys(filter(None, files)))
        return found

    def _filled(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        return {name: self._source(source) for name, source in arguments.items()}

    def _source(self, source: str) -> Any:
        request = self._request
        match source:
            case "client":
                make = self._imports.find(self._layout.client)
                return self._guarded(f"{self._layout.client}:", make)
            case "namespace":
                return request.namespace
            case "target":
                return request.target.name
            case "targets":
                return [request.target.name]
            case "workload":
                return request.target.workload_name
            case "port":
                return request.target.port
            case "kubeconfig":
                return request.kubeconfig
            case "context":
                return request.context
            case _:
                return self._fault

    def _guarded(self, what: str, call: Any) -> Any:
        """Something of the benchmark's that is no grading: its failure is no reading."""
        try:
            return call()
        except (HarnessError, UsageError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit included
            text = raised_as_text(error)
            name = self._request.oracle.id
            raise HarnessError(f"{what} {name}: {text.type}: {text.message}") from error


def _seen(problem: Any, name: str) -> dict[str, Any]:
    """Whether an attribute is there, and its value."""
    if not hasattr(problem, name):
        return {"present": False}
    return {"present": True, "value": json_ready(getattr(problem, name))}


def _called(item: Any, method: str) -> dict[str, Any]:
    begun = time.perf_counter()
    returned: Any = None
    raised: Raised | None = None
    try:
        returned = getattr(item, method)()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raised = raised_as_text(error)
    return {
        "class": type(item).__name__,
        "returned": json_ready(returned),
        "exception": None if raised is None else {"type": raised.type, "message": raised.message},
        "elapsed": round(time.perf_counter() - begun, 6),
    }
