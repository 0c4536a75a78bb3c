"""The contract on states recorded from a real Kubernetes 1.36.2, replayed object by object.

Services and EndpointSlices are the recorded ones; pods and their owners are rebuilt from the
recorded owner chains; the probe's answers and the requests are as recorded. What the recording says
of I6 where there was no pod to delete is "not evaluated"; for us that is a violation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from contract_port import FakePort, make_contract, make_window
from fake_kube import FakeKube, executed
from world import NS, pod

from pytest_sremut.cluster.port import ExecResult
from pytest_sremut.contract.evaluate import evaluate

GOLDEN = Path(__file__).parents[4] / "shared" / "k8s-golden" / "operators-v1.36.2"
STATES = sorted(p for p in GOLDEN.glob("*.json") if p.stem != "APPLICATION")

pytestmark = pytest.mark.skipif(not STATES, reason="the recorded states are not here")


@pytest.mark.parametrize("path", STATES, ids=lambda path: path.stem)
def test_recorded_state(path: Path) -> None:
    record = json.loads(path.read_text())
    replay = _Replay(record)
    reading = evaluate(make_contract(), replay.port)
    expected = {f"MS-{name.split('_')[0]}" for name in record["verdict"]["rejected_by"]}
    if record["verdict"]["invariants"]["I6"] is None:
        expected.add("MS-I6")
        assert replay.port.deleted == []
    else:
        assert replay.port.deleted == [record["contract"]["replacement"]["deleted"]["name"]]
    assert set(reading.violated) == expected, [r.observed for r in reading.invariants]


class _Replay:
    """The recorded state, and the one after the pod was replaced."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.kube = FakeKube()
        self._load("first", record["state"]["endpointslices"])
        self.port = FakePort(self.kube, baseline=record["baseline"]["replicas"])
        self.port.seen = _window(record["contract"]["first"])
        self.kube.on_exec = self._exec
        self.kube.reactors.append(self._replaced)
        self._phase = "first"

    def _load(self, phase: str, slices: Mapping[str, Any]) -> None:
        for key in [key for key in self.kube.objects if key[1] == NS]:
            del self.kube.objects[key]
        seen = self.record["contract"][phase]
        service = self.record["state"]["service"]
        if service["status"] == 200:
            self.kube.put(service["object"])
        for item in slices["object"]["items"]:
            self.kube.put({"kind": "EndpointSlice", **item})
        for endpoint in seen["eligible_endpoints"]:
            self._chain(endpoint["chain"], endpoint["address"])
        for name, numbers in seen["deployments"].items():
            if numbers is not None and numbers.get("uid"):
                self.kube.put(_deployment(name, numbers))

    def _chain(self, chain: Sequence[Mapping[str, str]], address: str) -> None:
        owner: Mapping[str, str] | None = None
        for link in reversed(chain):
            if link["kind"] != "Deployment":
                meta: dict[str, Any] = {"name": link["name"], "namespace": NS, "uid": link["uid"]}
                if owner is not None:
                    meta["ownerReferences"] = [{**owner, "controller": True}]
                body = pod(link["name"], address) if link["kind"] == "Pod" else {}
                self.kube.put({**body, "kind": link["kind"], "metadata": meta})
            owner = link

    def _replaced(self, kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:
        contract = self.record["contract"]
        self._phase = "after"
        self._load("after", contract["state_after"]["endpointslices"])
        new = contract["replacement"]["new_pod"]
        if ("Pod", NS, new["name"]) not in kube.objects:  # it is no endpoint
            fresh = pod(new["name"], new["address"])
            owner = body["metadata"]["ownerReferences"]
            fresh["metadata"]["ownerReferences"] = owner
            kube.put(fresh)
            uid = self.record["baseline"]["deployment_uid"]
            links = self.record["contract"]["first"]["eligible_endpoints"][0]["chain"]
            assert links[-1]["uid"] == uid
            self._chain(links[1:], "")
        self.port.fresh = lambda: _window(contract["after"])

    def _exec(self, _namespace: str, _pod: str, argv: Sequence[str]) -> ExecResult:
        seen = self.record["contract"][self._phase]
        if argv[0] == "nslookup":
            text = "\n".join(seen["nslookup"]["output"])
            return executed(argv, exit_code=seen["nslookup"]["exit"], stdout=text)
        return executed(argv, exit_code=seen["nc"]["exit"], stderr="\n".join(seen["nc"]["output"]))


def _window(seen: Mapping[str, Any]) -> Any:
    """Statuses only, as the contract's workload sees them."""
    return make_window(requests=100, failures=10 if seen["http"]["failures"] else 0)


def _deployment(name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": numbers["uid"],
            "generation": numbers["generation"],
        },
        "spec": {"replicas": numbers["desired"]},
        "status": {
            "readyReplicas": numbers["ready"],
            "availableReplicas": numbers["available"],
        },
    }
