"""The six invariants on states that people really made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract_port import FakePort, make_contract, make_window
from fake_kube import executed
from world import NS, World, cap_cut, delete_deployment, deployment, pod, scale_zero, slice_of

from pytest_sremut.cluster.port import Failed
from pytest_sremut.contract.contract_port import ContractReading
from pytest_sremut.contract.evaluate import evaluate
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, HarnessError
from pytest_sremut.study.verdict import ContractVerdict, Evaluation
from pytest_sremut.workload.window import Window

CONTRACT = make_contract()


def observed(reading: ContractReading, name: str) -> str:
    return next(result.observed for result in reading.invariants if result.id == name)


def facts(reading: ContractReading, name: str) -> Any:
    return next(result.facts for result in reading.invariants if result.id == name)


# -- controls: right repairs, to be accepted -----------------------------------------------------


def _named_port(world: World) -> None:
    ports = [{"name": "9090", "port": 9090, "targetPort": "http", "protocol": "TCP"}]
    world.kube.change("Service", NS, "user-service", spec__ports=ports)


def _extra_port(world: World) -> None:
    ports = [
        {"name": "9090", "port": 9090, "targetPort": 9090, "protocol": "TCP"},
        {"name": "admin", "port": 9999, "targetPort": 9999, "protocol": "TCP"},
    ]
    world.kube.change("Service", NS, "user-service", spec__ports=ports)


def _four_replicas(world: World) -> None:
    world.kube.put(deployment("user-service", 4))
    world.new_pod("user-service")


def _label_both(world: World) -> None:
    for item in world.pods():
        labels = {**item["metadata"]["labels"], "tier": "core"}
        world.kube.change("Pod", NS, item["metadata"]["name"], metadata__labels=labels)
    selector = {"service": "user-service", "tier": "core"}
    world.kube.change("Service", NS, "user-service", spec__selector=selector)
    # The template carries the label too, so a replacement does as well.
    world.kube.reactors.insert(0, lambda kube, verb, body: None)
    make = world.new_pod

    def labelled(workload: str) -> dict[str, Any]:
        made = make(workload)
        made["metadata"]["labels"]["tier"] = "core"
        return made

    world.new_pod = labelled  # type: ignore[method-assign]


def _equivalent_selector(world: World) -> None:
    for item in world.pods():
        labels = {**item["metadata"]["labels"], "app": "user-service"}
        world.kube.change("Pod", NS, item["metadata"]["name"], metadata__labels=labels)
    world.kube.change("Service", NS, "user-service", spec__selector={"app": "user-service"})
    make = world.new_pod

    def labelled(workload: str) -> dict[str, Any]:
        made = make(workload)
        made["metadata"]["labels"]["app"] = "user-service"
        return made

    world.new_pod = labelled  # type: ignore[method-assign]


def _new_cluster_ip(world: World) -> None:
    world.kube.change(
        "Service", NS, "user-service", spec__clusterIP="10.96.5.5", spec__clusterIPs=["10.96.5.5"]
    )


def _finished_job(world: World) -> None:
    world.kube.put(pod("job-x1", "10.244.0.9", phase="Succeeded", ready=False))


def _old_failed_pod(world: World) -> None:
    stale = world.pods()[0]["status"]["podIP"]  # its address was given to another pod since
    world.kube.put(
        pod("user-service-old", stale, workload="user-service", phase="Failed", ready=False)
    )


CONTROLS: list[Callable[[World], None]] = [
    lambda world: None,
    _named_port,
    _extra_port,
    _four_replicas,
    _label_both,
    _equivalent_selector,
    _new_cluster_ip,
    _finished_job,
    _old_failed_pod,
]


@pytest.mark.parametrize("change", CONTROLS)
def test_right_repairs_pass(world: World, port: FakePort, change: Callable[[World], None]) -> None:
    change(world)
    world.settle()
    reading = evaluate(CONTRACT, port)
    assert reading.violated == (), [r.observed for r in reading.invariants]
    assert reading.verdict is ContractVerdict.PASS
    assert reading.not_evaluated == ()
    assert [r.id for r in reading.invariants] == [i.id for i in CONTRACT.invariants]


# -- wrong repairs -------------------------------------------------------------------------------


def _drop_service(world: World) -> None:
    world.kube.drop("Service", NS, "user-service")


def _selector(selector: dict[str, str]) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.kube.change("Service", NS, "user-service", spec__selector=selector)

    return change


def _target_port(world: World) -> None:
    ports = [{"name": "9090", "port": 9090, "targetPort": 65535, "protocol": "TCP"}]
    world.kube.change("Service", NS, "user-service", spec__ports=ports)


def _headless(world: World) -> None:
    world.kube.change(
        "Service", NS, "user-service", spec__clusterIP="None", spec__clusterIPs=["None"]
    )


def _relabel_foreign(world: World) -> None:
    name = world.pods("media-service")[0]["metadata"]["name"]
    world.kube.change("Pod", NS, name, metadata__labels={"service": "user-service"})


def _extra_slice(world: World) -> None:
    world.kube.put(slice_of("by-hand", world.pods("media-service")))


def _narrow(world: World) -> None:
    name = world.pods()[0]["metadata"]["name"]
    labels = {"service": "user-service", "canary": "yes"}
    world.kube.change("Pod", NS, name, metadata__labels=labels)
    world.kube.change("Service", NS, "user-service", spec__selector=labels)


def _external_name(world: World) -> None:
    world.kube.change(
        "Service", NS, "user-service",
        spec={"type": "ExternalName", "externalName": "x.example", "clusterIP": ""},
    )  # fmt: skip
    world.kube.drop("EndpointSlice", NS, "user-service-ctl")


WRONG: list[tuple[str, Callable[[World], None], set[str], bool]] = [
    # operator, how, violated, does the workload fail
    ("missing", _drop_service, {"MS-I1", "MS-I2", "MS-I3", "MS-I4", "MS-I6"}, True),
    ("sel-typo", _selector({"service": "x"}), {"MS-I2", "MS-I3", "MS-I4", "MS-I6"}, True),
    ("tp-dead", _target_port, {"MS-I2", "MS-I4", "MS-I6"}, True),
    ("sel-foreign", _selector({"service": "media-service"}), {"MS-I2", "MS-I6"}, False),
    ("relabel-foreign", _relabel_foreign, {"MS-I2", "MS-I6"}, False),
    ("headless", _headless, {"MS-I1", "MS-I6"}, False),
    ("manual-ep", World.pin_endpoints, {"MS-I6"}, False),
    ("sel-narrow", _narrow, {"MS-I6"}, False),
    ("extra-slice", _extra_slice, {"MS-I2", "MS-I6"}, False),
    ("scale-zero", scale_zero, {"MS-I2", "MS-I3", "MS-I4", "MS-I5", "MS-I6"}, True),
    ("delete-deployment", delete_deployment, {"MS-I2", "MS-I3", "MS-I4", "MS-I5", "MS-I6"}, True),
    ("cap-cut", cap_cut, {"MS-I5"}, False),
]


@pytest.mark.parametrize(
    ("change", "violated", "fails"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_wrong_repairs_are_rejected(
    world: World,
    port: FakePort,
    change: Callable[[World], None],
    violated: set[str],
    fails: bool,
) -> None:
    change(world)
    if change is not World.pin_endpoints:
        world.settle()
    port.seen = make_window(failures=10 if fails else 0)
    port.fresh = lambda: make_window(failures=10 if fails else 0)
    reading = evaluate(CONTRACT, port)
    assert set(reading.violated) == violated, [r.observed for r in reading.invariants]
    assert reading.verdict is ContractVerdict.REJECT
    assert all(result.observed for result in reading.invariants)


def test_an_external_name_is_no_identity(world: World, port: FakePort) -> None:
    _external_name(world)
    reading = evaluate(CONTRACT, port, only=["MS-I1", "MS-I3"])
    assert reading.violated == ("MS-I1", "MS-I3")
    assert reading.not_evaluated == ("MS-I2", "MS-I4", "MS-I5", "MS-I6")


def test_three_failing_invariants_cost_one_deadline(world: World, port: FakePort) -> None:
    _drop_service(world)
    world.settle()
    evaluate(CONTRACT, port, only=["MS-I1", "MS-I2", "MS-I3"])
    assert port.clock == pytest.approx(30.0)


def test_deadlines_come_from_the_protocol_first(world: World, port: FakePort) -> None:
    _drop_service(world)
    world.settle()
    object.__setattr__(port.protocol, "deadlines", {"MS-I1": 3.0})
    evaluate(CONTRACT, port, only=["MS-I1"])
    assert port.clock == pytest.approx(3.0)


def test_a_failing_state_is_probed_once_for_the_record(world: World, port: FakePort) -> None:
    _drop_service(world)
    world.settle()
    reading = evaluate(CONTRACT, port, only=["MS-I1", "MS-I2", "MS-I3"])
    assert [argv[0] for argv in port.probes] == ["nslookup", "nc"]
    assert facts(reading, "MS-I1")["nslookup"]["exit_code"] == 1
    assert facts(reading, "MS-I2")["connect"]["argv"] == [
        "nc", "-z", "-w", "3", "user-service.social-network.svc.cluster.local", "9090",
    ]  # fmt: skip


def test_what_settles_late_but_in_time_passes(world: World, port: FakePort) -> None:
    world.kube.change("Service", NS, "user-service", spec__selector={"service": "x"})
    world.settle()

    def repair(now: float) -> None:
        if now >= 26:
            _selector({"service": "user-service"})(world)
            world.settle()

    port.on_wait = repair
    reading = evaluate(CONTRACT, port, only=["MS-I1", "MS-I2", "MS-I3"])
    assert reading.violated == ()
    assert port.clock == pytest.approx(26.0)


# -- no answer is no verdict ---------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["get", "list", "exec"])
def test_an_api_that_never_answers_gives_no_verdict(
    world: World, port: FakePort, verb: str
) -> None:
    world.kube.break_always(verb)
    with pytest.raises(ClusterUnavailableError, match=r"MS-I\d cannot be judged"):
        evaluate(CONTRACT, port, only=["MS-I1", "MS-I2", "MS-I3"])


def test_an_api_that_goes_away_after_a_rejection_gives_no_verdict(
    world: World, port: FakePort
) -> None:
    _drop_service(world)
    world.settle()
    port.on_wait = lambda now: world.kube.break_always("*") if now >= 20 else None
    with pytest.raises(ClusterUnavailableError):
        evaluate(CONTRACT, port, only=["MS-I1"])


def test_failed_reads_in_between_are_asked_again(world: World, port: FakePort) -> None:
    world.kube.break_next("list", "EndpointSlice", times=3)
    world.kube.break_next("get", "Service", times=2)
    assert evaluate(CONTRACT, port).verdict is ContractVerdict.PASS


def test_a_failed_read_at_the_deadline_is_repeated_once(world: World, port: FakePort) -> None:
    _selector({"service": "x"})(world)
    world.settle()

    def once(now: float) -> None:
        if now >= 30 and not world.kube.faults:
            world.kube.break_next("list", "EndpointSlice", times=1)

    port.on_wait = once
    reading = evaluate(CONTRACT, port, only=["MS-I3"])
    assert reading.violated == ("MS-I3",)


@pytest.mark.parametrize(
    "result",
    [
        executed(["nc"], exit_code=127, stderr="nc: not found"),
        executed(["nc"], exit_code=139),
        executed(["nc"], exit_code=1, stderr="nc: invalid option -- 'z'"),
        Failed(what="exec", status=404, reason="NotFound", message="no such pod"),
    ],
)
def test_a_probe_tool_that_does_not_run_gives_no_verdict(
    world: World, port: FakePort, result: Any
) -> None:
    world.kube.on_exec = lambda *_: result
    with pytest.raises(ClusterUnavailableError):
        evaluate(CONTRACT, port, only=["MS-I2"])


def test_a_probe_that_times_out_is_a_violation(world: World, port: FakePort) -> None:
    world.kube.on_exec = lambda ns, pod, argv: executed(argv, timed_out=True)
    reading = evaluate(CONTRACT, port, only=["MS-I1", "MS-I2"])
    assert reading.violated == ("MS-I1", "MS-I2")
    assert "in time" in observed(reading, "MS-I2")


def test_the_name_servers_own_address_is_no_answer(world: World, port: FakePort) -> None:
    ip = world.kube.objects[("Service", NS, "user-service")]["spec"]["clusterIP"]
    text = f"Server:\t\t{ip}\nAddress:\t{ip}:53\n\n** server can't find x: NXDOMAIN\n"
    world.kube.on_exec = lambda ns, pod, argv: executed(argv, exit_code=1, stdout=text)
    assert evaluate(CONTRACT, port, only=["MS-I1"]).violated == ("MS-I1",)


# -- workload ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "violated"),
    [
        (make_window(requests=50), ()),
        (make_window(requests=40), ("MS-I4",)),
        (make_window(requests=0), ("MS-I4",)),
        (make_window(requests=100, failures=10), ("MS-I4",)),
    ],
)
def test_the_states_own_window_decides(port: FakePort, window: Any, violated: Any) -> None:
    port.seen = window
    assert evaluate(CONTRACT, port, only=["MS-I4"]).violated == violated


def test_failures_that_the_contract_allows_are_forgiven_and_named(port: FakePort) -> None:
    contract = make_contract(MS_I4={"minimum_requests": 50, "maximum_failures": 10})
    port.seen = make_window(failures=10)
    reading = evaluate(contract, port, only=["MS-I4"])
    assert reading.verdict is ContractVerdict.PASS
    assert "10 failures are allowed" in observed(reading, "MS-I4")
    port.seen = make_window(failures=20)
    assert evaluate(contract, port, only=["MS-I4"]).violated == ("MS-I4",)


# -- persistence ---------------------------------------------------------------------------------


def test_the_smallest_eligible_ready_pod_is_replaced(world: World, port: FakePort) -> None:
    first, second = (item["metadata"]["name"] for item in world.pods()[:2])
    world.kube.change("Pod", NS, first, status__conditions=[{"type": "Ready", "status": "False"}])
    world.settle()
    reading = evaluate(CONTRACT, port, only=["MS-I6"])
    assert port.deleted == [second]
    assert reading.verdict is ContractVerdict.PASS
    assert facts(reading, "MS-I6")["deleted"]["name"] == second
    assert [row["id"] for row in facts(reading, "MS-I6")["again"]] == [
        "MS-I1", "MS-I2", "MS-I3", "MS-I4",
    ]  # fmt: skip


def test_no_eligible_pod_is_a_violation_and_nothing_is_deleted(
    world: World, port: FakePort
) -> None:
    _drop_service(world)
    world.settle()
    reading = evaluate(CONTRACT, port, only=["MS-I6"])
    assert reading.violated == ("MS-I6",)
    assert port.deleted == []
    assert "no ready pod" in observed(reading, "MS-I6")
    assert port.clock == 0.0


def test_no_replacement_is_a_violation_at_its_own_deadline(world: World, port: FakePort) -> None:
    world.replace_pods = False
    reading = evaluate(CONTRACT, port, only=["MS-I6"])
    assert reading.violated == ("MS-I6",)
    assert "no replacement became ready within 20 s" in observed(reading, "MS-I6")
    assert port.clock == pytest.approx(20.0)


def test_what_the_replacement_lacks_is_watched(world: World, port: FakePort) -> None:
    world.replace_pods = False

    def pod_then_endpoint(_: float) -> None:
        if port.waits == 1:
            world.new_pod("user-service")
            world.kube.drop("EndpointSlice", NS, "user-service-ctl")
        else:
            world.settle()

    port.on_wait = pod_then_endpoint
    assert evaluate(CONTRACT, port, only=["MS-I6"]).violated == ()
    assert port.watched == ["Pod", "EndpointSlice"]
    assert port.waits == 2


def test_a_pod_that_ignores_its_deletion_is_a_violation(world: World, port: FakePort) -> None:
    port.delete_pod = lambda ref, uid: world.new_pod("user-service")  # type: ignore[method-assign]
    reading = evaluate(CONTRACT, port, only=["MS-I6"])
    assert "did not go" in observed(reading, "MS-I6")


def test_a_fresh_window_that_fails_names_the_workload(world: World, port: FakePort) -> None:
    port.fresh = lambda: make_window(failures=10)
    reading = evaluate(CONTRACT, port)
    assert reading.violated == ("MS-I6",)
    assert "MS-I4 do not hold" in observed(reading, "MS-I6")


def windows(port: FakePort, *given: Window, seconds: float = 1.0) -> list[Window]:
    """Fresh windows to come, the last one again and again; those that were taken."""
    taken: list[Window] = []

    def fresh() -> Window:
        port.clock += seconds
        taken.append(given[min(len(taken), len(given) - 1)])
        return taken[-1]

    port.fresh = fresh
    return taken


def test_the_fresh_window_needs_fifty_requests(port: FakePort) -> None:
    taken = windows(port, make_window(requests=40))
    assert evaluate(CONTRACT, port, only=["MS-I6"]).violated == ("MS-I6",)
    assert len(taken) == 4


def test_a_fresh_window_that_lacks_nothing_but_requests_is_taken_again(port: FakePort) -> None:
    taken = windows(port, make_window(requests=40), make_window(requests=100))
    assert evaluate(CONTRACT, port, only=["MS-I6"]).violated == ()
    assert len(taken) == 2


@pytest.mark.parametrize("first", [make_window(requests=40, failures=10), make_window(failures=10)])
def test_a_fresh_window_in_which_something_failed_is_not_taken_again(
    port: FakePort, first: Window
) -> None:
    taken = windows(port, first, make_window(requests=100))
    assert evaluate(CONTRACT, port, only=["MS-I6"]).violated == ("MS-I6",)
    assert len(taken) == 1


def test_no_fresh_window_is_begun_after_the_deadline(port: FakePort) -> None:
    taken = windows(port, make_window(requests=40), seconds=30.0)
    assert evaluate(CONTRACT, port, only=["MS-I6"]).violated == ("MS-I6",)
    assert len(taken) == 1


def test_a_refused_deletion_is_no_verdict(world: World, port: FakePort) -> None:
    world.kube.break_next("delete", "Pod", status=409, reason="Conflict")
    with pytest.raises(ClusterError):
        evaluate(CONTRACT, port, only=["MS-I6"])


def test_an_api_that_goes_away_while_waiting_for_the_replacement(
    world: World, port: FakePort
) -> None:
    world.kube.reactors.append(lambda kube, verb, body: kube.break_always("list"))
    with pytest.raises(ClusterUnavailableError, match="repair persistence"):
        evaluate(CONTRACT, port, only=["MS-I6"])


# -- misuse --------------------------------------------------------------------------------------


def test_nothing_to_evaluate_is_an_error_and_no_pass(port: FakePort) -> None:
    with pytest.raises(HarnessError, match="no invariant"):
        evaluate(CONTRACT, port, only=[])


def test_an_empty_baseline_is_an_error_and_no_pass(port: FakePort) -> None:
    port.baseline = {}
    with pytest.raises(HarnessError, match="baseline"):
        evaluate(CONTRACT, port, only=["MS-I5"])


def test_results_know_how_long_they_took(world: World, port: FakePort) -> None:
    _drop_service(world)
    world.settle()
    reading = evaluate(CONTRACT, port, only=["MS-I1", "MS-I5"])
    elapsed = {result.id: result.elapsed for result in reading.invariants}
    assert elapsed["MS-I1"] == pytest.approx(30.0)
    assert elapsed["MS-I5"] == 0.0
    assert [r.evaluation for r in reading.invariants if r.id == "MS-I2"] == [
        Evaluation.NOT_EVALUATED
    ]
