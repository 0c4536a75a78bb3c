"""An adapter: how one benchmark is laid out, as data. Nothing of a benchmark is imported here.

An adapter says where oracle classes lie, how one is made and called, and what its `problem` holds.
Whoever audits another benchmark returns a `Layout` of its own from `pytest_sremut_oracles`.
Standard library only: the worker uses it under the benchmark's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from pytest_sremut.errors import UsageError

__all__ = ["SOURCES", "SREGYM", "Application", "Call", "Layout"]

SOURCES: Final = (
    "client",
    "context",
    "fault",
    "kubeconfig",
    "namespace",
    "port",
    "target",
    "targets",
    "workload",
)
"""What an attribute or argument can be filled with.

`client` is the object that the layout's `client` makes; `namespace` the study's; `target`,
`workload` and `port` describe its target; `targets` is the target in a list; `fault` the name
behind the colon of a study's `fault`; `kubeconfig` and `context` reach the cluster.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A method and its keyword arguments: parameter -> one of `SOURCES`."""

    method: str
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One application that the benchmark deploys with code of its own.

    Args:
        deployer: `module:Class` of what deploys it.
        arguments: Keyword argument of its constructor -> one of `SOURCES`.
        namespace: Attribute of the deployer that says where it deploys; it must be the study's
            namespace. Empty where it is told by an argument.
        deploy: How it deploys; returns once everything was applied, sooner or later ready.
        remove: How it takes the application away. Called before each deployment, too, when
            nothing of it need be there: what it keeps in kinds of objects that we do not look at
            (Helm's release records) may have outlived a run that died.
        needs: Executables that it looks up on PATH.
    """

    deployer: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    deploy: Call = Call(method="deploy")
    remove: Call = Call(method="delete")
    needs: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Application:
        """The inverse of `asdict`, for a message of our own."""
        fields = dict(value)
        fields["needs"] = tuple(fields["needs"])
        for name in ("deploy", "remove"):
            fields[name] = Call(**fields[name])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One benchmark's seams.

    Args:
        name: What stands before the colon in `use: NAME:CLASS`, `fault: NAME:FAULT` and
            `application: NAME:APPLICATION`.
        oracles: Directories of the checkout in which `NAME:CLASS` is looked for.
        path: Directories of the checkout that modules are imported from.
        light: Packages whose `__init__` is left out under light imports.
        client: `module:callable` that makes the benchmark's own cluster client; empty for none.
        problem: Attribute of the problem object -> one of `SOURCES`.
        constructor: What an oracle's constructor takes: the `problem` object as first argument,
            or its `attributes` as keywords.
        evaluate: Method that grades.
        capture: Method that is called once while healthy; classes without it have none.
        success: Key of the returned mapping that must be exactly True or False.
        injector: `module:Class` of the fault injector; empty for none.
        injector_arguments: Keyword argument of its constructor -> one of `SOURCES`.
        inject: How it injects the fault.
        recover: How it takes the fault back.
        needs: Executables that the injector looks up on PATH.
        private: Shared directories (absolute) in which the injector keeps files under fixed names:
            each session process gets its own view of them, or has to wait for its turn.
        applications: What `application: NAME:APPLICATION` of a study can name.
        warm: `module:name` to resolve before the first reading, where a library makes what the
            oracles use only when it is first asked for.
    """

    name: str
    oracles: tuple[str, ...]
    path: tuple[str, ...] = (".",)
    light: tuple[str, ...] = ()
    client: str = ""
    problem: Mapping[str, str] = field(default_factory=dict)
    constructor: Literal["problem", "attributes"] = "problem"
    evaluate: str = "evaluate"
    capture: str = "capture_baseline"
    success: str = "success"
    injector: str = ""
    injector_arguments: Mapping[str, str] = field(default_factory=dict)
    inject: Call = Call(method="inject")
    recover: Call = Call(method="recover")
    needs: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    applications: Mapping[str, Application] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError for a source that does not exist, and a path that is not absolute."""
        for mapping in (
            self.problem,
            self.injector_arguments,
            self.inject.arguments,
            self.recover.arguments,
            *(
                arguments
                for one in self.applications.values()
                for arguments in (one.arguments, one.deploy.arguments, one.remove.arguments)
            ),
        ):
            for name, source in mapping.items():
                if source not in SOURCES:
                    raise UsageError(
                        f"layout {self.name}: {name}: found {source!r}; "
                        f"allowed: {', '.join(SOURCES)}"
                    )

        for directory in self.private:
            if not directory.startswith("/") or directory.rstrip("/") == "":
                raise UsageError(
                    f"layout {self.name}: private: found {directory!r}; "
                    "allowed: an absolute path other than /"
                )

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Layout:
        """The inverse of `to_json`, for a message of our own."""
        fields = dict(value)
        for name in ("oracles", "path", "light", "needs", "private", "warm"):
            fields[name] = tuple(fields[name])
        for name in ("inject", "recover"):
            fields[name] = Call(**fields[name])
        fields["applications"] = {
            name: Application.from_json(one) for name, one in fields["applications"].items()
        }
        return cls(**fields)

    def application(self, name: str) -> Application:
        """How the benchmark deploys an application. Raises UsageError for one it does not have."""
        if name not in self.applications:
            raise UsageError(
                f"application: found {self.name}:{name}; allowed: "
                + (
                    ", ".join(f"{self.name}:{one}" for one in sorted(self.applications))
                    or f"none of {self.name}, whose layout names no application"
                )
            )
        return self.applications[name]


SREGYM: Final = Layout(
    name="sregym",
    oracles=("sregym/conductor/oracles",),
    light=("sregym.conductor",),
    client="sregym.service.kubectl:KubeCtl",
    problem={"kubectl": "client", "namespace": "namespace", "faulty_service": "target"},
    injector="sregym.generators.fault.inject_virtual:VirtualizationFaultInjector",
    injector_arguments={"namespace": "namespace"},
    inject=Call(method="_inject", arguments={"fault_type": "fault", "microservices": "targets"}),
    recover=Call(method="_recover", arguments={"fault_type": "fault", "microservices": "targets"}),
    needs=("kubectl",),
    private=("/tmp",),  # noqa: S108 - where it keeps what it deleted
    warm=("kubernetes.client:CoreV1Api", "kubernetes.client:AppsV1Api"),
    applications={
        "social_network": Application(
            deployer="sregym.service.apps.social_network:SocialNetwork",
            namespace="namespace",
            needs=("kubectl", "helm"),
        ),
    },
)
"""SREGym. `_inject` and `_recover` are what its own problems call. Its applications' `delete` takes
back what `deploy` made, and `cleanup`, which deletes the namespace, is not called: that is ours."""
