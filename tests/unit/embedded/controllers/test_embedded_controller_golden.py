"""Converged objects and transitions against those recorded from a real Kubernetes.

The recorded requests are replayed against the controllers; what differs by nature (uids, times,
addresses, generated names) is made equal before comparing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from controllers_kit import NAMESPACE, Cluster, Json, run

GOLDEN = Path(__file__).parents[5] / "shared" / "k8s-golden" / "v1.36.2"

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded corpus is not here")

DROPPED = {"uid", "resourceVersion", "managedFields", "creationTimestamp"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX = re.compile(rf"(?<=-)[{NAME_CHARACTERS}]{{5}}$")


def recorded(folder: str, file: str) -> Json:
    value: Json = json.loads((GOLDEN / folder / file).read_text())
    return value


def request(folder: str, file: str) -> Json:
    """The body that was sent, for our namespace."""
    body: Json = recorded(folder, file)["request"]["body"]
    body["metadata"].pop("namespace", None)
    return body


def state(folder: str, file: str) -> dict[str, list[Json]]:
    """Recorded objects by kind of path: ``deployments``, ``endpoints``."""
    found: dict[str, list[Json]] = {}
    for path, answer in recorded(folder, file)["objects"].items():
        plural = path.split("?")[0].split("/namespaces/")[1].split("/")[1]
        body = answer["body"]
        found.setdefault(plural, []).extend(body.get("items", [body]))
    return found


class Normal:
    """Makes objects of one cluster comparable; template hashes are named after their revision."""

    def __init__(self, replicasets: Iterable[Json] = (), **names: str) -> None:
        self._names = {code: name for name, code in names.items()}
        for item in replicasets:
            code = item["metadata"]["labels"]["pod-template-hash"]
            revision = item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            self._names[code] = f"HASH{revision}"

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            result = {k: self(v) for k, v in value.items() if k not in DROPPED}
            if "metadata" in result:  # items of a list carry neither
                result.pop("kind", None)
                result.pop("apiVersion", None)
            if "addressType" in result:  # a slice counts how often it was written
                result["metadata"].pop("generation", None)
            return result
        if isinstance(value, list):
            return sorted((self(item) for item in value), key=_order)
        if not isinstance(value, str):
            return value
        text = ADDRESS.sub("ADDRESS", TIME.sub("TIME", value))
        for code, name in self._names.items():
            text = text.replace(code, name)
        return NAMESPACE if text.startswith("golden-") else SUFFIX.sub("XXXXX", text)


def _order(item: Any) -> str:
    if isinstance(item, dict) and "type" in item:
        return str(item["type"])
    return json.dumps(item, sort_keys=True) if not isinstance(item, str) else ""


def same(ours: list[Json], theirs: list[Json], mine: Normal, other: Normal) -> None:
    first = sorted((mine(item) for item in ours), key=_order)
    second = sorted((other(item) for item in theirs), key=_order)
    assert list(_differences(first, second, "")) == []


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(left, right, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} instead of {theirs!r}"


def compare(cluster: Cluster, theirs: dict[str, list[Json]], *plurals: str) -> None:
    keys = {
        "deployments": "deployments.apps",
        "replicasets": "replicasets.apps",
        "endpointslices": "endpointslices.discovery.k8s.io",
        "endpoints": "endpoints",
        "jobs": "jobs.batch",
        "statefulsets": "statefulsets.apps",
        "daemonsets": "daemonsets.apps",
        "poddisruptionbudgets": "poddisruptionbudgets.policy",
    }
    mine = Normal(cluster.list("replicasets.apps"))
    other = Normal(theirs.get("replicasets", ()))
    for plural in plurals:
        same(cluster.list(keys[plural]), theirs[plural], mine, other)


def replace(file: str, folder: str = "02-deployment") -> Callable[[Json], None]:
    """The spec as the recorded PATCH or PUT left it."""
    spec = recorded(folder, file)["response"]["body"]["spec"]
    return lambda value: value.update(spec=spec)


ALL = ("deployments", "replicasets", "endpoints", "endpointslices")


async def settled_web(cluster: Cluster) -> None:
    cluster.create("deployments.apps", request("02-deployment", "001-deployment-create.json"))
    cluster.create("services", request("02-deployment", "002-service-create.json"))
    await cluster.settle()


def test_a_deployment_and_its_service_settle_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        await settled_web(cluster)
        compare(cluster, state("02-deployment", "003-settled.state.json"), *ALL)

    run(body)


def test_scaling_and_rollouts_settle_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        await settled_web(cluster)
        cluster.scale("deployments.apps", "web", 3)
        await cluster.settle()
        compare(cluster, state("02-deployment", "023-scaled-3.state.json"), "deployments")
        cluster.kubelet.stops = False
        cluster.scale("deployments.apps", "web", 1)
        await cluster.settle()
        compare(cluster, state("02-deployment", "025-scaled-1-at-2s.state.json"), *ALL[:3])
        cluster.change("deployments.apps", "web", replace("027-patch-grace.json"))
        await cluster.settle()
        theirs = state("02-deployment", "028-rolled-out-2.state.json")
        compare(cluster, theirs, *ALL)
        cluster.change("deployments.apps", "web", replace("029-patch-env.json"))
        await cluster.settle()
        cluster.kubelet.stops = True
        await cluster.settle()
        theirs = state("02-deployment", "030-rolled-out-3.state.json")
        compare(cluster, theirs, "replicasets", "endpoints")
        cluster.change("deployments.apps", "web", replace("031-pause.json"))
        await cluster.settle()
        compare(cluster, state("02-deployment", "032-paused.state.json"), "deployments")

    run(body)


def test_a_stuck_rollout_and_its_deadline_are_told_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        await settled_web(cluster)
        cluster.change("deployments.apps", "web", replace("027-patch-grace.json"))
        await cluster.settle()
        cluster.change("deployments.apps", "web", replace("029-patch-env.json"))
        await cluster.settle()
        cluster.change("deployments.apps", "web", replace("031-pause.json"))
        await cluster.settle()
        cluster.change("deployments.apps", "web", replace("033-unpause.json"))
        await cluster.settle()
        cluster.kubelet.ready = lambda pod: False
        cluster.change("deployments.apps", "web", replace("035-bad-image-update.json"))
        await cluster.settle()
        mine = Normal(cluster.list("replicasets.apps"))
        for wait, file in ((0, "036-stuck-at-3s"), (8, "037-stuck-deadline")):
            await cluster.advance(wait)
            theirs = state("02-deployment", f"{file}.state.json")
            ours = cluster.list("deployments.apps")
            sides = [_without_generation(item) for item in (ours, theirs["deployments"])]
            same(*sides, mine, Normal(theirs["replicasets"]))

    run(body)


def _without_generation(values: list[Json]) -> list[Json]:
    """More changes were recorded before than are made here."""
    copies: list[Json] = json.loads(json.dumps(values))
    for item in copies:
        item["metadata"].pop("generation")
        item["status"].pop("observedGeneration")
    return copies


def statuses(file: Path) -> Iterator[Json]:
    for line in file.read_text().splitlines()[1:]:
        event = json.loads(line)
        if event["type"] != "DELETED":
            yield event["object"]["status"]


def test_the_status_of_a_first_rollout_takes_the_recorded_steps() -> None:
    normal = Normal()

    def distinct(values: Iterator[Json]) -> list[Json]:
        steps: list[Json] = []
        for value in values:
            text = re.sub(r"web-\w+", "web-HASH", json.dumps(normal(value)))
            step = json.loads(text)
            if not steps or steps[-1] != step:
                steps.append(step)
        return steps

    async def body(cluster: Cluster) -> None:
        seen: list[Json] = []
        cluster.registry.subscribe(lambda e: seen.append(e.object["status"]), "deployments.apps")
        cluster.create("deployments.apps", request("02-deployment", "001-deployment-create.json"))
        await cluster.manager.settle()
        for item in cluster.pods():  # one after the other, as recorded
            cluster.kubelet.run(item)
            await cluster.manager.settle()
        ours = distinct(iter(seen))
        theirs = distinct(statuses(GOLDEN / "02-deployment" / "events-deployments.jsonl"))
        assert ours == theirs[: len(ours)]
        assert len(ours) == 6

    run(body)


def service_from(folder: str, file: str, **changes: Any) -> Json:
    body = request(folder, file)
    body["spec"].update(changes)
    return body


@pytest.mark.parametrize(
    ("created", "settled"),
    [
        ("001-baseline-create.json", "002-baseline.state.json"),
        ("009-nomatch-create.json", "010-nomatch.state.json"),
        ("013-port65535-create.json", "014-port65535.state.json"),
        ("017-noselector-create.json", "018-noselector.state.json"),
        ("028-headless-create.json", "029-headless.state.json"),
        ("032-headless-nomatch-create.json", "033-headless-nomatch.state.json"),
        ("036-named-target-create.json", "037-named-target.state.json"),
        ("040-named-target-missing-create.json", "041-named-target-missing.state.json"),
    ],
)
def test_services_get_the_recorded_endpoints_and_slices(created: str, settled: str) -> None:
    async def body(cluster: Cluster) -> None:
        deployment = request("02-deployment", "001-deployment-create.json")
        cluster.create("deployments.apps", deployment)
        await cluster.settle()
        await cluster.advance(60)
        cluster.create("services", request("03-service", created))
        await cluster.settle()
        theirs = state("03-service", settled)
        mine, other = Normal(cluster.list("replicasets.apps")), Normal(HASH1="797bcb975d")
        slices = cluster.list("endpointslices.discovery.k8s.io")
        same(cluster.list("endpoints"), theirs["endpoints"], mine, other)
        same(slices, theirs["endpointslices"], mine, other)

    run(body)


def test_endpoints_by_hand_are_mirrored_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", request("03-service", "017-noselector-create.json"))
        cluster.create("endpoints", request("03-service", "020-manual-endpoints-create.json"))
        await cluster.settle()
        theirs = state("03-service", "021-manual-endpoints.state.json")
        compare(cluster, theirs, "endpoints", "endpointslices")

    run(body)


@pytest.mark.parametrize(
    ("created", "settled", "phase"),
    [
        ("059-job-ok-create.json", "062-job-ok.state.json", "Succeeded"),
        ("060-job-bad-create.json", "063-job-bad.state.json", "Failed"),
        ("061-job-deadline-create.json", "064-job-deadline.state.json", ""),
    ],
)
def test_jobs_end_as_recorded(created: str, settled: str, phase: str) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", request("04-pods", created))
        await cluster.settle()
        for _ in range(3):
            for item in cluster.pods():
                if phase:
                    cluster.kubelet.finish(item, phase)
            await cluster.settle()
            await cluster.advance(12)
        theirs = state("04-pods", settled)
        ours = cluster.list("jobs.batch")
        mine = Normal(UID=ours[0]["metadata"]["uid"])
        other = Normal(UID=theirs["jobs"][0]["metadata"]["uid"])
        shown = [
            [{"metadata": x["metadata"], "status": x["status"]} for x in side]
            for side in (ours, theirs["jobs"])
        ]
        same(*shown, mine, other)

    run(body)


def test_a_quota_that_refuses_pods_is_told_as_recorded() -> None:
    theirs = state("08-faults", "009-quota.state.json")

    async def body(cluster: Cluster) -> None:
        real = cluster.registry.create

        def create(resource: str, namespace: str, value: Json, **options: Any) -> Json:
            from pytest_sremut.embedded.meta.errors import forbidden

            if resource == "pods":
                why = "failed quota: q: must specify requests.memory for: web"
                name = f"{value['metadata']['generateName']}jgt4d"
                raise forbidden("pods", name, why)
            return real(resource, namespace, value, **options)

        cluster.registry.create = create  # type: ignore[method-assign]
        cluster.create("deployments.apps", request("08-faults", "008-quota-deployment.json"))
        await cluster.settle()
        compare(cluster, theirs, "deployments", "replicasets")

    run(body)


def test_a_rollout_that_readiness_stops_is_told_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        theirs = state("08-faults", "015-readiness-break.state.json")
        value = theirs["deployments"][0]
        spec = json.loads(json.dumps(value["spec"]).replace("9999", "8080"))
        metadata = {"name": "web", "labels": {"app": "web"}}
        cluster.create("deployments.apps", {"metadata": metadata, "spec": spec})
        await cluster.settle()
        cluster.kubelet.ready = lambda pod: False
        cluster.change("deployments.apps", "web", lambda x: x.update(spec=value["spec"]))
        await cluster.settle()
        compare(cluster, theirs, "deployments", "replicasets")

    run(body)


def test_a_statefulset_settles_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        theirs = state("08-faults", "023-statefulset.state.json")
        cluster.create("statefulsets.apps", request("08-faults", "022-statefulset-create.json"))
        await cluster.settle()
        ours = cluster.list("statefulsets.apps")
        mine = Normal(HASH=ours[0]["status"]["currentRevision"].removeprefix("db-"))
        other = Normal(HASH="7fdb5589d5")
        same(ours, theirs["statefulsets"], mine, other)
        revisions = cluster.list("controllerrevisions.apps")
        same(revisions, theirs["controllerrevisions"], mine, other)
        shapes = [
            [{"of": x["metadata"]} for x in side] for side in (cluster.pods(), theirs["pods"])
        ]
        same(*shapes, mine, other)

    run(body)


def test_a_daemonset_settles_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        theirs = state("08-faults", "026-daemonset.state.json")
        value = request("08-faults", "025-daemonset-create.json")
        value["metadata"]["annotations"] = theirs["daemonsets"][0]["metadata"]["annotations"]
        cluster.create("daemonsets.apps", value)
        await cluster.settle()
        compare(cluster, theirs, "daemonsets")
        mine, other = cluster.pods()[0], theirs["pods"][0]
        assert mine["spec"]["tolerations"] == other["spec"]["tolerations"]
        assert mine["spec"]["affinity"] == other["spec"]["affinity"]
        assert set(mine["metadata"]["labels"]) == set(other["metadata"]["labels"])

    run(body)


def test_a_budget_is_told_as_recorded() -> None:
    async def body(cluster: Cluster) -> None:
        await settled_web(cluster)
        cluster.kubelet.stops = False
        cluster.delete("pods", cluster.pods()[0]["metadata"]["name"])
        await cluster.settle()
        cluster.create("poddisruptionbudgets.policy", request("08-faults", "032-pdb-create.json"))
        await cluster.settle()
        compare(cluster, state("08-faults", "034-pdb.state.json"), "poddisruptionbudgets")

    run(body)


def test_a_new_namespace_is_given_what_was_recorded() -> None:
    answers = recorded("01-discovery", "033-ns-settled.state.json")["objects"]

    async def body(cluster: Cluster) -> None:
        for plural in ("serviceaccounts", "configmaps"):
            theirs = answers[f"/api/v1/namespaces/golden-ns/{plural}"]["body"]["items"]
            for item in theirs:
                if "data" in item:
                    item["data"] = {"ca.crt": ""}
            same(cluster.list(plural), theirs, Normal(), Normal())

    run(body)
