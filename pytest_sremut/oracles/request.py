"""What an instrument is asked: one oracle, one state of one cluster. JSON-ready throughout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.study.model import BenchmarkPins, OracleSpec, Target

__all__ = ["OracleNode", "ReadingRequest", "oracle_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleNode:
    """An oracle of a study with the oracles it is composed of."""

    id: str
    use: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: Mapping[str, Any] = field(default_factory=dict)
    of: tuple[OracleNode, ...] = ()
    # Of a benchmark's class only, see `OracleSpec`.
    absent: tuple[str, ...] = ()
    diagnostic: str = ""
    capture_baseline: bool = True

    def walk(self) -> list[OracleNode]:
        """This node and all below it, depth first."""
        return [self, *(node for child in self.of for node in child.walk())]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRequest:
    """Everything one reading needs.

    `timeout` is the hard limit of the reading in seconds. `cluster_uid` is the UID of kube-system
    of the leased cluster: an oracle of ours refuses to write to any other.
    """

    oracle: OracleNode
    kubeconfig: str
    context: str
    cluster_uid: str
    namespace: str
    target: Target
    baseline: Mapping[str, int]
    timeout: float
    # Of a benchmark's class only: the study's pins, and what its oracles captured while healthy.
    benchmark: BenchmarkPins | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> ReadingRequest:
        """The inverse of `to_json`. Raises HarnessError for anything else."""
        try:
            fields = dict(value)
            target = Target(**fields.pop("target"))
            pins = fields.pop("benchmark", None)
            return cls(
                oracle=_node(fields.pop("oracle")),
                target=target,
                benchmark=None if pins is None else BenchmarkPins(**pins),
                **fields,
            )
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise HarnessError(f"not a reading request: {error}") from error


def oracle_tree(spec: OracleSpec, specs: Mapping[str, OracleSpec]) -> OracleNode:
    """The oracle with those it is composed of, looked up by id.

    Raises:
        UsageError: One of them does not exist, or an oracle is composed of itself.
    """
    return _tree(spec, specs, ())


def _tree(spec: OracleSpec, specs: Mapping[str, OracleSpec], above: tuple[str, ...]) -> OracleNode:
    path = (*above, spec.id)
    if spec.id in above:
        raise UsageError(f"oracle {spec.id} is composed of itself: {' -> '.join(path)}")
    for name in spec.of:
        if name not in specs:
            raise UsageError(
                f"oracle {spec.id} is composed of {name}, which does not exist; "
                f"allowed: {', '.join(sorted(specs))}"
            )
    return OracleNode(
        id=spec.id,
        use=spec.use,
        arguments=dict(spec.arguments),
        problem=dict(spec.problem),
        of=tuple(_tree(specs[name], specs, path) for name in spec.of),
        absent=spec.absent,
        diagnostic=spec.diagnostic,
        capture_baseline=spec.capture_baseline,
    )


def _node(value: Mapping[str, Any]) -> OracleNode:
    fields = dict(value)
    children = tuple(_node(child) for child in fields.pop("of"))
    absent = tuple(fields.pop("absent", ()))
    return OracleNode(of=children, absent=absent, **fields)
