"""The routing table against what kube-proxy does with the same objects."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from embedded_netns import endpoint, piece, service
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.proxy.table import Backend, Destination, desired, is_ipv4

CORPUS = Path(__file__).parents[4].parent / "shared" / "k8s-golden" / "v1.36.2"
AT = Destination(address="10.96.1.1", port=80)


def table(services: Any, slices: Any, node: str = "node-1") -> Any:
    return desired(services, slices, node=node)


def backends(*addresses: str, port: int = 8080) -> tuple[Backend, ...]:
    return tuple(Backend(address=address, port=port) for address in addresses)


def test_ready_endpoints_of_all_slices_are_taken_together() -> None:
    found = table(
        [service("web", "10.96.1.1")],
        [
            piece("web", ["10.244.0.2", "10.244.0.1"]),
            piece("web", ["10.244.0.3", "10.244.0.1"], suffix="b"),
        ],
    )
    assert found[AT].action == "forward"
    assert found[AT].backends == backends("10.244.0.1", "10.244.0.2", "10.244.0.3")


def test_without_slices_it_is_rejected() -> None:
    assert table([service("web", "10.96.1.1")], [])[AT].action == "reject"


def test_endpoints_that_are_not_ready_do_not_count() -> None:
    slices = [piece("web", [endpoint("10.244.0.1", ready=False, serving=False)])]
    assert table([service("web", "10.96.1.1")], slices)[AT].action == "reject"


def test_unknown_readiness_is_readiness() -> None:
    slices = [piece("web", [{"addresses": ["10.244.0.1"]}])]
    assert table([service("web", "10.96.1.1")], slices)[AT].backends == backends("10.244.0.1")


def test_leaving_endpoints_serve_only_while_no_other_is_ready() -> None:
    leaving = endpoint("10.244.0.1", ready=False, serving=True, terminating=True)
    web = service("web", "10.96.1.1")
    assert table([web], [piece("web", [leaving])])[AT].backends == backends("10.244.0.1")
    both = table([web], [piece("web", [leaving, "10.244.0.2"])])
    assert both[AT].backends == backends("10.244.0.2")


def test_leaving_endpoint_that_serves_no_more_does_not_count() -> None:
    gone = endpoint("10.244.0.1", ready=False, serving=False, terminating=True)
    assert table([service("web", "10.96.1.1")], [piece("web", [gone])])[AT].action == "reject"


def test_ports_belong_together_by_name_and_protocol() -> None:
    web = service("web", "10.96.1.1", ((80, "http"), (81, "admin")))
    found = table([web], [piece("web", ["10.244.0.1"], ((8080, "http"),))])
    assert found[AT].backends == backends("10.244.0.1")
    other = Destination(address="10.96.1.1", port=81)
    assert found[other].action == "reject"
    udp = piece("web", ["10.244.0.1"], ((8080, "http"),))
    udp["ports"][0]["protocol"] = "UDP"
    assert table([web], [udp])[AT].action == "reject"


def test_another_namespace_s_slices_do_not_count() -> None:
    foreign = piece("web", ["10.244.0.1"])
    foreign["metadata"]["namespace"] = "elsewhere"
    assert table([service("web", "10.96.1.1")], [foreign])[AT].action == "reject"


def test_headless_external_and_ipv6_have_no_routes() -> None:
    slices = [piece("web", ["10.244.0.1"])]
    assert not table([service("web", "None")], slices)
    assert not table([service("web", "", type="ExternalName", externalName="x.example")], slices)
    assert not table([service("web", "fd00::1")], slices)


def test_ipv6_slices_do_not_count() -> None:
    six = piece("web", ["fd00::2"])
    six["addressType"] = "IPv6"
    assert table([service("web", "10.96.1.1")], [six])[AT].action == "reject"


def test_local_policy_restricts_to_the_node_and_drops_without_one() -> None:
    web = service("web", "10.96.1.1", internalTrafficPolicy="Local")
    here, there = endpoint("10.244.0.1"), {**endpoint("10.244.0.2"), "nodeName": "node-2"}
    assert table([web], [piece("web", [here, there])])[AT].backends == backends("10.244.0.1")
    assert table([web], [piece("web", [there])])[AT].action == "drop"
    assert table([web], [])[AT].action == "reject"


def test_session_affinity_is_carried() -> None:
    web = service("web", "10.96.1.1", sessionAffinity="ClientIP")
    assert table([web], [piece("web", ["10.244.0.1"])])[AT].sticky


def test_udp_and_tcp_of_one_port_are_two_routes() -> None:
    dns = service("dns", "10.96.1.1", ((53, "a"), (53, "b")))
    dns["spec"]["ports"][1]["protocol"] = "UDP"
    assert {key.protocol for key in table([dns], [])} == {"TCP", "UDP"}


@pytest.mark.parametrize(
    "address", ["", "10.96.1", "1.2.3.4; drop", "fd00::1", "999.1.1.1", None, 7, "1.2.3.4\n"]
)
def test_what_is_no_address_reaches_no_rule(address: Any) -> None:
    assert not is_ipv4(address)
    broken = piece("web", [{"addresses": [address], "conditions": {"ready": True}}])
    assert table([service("web", "10.96.1.1")], [broken])[AT].action == "reject"


@pytest.mark.parametrize("port", [0, 65536, -1, None, "80"])
def test_what_is_no_port_reaches_no_rule(port: Any) -> None:
    broken = piece("web", ["10.244.0.1"], ((port, ""),))
    assert table([service("web", "10.96.1.1")], [broken])[AT].action == "reject"


def test_inputs_are_not_changed() -> None:
    services = [service("web", "10.96.1.1")]
    slices = [piece("web", ["10.244.0.1"])]
    before = copy.deepcopy((services, slices))
    table(services, slices)
    assert (services, slices) == before


conditions = st.fixed_dictionaries(
    {}, optional={name: st.none() | st.booleans() for name in ("ready", "serving", "terminating")}
)
endpoints = st.lists(
    st.fixed_dictionaries(
        {"addresses": st.lists(st.sampled_from(["10.244.0.1", "10.244.0.2", "x"]), max_size=2)},
        optional={"conditions": st.none() | conditions, "nodeName": st.sampled_from(["node-1"])},
    ),
    max_size=4,
)
pieces = st.lists(
    st.builds(
        lambda items, ports: {**piece("web", []), "endpoints": items, "ports": ports},
        st.none() | endpoints,
        st.none() | st.lists(st.fixed_dictionaries({"port": st.none() | st.integers(-1, 70000)})),
    ),
    max_size=3,
)


@given(pieces)
def test_forwarding_means_having_backends(slices: Any) -> None:
    route = table([service("web", "10.96.1.1")], slices)[AT]
    assert (route.action == "forward") == bool(route.backends)
    assert list(route.backends) == sorted(set(route.backends))


def test_recorded_states_give_the_recorded_kind_of_answer() -> None:
    """Each state before a probe, against what ``nc`` to the Service met there."""
    if not CORPUS.is_dir():
        pytest.skip("the recordings are not here")
    compared = 0
    state: Any = None
    for file in sorted((CORPUS / "03-service").glob("*.json")):
        record = json.loads(file.read_text())
        if record["type"] == "state":
            state = record
            continue
        if record["type"] != "probe" or state is None:
            continue
        met = next((c for c in record["commands"] if c["cmd"] == "nc -z -w 3 web 80"), None)
        objects = _objects(state)
        if met is None or not objects[0]:
            continue
        found = table(*objects)
        route = next((item for key, item in found.items() if key.port == 80), None)
        if route is None:  # headless: by its endpoints, not by a route
            continue
        if met["exit_code"] == 0:
            assert route.action == "forward", file.name
        elif met["elapsed_s"] >= 1:
            assert route.action == "reject", file.name
        else:
            assert {backend.port for backend in route.backends} & {65535, 9999}, file.name
        compared += 1
    assert compared >= 10


def _objects(state: Any) -> tuple[list[Any], list[Any]]:
    services: list[Any] = []
    slices: list[Any] = []
    for path, answer in state["objects"].items():
        body = answer.get("body", answer)
        items = body.get("items", [body]) if isinstance(body, dict) else []
        if "/endpointslices" in path:
            slices += [item for item in items if "addressType" in item]
        elif "/services" in path:
            services += [item for item in items if item.get("spec", {}).get("clusterIP")]
    return services, slices
