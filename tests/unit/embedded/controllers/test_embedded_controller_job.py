"""Jobs: counted once, backed off, ended in the recorded words."""

from __future__ import annotations

import pytest
from controllers_kit import START, Cluster, Json, job, run
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.controllers.workloads import completions
from pytest_sremut.embedded.controllers.workloads.jobstatus import TRACKING
from pytest_sremut.embedded.meta.jsonvalue import timestamp

T0 = timestamp(START)


def status(cluster: Cluster, name: str = "load") -> Json:
    return cluster.get("jobs.batch", name)["status"]


def told(type_: str, reason: str, message: str, moment: str = T0) -> Json:
    times = {"lastProbeTime": moment, "lastTransitionTime": moment}
    return {"type": type_, "status": "True", **times, "reason": reason, "message": message}


def test_a_job_that_succeeds() -> None:
    async def body(cluster: Cluster) -> None:
        written: list[Json] = []
        cluster.registry.subscribe(lambda e: written.append(e.object["status"]), "jobs.batch")
        cluster.create("jobs.batch", job())
        await cluster.settle()
        (only,) = cluster.pods()
        assert only["metadata"]["finalizers"] == [TRACKING]
        assert only["metadata"]["generateName"] == "load-"
        expected = {"startTime": T0, "active": 1, "terminating": 0}
        expected |= {"uncountedTerminatedPods": {}, "ready": 1}
        assert status(cluster) == expected
        written.clear()
        cluster.kubelet.finish(only, "Succeeded")
        await cluster.settle()
        reached = ("CompletionsReached", "Reached expected number of succeeded pods")
        criteria, complete = told("SuccessCriteriaMet", *reached), told("Complete", *reached)
        uid = only["metadata"]["uid"]
        counting = {"conditions": [criteria], "startTime": T0, "terminating": 0}
        counting |= {"uncountedTerminatedPods": {"succeeded": [uid]}, "ready": 0}
        ended = {"conditions": [criteria, complete], "startTime": T0, "completionTime": T0}
        ended |= {"succeeded": 1, "terminating": 0, "uncountedTerminatedPods": {}, "ready": 0}
        assert written == [counting, ended]
        assert list(status(cluster)) == list(ended)
        kept = cluster.get("pods", only["metadata"]["name"])
        assert "finalizers" not in kept["metadata"]
        name = only["metadata"]["name"]
        assert cluster.messages("load") == [f"Created pod: {name}", "Job completed"]

    run(body)


def test_failed_pods_are_replaced_after_a_while_until_the_limit() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(backoffLimit=1))
        await cluster.settle()
        cluster.kubelet.finish(cluster.pods()[0], "Failed", 1)
        await cluster.settle()
        assert status(cluster)["failed"] == 1
        assert "active" not in status(cluster)
        await cluster.advance(9.9)
        assert cluster.pods() == []
        await cluster.advance(0.2)
        (second,) = cluster.pods()
        cluster.kubelet.finish(second, "Failed", 1)
        await cluster.settle()
        moment = timestamp(cluster.clock.now())
        exceeded = ("BackoffLimitExceeded", "Job has reached the specified backoff limit", moment)
        assert status(cluster) == {
            "conditions": [told("FailureTarget", *exceeded), told("Failed", *exceeded)],
            "startTime": T0,
            "failed": 2,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "ready": 0,
        }
        assert cluster.messages("load", "BackoffLimitExceeded") == [exceeded[1]]
        assert len(cluster.list("pods")) == 2

    run(body)


def test_backoff_doubles_and_success_ends_it() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(completions=2))
        await cluster.settle()
        for wait in (10, 20, 40):
            cluster.kubelet.finish(cluster.pods()[0], "Failed", 1)
            await cluster.settle()
            await cluster.advance(wait - 1)
            assert cluster.pods() == []
            await cluster.advance(1)
            assert len(cluster.pods()) == 1
        cluster.kubelet.finish(cluster.pods()[0], "Succeeded")
        await cluster.settle()
        assert len(cluster.pods()) == 1
        cluster.kubelet.finish(cluster.pods()[0], "Succeeded")
        await cluster.settle()
        assert status(cluster)["succeeded"] == 2
        assert status(cluster)["failed"] == 3

    run(body)


def test_a_job_past_its_deadline_ends_when_its_pods_are_gone() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(activeDeadlineSeconds=4))
        await cluster.settle()
        cluster.kubelet.stops = False
        await cluster.advance(4)
        words = ("DeadlineExceeded", "Job was active longer than specified deadline")
        moment = timestamp(cluster.clock.now())
        assert status(cluster) == {
            "conditions": [told("FailureTarget", *words, moment)],
            "startTime": T0,
            "failed": 1,
            "terminating": 1,
            "uncountedTerminatedPods": {},
            "ready": 0,
        }
        name = cluster.list("pods")[0]["metadata"]["name"]
        assert cluster.messages("load", "SuccessfulDelete") == [f"Deleted pod: {name}"]
        cluster.kubelet.stops = True
        await cluster.advance(2)
        ended = status(cluster)
        assert [item["type"] for item in ended["conditions"]] == ["FailureTarget", "Failed"]
        assert (ended["failed"], ended["terminating"]) == (1, 0)
        assert cluster.messages("load", "DeadlineExceeded") == [words[1]]

    run(body)


def test_parallelism_and_completions() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(completions=5, parallelism=2))
        await cluster.settle()
        for done in range(5):
            assert len(cluster.pods()) == min(2, 5 - done)
            cluster.kubelet.finish(cluster.pods()[0], "Succeeded")
            await cluster.settle()
        assert status(cluster)["succeeded"] == 5
        assert cluster.pods() == []

    run(body)


def test_fewer_in_parallel_counts_no_failure() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(completions=5, parallelism=3))
        await cluster.settle()
        cluster.change("jobs.batch", "load", lambda x: x["spec"].update(parallelism=1))
        await cluster.settle()
        assert len(cluster.list("pods")) == 1
        assert "failed" not in status(cluster)

    run(body)


def test_a_work_queue_ends_when_all_of_its_pods_have() -> None:
    async def body(cluster: Cluster) -> None:
        value = job(parallelism=2)
        value["spec"]["completions"] = None
        del value["spec"]["completions"]
        cluster.create("jobs.batch", value)
        await cluster.settle()
        if cluster.get("jobs.batch", "load")["spec"].get("completions") is not None:
            pytest.skip("the API defaults completions")
        first, second = cluster.pods()
        cluster.kubelet.finish(first, "Succeeded")
        await cluster.settle()
        assert len(cluster.pods()) == 1
        assert "completionTime" not in status(cluster)
        cluster.kubelet.finish(second, "Succeeded")
        await cluster.settle()
        assert status(cluster)["succeeded"] == 2
        assert "completionTime" in status(cluster)

    run(body)


def test_restarts_count_where_pods_are_restarted() -> None:
    async def body(cluster: Cluster) -> None:
        value = job(backoffLimit=2)
        value["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        cluster.create("jobs.batch", value)
        await cluster.settle()
        cluster.kubelet.restarted(cluster.pods()[0], 1)
        await cluster.settle()
        assert "conditions" not in status(cluster)
        cluster.kubelet.restarted(cluster.pods()[0], 2)
        await cluster.settle()
        assert [x["type"] for x in status(cluster)["conditions"]] == ["FailureTarget", "Failed"]
        assert cluster.list("pods") == []

    run(body)


def test_suspended_and_resumed() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(suspend=True))
        await cluster.settle()
        assert cluster.list("pods") == []
        assert "startTime" not in status(cluster)
        assert status(cluster)["conditions"] == [told("Suspended", "JobSuspended", "Job suspended")]
        cluster.change("jobs.batch", "load", lambda x: x["spec"].update(suspend=False))
        await cluster.settle()
        assert len(cluster.pods()) == 1
        assert status(cluster)["startTime"] == T0
        assert status(cluster)["conditions"][0]["reason"] == "JobResumed"
        cluster.change("jobs.batch", "load", lambda x: x["spec"].update(suspend=True))
        await cluster.settle()
        assert cluster.list("pods") == []
        assert "failed" not in status(cluster)
        assert cluster.messages("load", "Suspended") == ["Job suspended"] * 1

    run(body)


def test_finished_jobs_expire() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(ttlSecondsAfterFinished=5))
        await cluster.settle()
        cluster.kubelet.finish(cluster.pods()[0], "Succeeded")
        await cluster.settle()
        await cluster.advance(4.9)
        assert not cluster.gone("jobs.batch", "load")
        await cluster.advance(0.2)
        assert cluster.gone("jobs.batch", "load")
        assert cluster.list("pods") == []

    run(body)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_takes_its_pods_along(propagation: str) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job())
        await cluster.settle()
        cluster.delete("jobs.batch", "load", propagation=propagation)
        await cluster.settle()
        assert cluster.gone("jobs.batch", "load")
        assert cluster.list("pods") == []

    run(body)


def test_an_orphaned_pod_is_held_by_nobody() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job())
        await cluster.settle()
        cluster.delete("jobs.batch", "load")  # orphans by default, as recorded
        await cluster.settle()
        assert cluster.gone("jobs.batch", "load")
        (left,) = cluster.pods()
        assert "ownerReferences" not in left["metadata"]
        assert "finalizers" not in left["metadata"]

    run(body)


def test_a_deleted_pod_is_a_failure_and_is_replaced_after_the_backoff() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job())
        await cluster.settle()
        cluster.delete("pods", cluster.pods()[0]["metadata"]["name"])
        await cluster.settle()
        assert status(cluster)["failed"] == 1
        assert cluster.list("pods") == []
        await cluster.advance(10)
        assert len(cluster.pods()) == 1

    run(body)


def test_indexed_jobs_do_each_index_once() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(completionMode="Indexed", completions=3, parallelism=2))
        await cluster.settle()
        by_index = {completions.index_of(item): item for item in cluster.pods()}
        assert set(by_index) == {0, 1}
        first = by_index[0]
        assert first["spec"]["hostname"] == "load-0"
        assert first["metadata"]["labels"][completions.INDEX] == "0"
        names = [item["name"] for item in first["spec"]["containers"][0]["env"]]
        assert names == ["JOB_COMPLETION_INDEX"]
        cluster.kubelet.finish(by_index[1], "Succeeded")
        await cluster.settle()
        assert status(cluster)["completedIndexes"] == "1"
        assert {completions.index_of(item) for item in cluster.pods()} == {0, 2}
        for item in cluster.pods():
            cluster.kubelet.finish(item, "Succeeded")
        await cluster.settle()
        assert status(cluster)["completedIndexes"] == "0-2"
        assert status(cluster)["succeeded"] == 3
        assert [x["type"] for x in status(cluster)["conditions"]][-1] == "Complete"

    run(body)


@given(st.sets(st.integers(0, 200)))
def test_indexes_are_written_and_read_alike(indexes: set[int]) -> None:
    assert completions.expand(completions.compress(indexes)) == indexes


def test_pairs_are_written_with_a_comma() -> None:
    assert completions.compress([1, 3, 4, 5, 7, 8]) == "1,3-5,7,8"


def test_a_deadline_before_the_end_of_the_backoff_counts() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("jobs.batch", job(activeDeadlineSeconds=5))
        await cluster.settle()
        cluster.kubelet.finish(cluster.pods()[0], "Failed", 1)
        await cluster.settle()
        await cluster.advance(5)
        assert status(cluster)["conditions"][-1]["reason"] == "DeadlineExceeded"
        assert status(cluster)["failed"] == 1

    run(body)


@given(st.text(alphabet="0123456789-,x ", max_size=60))
def test_any_text_names_some_indexes(text: str) -> None:
    assert all(index >= 0 for index in completions.expand(text))
