"""Each step of a guarded write fails in turn: what is durable, what went out, what is known."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from hypothesis import given
from hypothesis import strategies as st
from journal_double import Journal
from world import NS

import pytest_sremut.engine
from pytest_sremut.cluster import overlap
from pytest_sremut.cluster.port import ObjectRef, Present
from pytest_sremut.engine.guard import Captured, Guard, OperationKind, captured
from pytest_sremut.engine.journal_ops import Call, Operation, ref_from
from pytest_sremut.engine.transitions import STANDSTILL, Phase
from pytest_sremut.errors import (
    ClusterError,
    ClusterUnavailableError,
    EvidenceError,
    GuardRefusedError,
)

REF = ObjectRef(kind="ConfigMap", namespace=NS, name="a")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


class Bench:
    """A guard over a fake cluster, and what its notes were told."""

    def __init__(self, directory: Path) -> None:
        self.world = EngineWorld(directory)
        self.journal = Journal()
        self.noted: list[str] = []
        self.guard = Guard(
            cluster=self.world,
            identity=self.world.identity(),
            allowed_contexts=frozenset({self.world.context}),
            namespace=NS,
            journal=self.journal,
            manager="sremut:s:study:run-a01",
        )

    def create(self) -> None:
        self.guard.create(OperationKind.CREATE_MUTANT, [BODY], note=self.note)

    def note(self, seen: Present) -> None:
        self.noted.append(seen.body["metadata"]["uid"])

    def lose(self, verb: str) -> None:
        """The next such call is carried out and its answer lost."""
        call = getattr(self.world.kube, verb)

        def lost(*arguments: Any, **named: Any) -> Any:
            setattr(self.world.kube, verb, call)
            call(*arguments, **named)
            raise ClusterUnavailableError("reset")

        setattr(self.world.kube, verb, lost)

    @property
    def effects(self) -> Any:
        transition, facts = self.journal.entries[-1]
        assert transition == "RECEIPT"
        return facts["effects"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def put(bench: Bench, **metadata: Any) -> str:
    body = {**BODY, "metadata": {"name": "a", "namespace": NS, **metadata}}
    return str(bench.world.kube.put(body)["metadata"]["uid"])


def test_before_the_intent_nothing_goes_out(bench: Bench) -> None:
    bench.journal.fail_at = "INTENT"
    with pytest.raises(EvidenceError):
        bench.create()
    assert not [call for call in bench.world.kube.calls if call[0] == "create"]
    assert bench.guard.unsettled == ()


def test_after_the_intent_a_call_that_did_not_arrive(bench: Bench) -> None:
    bench.world.kube.break_next("create")
    with pytest.raises(ClusterUnavailableError):
        bench.create()
    assert bench.guard.unsettled == ("op-0001",)
    bench.guard.reconcile()
    assert bench.effects == [
        {"object": f"ConfigMap {NS}/a", "observed": "absent", "conclusion": "not-applied"}
    ]
    assert bench.noted == []
    assert bench.guard.unsettled == ()


def test_after_the_dispatch_a_lost_answer(bench: Bench) -> None:
    bench.lose("create")
    with pytest.raises(ClusterUnavailableError):
        bench.create()
    assert bench.noted == []
    bench.guard.reconcile()
    uid = bench.world.kube.objects["ConfigMap", NS, "a"]["metadata"]["uid"]
    assert bench.noted == [uid]
    assert bench.effects[0]["conclusion"] == "applied"
    assert bench.effects[0]["uid"] == uid


def test_after_the_dispatch_an_effect_that_cannot_be_seen(bench: Bench) -> None:
    bench.world.kube.break_next("get", "ConfigMap")
    with pytest.raises(ClusterUnavailableError, match="cannot be observed"):
        bench.create()
    (noted,) = bench.noted
    bench.world.kube.break_next("get", "ConfigMap")
    with pytest.raises(ClusterUnavailableError, match="cannot be seen"):
        bench.guard.reconcile()
    assert bench.guard.unsettled == ("op-0001",)
    assert bench.journal.transitions == ["INTENT"]
    bench.guard.reconcile()
    assert bench.noted == [noted]  # it was told once
    assert bench.effects[0]["uid"] == noted


def test_after_the_observation_a_receipt_that_is_not_durable(bench: Bench) -> None:
    bench.journal.fail_at = "RECEIPT"
    with pytest.raises(EvidenceError):
        bench.create()
    with pytest.raises(EvidenceError):
        bench.guard.reconcile()
    assert bench.guard.unsettled == ("op-0001",)
    bench.journal.fail_at = ""
    bench.guard.reconcile()
    assert bench.journal.transitions == ["INTENT", "RECEIPT"]
    assert len(bench.noted) == 1


def test_somebody_elses_object_of_that_name_is_not_taken_for_ours(bench: Bench) -> None:
    uid = put(bench, managedFields=[{"manager": "kubectl"}])
    with pytest.raises(ClusterError) as caught:
        bench.create()
    assert caught.value.reason == "AlreadyExists"
    bench.guard.reconcile()
    assert bench.noted == []
    assert bench.effects[0]["observed"] == f"not ours: {uid}"
    assert bench.effects[0]["conclusion"] == "not-applied"


@pytest.mark.parametrize(
    ("prepare", "observed", "conclusion"),
    [
        (lambda bench: bench.world.kube.break_next("delete"), "present", "not-applied"),
        (lambda bench: bench.lose("delete"), "absent", "applied"),
    ],
)
def test_a_deletion_without_an_answer(
    bench: Bench, prepare: Any, observed: str, conclusion: str
) -> None:
    uid = put(bench)
    prepare(bench)
    with pytest.raises(ClusterUnavailableError):
        bench.guard.delete(OperationKind.DELETE_TARGET, [Captured(ref=REF, uid=uid)])
    bench.guard.reconcile()
    assert (bench.effects[0]["observed"], bench.effects[0]["conclusion"]) == (observed, conclusion)
    assert [call[0] for call in bench.world.kube.calls].count("delete") <= 1  # never sent again


def test_a_deletion_whose_name_was_taken_since_was_applied(bench: Bench) -> None:
    uid = put(bench)
    bench.lose("delete")
    with pytest.raises(ClusterUnavailableError):
        bench.guard.delete(OperationKind.DELETE_TARGET, [Captured(ref=REF, uid=uid)])
    other = put(bench)
    bench.guard.reconcile()
    assert bench.effects[0]["observed"] == f"replaced by {other}"
    assert bench.effects[0]["conclusion"] == "applied"


def test_nothing_is_sent_under_an_intent_that_has_its_receipt(bench: Bench) -> None:
    intent = bench.guard._intend(OperationKind.CREATE_MUTANT, [Call(ref=REF, call="create")])
    bench.guard._settle(intent, [])
    with pytest.raises(GuardRefusedError, match="op-0001 is not open"):
        bench.guard._dispatch(intent, lambda: pytest.fail("it was sent"))


def test_every_write_of_the_engine_is_the_guards() -> None:
    """Nobody else in the room calls create, replace or delete on the API."""
    room = Path(pytest_sremut.engine.__file__).parent
    found = set()
    for file in room.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in {"create", "replace", "delete"}
                and isinstance(node.value, ast.Attribute | ast.Name)
                and (getattr(node.value, "attr", "") or getattr(node.value, "id", "")) == "api"
            ):
                found.add(file.name)
    assert found == {"guard.py"}


def test_the_cluster_is_asked_again_before_each_call_of_an_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "WIDTH", 1)  # who changes it between two calls
    bench = Bench(tmp_path)
    three = bodies(3)

    def pointed_elsewhere(_: Present) -> None:
        bench.world.uid = "somebody-else"

    with pytest.raises(GuardRefusedError, match="now reaches another cluster"):
        bench.guard.create(OperationKind.DEPLOY_APPLICATION, three, note=pointed_elsewhere)
    assert config_maps(bench) == {"c00"}


def test_each_call_of_a_batch_has_asked_for_itself(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    asked: dict[str, int] = {}
    real = bench.world.kube_system_uid

    def counted() -> str:
        name = threading.current_thread().name
        asked[name] = asked.get(name, 0) + 1
        return real()

    bench.world.kube_system_uid = counted  # type: ignore[method-assign]
    bench.guard.create(OperationKind.DEPLOY_APPLICATION, bodies(3), note=bench.note)
    assert len(bench.noted) == 3
    # Once for the intent, and before each call in the thread of that call.
    assert asked.pop(threading.current_thread().name) == 1
    assert sum(asked.values()) == 3
    assert all(name.startswith("sremut-overlap") for name in asked)


def test_no_batch_follows_one_that_found_another_cluster(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def pointed_elsewhere(seen: Present) -> None:
        bench.note(seen)
        bench.world.uid = "somebody-else"

    with pytest.raises(GuardRefusedError, match="now reaches another cluster"):
        bench.guard.create(
            OperationKind.DEPLOY_APPLICATION, bodies(2 * overlap.WIDTH), note=pointed_elsewhere
        )
    assert len(bench.noted) == overlap.WIDTH
    assert len(config_maps(bench)) == overlap.WIDTH


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_one_call_of_a_batch_fails(tmp_path: Path, verb: str) -> None:
    """Those beside it are known, none follows, and the intent stays open until somebody looks."""
    bench = Bench(tmp_path)
    many = bodies(2 * overlap.WIDTH)
    made = [] if verb == "create" else bench.guard.create(OperationKind.DEPLOY_APPLICATION, many)
    bench.noted.clear()
    refused = f"c{overlap.WIDTH // 2:02}"
    call = getattr(bench.world.kube, verb)

    def picky(what: Any, **named: Any) -> Any:
        name = what.name if verb == "delete" else what["metadata"]["name"]
        if name == refused:
            raise ClusterUnavailableError("gone", status=0, reason="Reset")
        return call(what, **named)

    setattr(bench.world.kube, verb, picky)
    writes: dict[str, Callable[[], object]] = {
        "create": lambda: bench.guard.create(
            OperationKind.DEPLOY_APPLICATION, many, note=bench.note
        ),
        "delete": lambda: bench.guard.delete(
            OperationKind.REMOVE_APPLICATION, [captured(one.body) for one in made]
        ),
    }
    with pytest.raises(ClusterUnavailableError, match="gone"):
        writes[verb]()
    first = {f"c{number:02}" for number in range(overlap.WIDTH)} - {refused}
    there = config_maps(bench)
    if verb == "create":
        assert there == first
        assert len(bench.noted) == len(first)
    else:
        assert there == {one.body["metadata"]["name"] for one in made} - first
    assert len(bench.guard.unsettled) == 1
    bench.guard.reconcile()
    assert not bench.guard.unsettled
    assert len(bench.noted) == (len(first) if verb == "create" else 0)


def bodies(count: int) -> list[dict[str, Any]]:
    return [{**BODY, "metadata": {"name": f"c{number:02}"}} for number in range(count)]


def config_maps(bench: Bench) -> set[str]:
    return {key[2] for key in bench.world.kube.objects if key[0] == "ConfigMap"}


@pytest.mark.parametrize("phase", [Phase.PREFLIGHT_PASS, Phase.ABORTED_SAFE])
def test_no_phase_before_every_receipt(tmp_path: Path, phase: Phase) -> None:
    world = EngineWorld(tmp_path)
    driver = world.driver("MS-M01")
    world.kube.break_next("create")
    with pytest.raises(ClusterUnavailableError):
        driver._ctx.guard.create(OperationKind.CREATE_MUTANT, [BODY])
    world.kube.break_next("get", "ConfigMap")
    with pytest.raises(ClusterUnavailableError, match="what became of op-0001"):
        driver._move(phase)
    assert driver._phase is Phase.CREATED
    driver._move(phase)
    transitions = [
        line.split('"transition":"')[1].split('"')[0]
        for line in driver.attempt.journal.path.read_text().splitlines()
    ]
    assert transitions == ["CREATED", "INTENT", "RECEIPT", phase.value]


def test_the_way_to_a_standstill_is_open() -> None:
    assert {Phase.RESTORE_STARTED, Phase.RESTORATION_BLOCKED} == STANDSTILL


# -- what an intent says ------------------------------------------------------------------------


def test_an_intent_reads_back_as_it_was() -> None:
    operation = Operation(
        id="op-0012",
        kind=OperationKind.CREATE_MUTANT,
        calls=(
            Call(ref=REF, call="create", body="0" * 64),
            Call(ref=ObjectRef(kind="Namespace", namespace="", name=NS), call="create"),
            Call(ref=REF, call="delete", uid="u"),
        ),
        manager="m/op-0012",
    )
    assert Operation.from_json(operation.as_json()) == operation
    assert operation.number == 12


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(
    facts=st.dictionaries(st.sampled_from(["operation", "kind", "calls", "manager", "x"]), JSON),
    known=st.booleans(),
)
def test_any_facts_are_an_intent_or_an_error_of_ours(facts: Any, known: bool) -> None:
    if known:
        facts = {"operation": "op-0001", "kind": "create-mutant", **facts}
    try:
        operation = Operation.from_json(facts)
    except EvidenceError:
        return
    assert Operation.from_json(operation.as_json()) == operation


@given(st.text(max_size=30))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        ref = ref_from(text)
    except ValueError:
        return
    assert str(ref) == text


def test_a_manager_is_never_longer_than_a_server_takes(tmp_path: Path) -> None:
    world = EngineWorld(tmp_path)
    journal = Journal()
    guard = Guard(
        cluster=world, identity=world.identity(), allowed_contexts=frozenset({world.context}),
        namespace=NS, journal=journal, manager="s" * 300,
    )  # fmt: skip
    guard.create(OperationKind.CREATE_MUTANT, [BODY])
    assert len(journal.entries[0][1]["manager"]) <= 128
