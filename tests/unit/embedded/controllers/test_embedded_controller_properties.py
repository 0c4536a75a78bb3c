"""Whatever happens in whatever order, the cluster comes to rest as it is wanted."""

from __future__ import annotations

from typing import Any

from controllers_kit import Cluster, Json, deployment, job, run, service
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SLICES = "endpointslices.discovery.k8s.io"
quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

number = st.integers(0, 5)
step = st.one_of(
    st.tuples(st.just("scale"), number),
    st.tuples(st.just("image"), st.sampled_from(["1", "2", "3"])),
    st.tuples(st.just("strategy"), st.sampled_from(["RollingUpdate", "Recreate"])),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("select"), st.sampled_from(["web", "other", None])),
    st.tuples(st.just("flip"), number),
    st.tuples(st.just("delete pod"), number),
    st.tuples(st.just("finish pod"), number),
    st.tuples(st.just("relabel pod"), number),
    st.tuples(st.just("delete replicaset"), number),
    st.tuples(
        st.just("delete deployment"), st.sampled_from(["Background", "Foreground", "Orphan"])
    ),
    st.tuples(st.just("delete service"), st.just(0)),
    st.tuples(st.just("delete endpoints"), st.just(0)),
    st.tuples(st.just("healthy"), st.booleans()),
    st.tuples(st.just("stops"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1, 700])),
)


def pick(items: list[Json], place: int) -> Json | None:
    return items[place % len(items)] if items else None


def change_template(tag: str) -> Any:
    def change(value: Json) -> None:
        value["spec"]["template"]["spec"]["containers"][0]["image"] = f"busybox:{tag}"

    return change


def select(app: str | None) -> Any:
    def change(value: Json) -> None:
        value["spec"]["selector"] = {"app": app}
        if app is None:
            del value["spec"]["selector"]

    return change


async def take(cluster: Cluster, action: str, value: Any) -> None:  # noqa: C901  # one branch for each action
    """One thing that a user, a kubelet or time does."""
    registry = cluster.registry
    there = registry.get("deployments.apps", "shop", "web") is not None
    if action == "wait":
        await cluster.advance(value, kubelet=False)
    elif action == "healthy":
        cluster.kubelet.ready = lambda pod: value
    elif action == "stops":
        cluster.kubelet.stops = value
    elif action == "select" and not cluster.gone("services", "web"):
        cluster.change("services", "web", select(value))
    elif action == "delete service" and not cluster.gone("services", "web"):
        cluster.delete("services", "web")
    elif action == "delete endpoints" and not cluster.gone("endpoints", "web"):
        cluster.delete("endpoints", "web")
    elif action == "delete replicaset":
        chosen = pick(cluster.list("replicasets.apps"), value)
        if chosen is not None:
            cluster.delete("replicasets.apps", chosen["metadata"]["name"])
    elif action.endswith(" pod") or action == "flip":
        chosen = pick(cluster.pods(), value)
        if chosen is not None:
            disturb(cluster, action, chosen)
    elif there and action == "delete deployment":
        cluster.delete("deployments.apps", "web", propagation=value)
    elif there:
        change: dict[str, Any] = {
            "scale": lambda x: x["spec"].update(replicas=value),
            "image": change_template(value),
            "pause": lambda x: x["spec"].update(paused=value),
            "strategy": lambda x: x["spec"].update(strategy={"type": value}),
        }
        if action in change:
            cluster.change("deployments.apps", "web", change[action])


def disturb(cluster: Cluster, action: str, chosen: Json) -> None:
    name = chosen["metadata"]["name"]
    if action == "flip":
        if chosen["status"].get("podIP"):
            told = {x["type"]: x["status"] for x in chosen["status"]["conditions"]}
            cluster.kubelet.set_ready(chosen, told.get("Ready") != "True")
    elif action == "delete pod":
        cluster.delete("pods", name)
    elif action == "finish pod":
        cluster.kubelet.finish(chosen, "Failed", 1)
    else:
        cluster.change("pods", name, lambda x: x["metadata"]["labels"].update(app="other"))


async def calm(cluster: Cluster, image: str) -> None:
    """The user wants one thing and lets the cluster be."""
    cluster.kubelet.stops = True
    cluster.kubelet.ready = lambda pod: True
    await cluster.settle()
    if cluster.gone("deployments.apps", "web"):
        cluster.create("deployments.apps", deployment())
    if cluster.gone("services", "web"):
        cluster.create("services", service())
    cluster.change("services", "web", select("web"))
    cluster.change("deployments.apps", "web", lambda x: x["spec"].update(paused=False))
    cluster.change("deployments.apps", "web", change_template(image))
    for item in cluster.pods():
        if item["status"].get("podIP"):
            cluster.kubelet.set_ready(item, True)
    await cluster.settle()
    await cluster.advance(60)


def check(cluster: Cluster, image: str) -> None:
    value = cluster.get("deployments.apps", "web")
    wanted = value["spec"]["replicas"]
    sets = {x["metadata"]["uid"]: x for x in cluster.list("replicasets.apps")}
    owned = [x for x in sets.values() if x["metadata"].get("ownerReferences")]
    assert {x["metadata"]["ownerReferences"][0]["uid"] for x in owned} <= {value["metadata"]["uid"]}
    pods = cluster.pods()
    mine = []
    for item in pods:
        references = item["metadata"].get("ownerReferences")
        if references is None:
            assert item["metadata"]["labels"]["app"] == "other"
            continue
        assert references[0]["uid"] in sets, "a leaked pod"
        mine.append(item)
    assert len(mine) == wanted
    assert {x["spec"]["containers"][0]["image"] for x in mine} <= {f"busybox:{image}"}
    status = value["status"]
    for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
        assert status.get(field, 0) == wanted
    assert status["observedGeneration"] == value["metadata"]["generation"]
    assert "unavailableReplicas" not in status
    assert len(cluster.list(SLICES, **{"kubernetes.io/service-name": "web"})) == 1
    check_endpoints(cluster)


def check_endpoints(cluster: Cluster) -> None:
    """Endpoints and slices show the ready pods of the selector, if there is one."""
    if cluster.gone("services", "web"):
        assert cluster.gone("endpoints", "web")
        return
    selector = cluster.get("services", "web")["spec"].get("selector")
    if selector is None:
        return
    ready = {
        item["status"]["podIP"]
        for item in cluster.pods(**selector)
        if any(x["type"] == "Ready" and x["status"] == "True" for x in item["status"]["conditions"])
    }
    shown = {
        address["ip"]
        for subset in cluster.get("endpoints", "web").get("subsets", ())
        for address in subset.get("addresses", ())
    }
    slices = {
        endpoint["addresses"][0]
        for item in cluster.list(SLICES, **{"kubernetes.io/service-name": "web"})
        for endpoint in item["endpoints"] or ()
        if endpoint["conditions"]["ready"]
    }
    assert shown == slices == ready


rest = st.sampled_from(["none", "controllers", "kubelet", "all"])


@quick
@given(st.lists(st.tuples(step, rest), max_size=20), st.sampled_from(["1.36", "2", "last"]))
def test_applications_come_to_rest_as_wanted(
    steps: list[tuple[tuple[str, Any], str]], image: str
) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        cluster.create("services", service())
        for (action, value), rest in steps:
            await take(cluster, action, value)
            if rest == "kubelet":
                cluster.kubelet.step()
            elif rest != "none":
                await cluster.settle(kubelet=rest == "all")
                check_endpoints(cluster)
        await calm(cluster, image)
        check(cluster, image)
        revision = cluster.registry.revision
        await cluster.advance(3600)
        assert cluster.registry.revision == revision, "a cluster at rest is written to"

    run(body)


ending = st.tuples(st.sampled_from(["Succeeded", "Failed", "delete", "wait"]), number)


@quick
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.lists(ending, max_size=20))
def test_each_pod_of_a_job_is_counted_once(
    total: int, parallel: int, limit: int, steps: list[tuple[str, int]]
) -> None:
    async def body(cluster: Cluster) -> None:
        spec = {"completions": total, "parallelism": parallel, "backoffLimit": limit}
        cluster.create("jobs.batch", job(**spec))
        won = lost = 0
        for action, place in steps:
            await cluster.settle()
            active = cluster.pods()
            assert len(active) <= parallel
            if not active or action == "wait":
                await cluster.advance(600)
                continue
            chosen = active[place % len(active)]
            if action == "delete":
                cluster.delete("pods", chosen["metadata"]["name"])
            else:
                cluster.kubelet.finish(chosen, action)
            won, lost = won + (action == "Succeeded"), lost + (action != "Succeeded")
            await cluster.settle()
            status = cluster.get("jobs.batch", "load")["status"]
            told = {x["type"] for x in status.get("conditions", ())}
            if "Failed" in told:
                assert lost == limit + 1
                break
            assert (status.get("succeeded", 0), status.get("failed", 0)) == (won, lost)
            assert ("Complete" in told) == (won == total)
            if won == total:
                break
        await cluster.settle()
        assert all(
            not item["metadata"].get("finalizers")
            for item in cluster.list("pods")
            if item["status"]["phase"] in ("Succeeded", "Failed")
        )

    run(body)


@quick
@given(
    st.lists(st.tuples(number, number), max_size=12),
    st.lists(st.tuples(number, st.sampled_from(["Background", "Foreground"])), max_size=4),
)
def test_no_object_outlives_all_of_its_owners(  # noqa: C901  # builds the graph and compares it in one place
    edges: list[tuple[int, int]], deletions: list[tuple[int, str]]
) -> None:
    owners: dict[int, set[int]] = {}
    for child, owner in edges:
        if owner < child:  # no cycles
            owners.setdefault(child, set()).add(owner)

    def expected(gone: set[int]) -> set[int]:
        for child in range(6):
            if owners.get(child) and owners[child] <= gone:
                gone.add(child)
        return gone

    async def body(cluster: Cluster) -> None:
        made: dict[int, Json] = {}
        for item in range(6):
            metadata: Json = {"name": f"c{item}"}
            if owners.get(item):
                metadata["ownerReferences"] = [
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": f"c{owner}",
                        "uid": made[owner]["metadata"]["uid"],
                        "blockOwnerDeletion": True,
                    }
                    for owner in sorted(owners[item])
                ]
            made[item] = cluster.create("configmaps", {"metadata": metadata})
        await cluster.settle()
        gone: set[int] = set()
        for item, propagation in deletions:
            if item not in gone:
                cluster.delete("configmaps", f"c{item}", propagation=propagation)
                await cluster.settle()
                gone = expected(gone | {item})
            there = {i for i in range(6) if not cluster.gone("configmaps", f"c{i}")}
            assert there == set(range(6)) - gone

    run(body)
