"""Jobs: pods that run to completion, counted.

Rules kept here:

* each pod that ended is counted once: its uid is written as uncounted, its tracking finalizer
  taken, then the count raised;
* a replacement for a failed pod waits for the back-off; pods that the controller itself withdraws
  (suspended, fewer in parallel) count as nothing;
* what ends a Job, and in which words, is decided in `jobstatus`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.objects import (
    Key,
    controller_of,
    deleting,
    key_of,
    labels_of,
    pod_active,
    pod_ready,
    pod_terminating,
)
from pytest_sremut.embedded.controllers.workloads import completions
from pytest_sremut.embedded.controllers.workloads.jobstatus import (
    TRACKING,
    Verdict,
    backoff,
    failed,
    finish_time,
    finished,
    job_condition,
    ordered,
    succeeded,
    tracked,
    verdict,
    wanted_active,
)
from pytest_sremut.embedded.controllers.workloads.podcontrol import PodControl
from pytest_sremut.embedded.controllers.workloads.replicaset import deletion_order
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone, parse_time, timestamp
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["JobController"]

JOB_NAME = "batch.kubernetes.io/job-name"
MAX_BURST = 500


class JobController(Controller[Key]):
    """Runs each Job's pods and keeps its status."""

    name = "job-controller"
    watches = ("jobs.batch", "pods")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._control = PodControl(context, self.name)
        self._losses: dict[str, tuple[int, datetime]] = {}
        """By uid of the Job: failures in a row, and when the last one was."""

    def on_event(self, event: Event) -> None:
        """A Job's own events and those of its pods, orphaned ones too."""
        if event.resource == "jobs.batch":
            self.queue.add(event.key)
            if event.type == "DELETED":
                self._losses.pop(event.object["metadata"]["uid"], None)
            return
        for pod in (event.old, event.object):
            if pod is None:
                continue
            owner = self._control.owner_key(pod, "Job")
            if owner is not None:
                self.queue.add(owner)
            elif tracked(pod) and JOB_NAME in labels_of(pod):
                self.queue.add((event.key[0], labels_of(pod)[JOB_NAME]))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        job = self.registry.get("jobs.batch", *key)
        self._release_strays(key, job)
        if job is None:
            return
        pods = self._control.owned(job, job["spec"].get("selector"))
        if deleting(job):
            self._untrack(pods)
        elif finished(job):
            self._untrack(pods)
            self._expire(job)
        else:
            self._sync(job, pods)

    def _release_strays(self, key: Key, job: JsonObject | None) -> None:
        """A pod that no Job of that name owns any more is held by nobody."""
        uid = job["metadata"]["uid"] if job is not None else None
        strays = []
        for pod in self.context.pods.in_namespace(key[0]):
            if tracked(pod) and labels_of(pod).get(JOB_NAME) == key[1]:
                owner = controller_of(pod)
                if owner is None or owner["uid"] != uid:
                    strays.append(pod)
        self._untrack(strays)

    def _untrack(self, pods: Sequence[JsonObject]) -> None:
        for pod in pods:
            if tracked(pod):
                self.registry.mutate("pods", *key_of(pod), _without_tracking)

    def _expire(self, job: JsonObject) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        end = finished(job)
        if ttl is None or end is None:
            return
        due = parse_time(end["lastTransitionTime"]) + timedelta(seconds=ttl)
        left = (due - self.context.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key_of(job), left)
            return
        uid = job["metadata"]["uid"]
        self.registry.delete("jobs.batch", *key_of(job), uid=uid, propagation="Foreground")

    # One look at a Job that goes on

    def _sync(self, job: JsonObject, pods: Sequence[JsonObject]) -> None:
        now = self.context.now()
        status: dict[str, Any] = clone(job.get("status") or {})
        self._suspend_or_start(job, status, now)
        ended = [pod for pod in pods if tracked(pod) and (succeeded(pod) or failed(pod))]
        self._note_losses(job, ended, now)
        won, lost = self._totals(job, status, ended)
        active = [pod for pod in pods if pod_active(pod)]
        end = verdict(job, status, pods, won=won, lost=lost, active=len(active), now=now)
        if end is not None:
            _tell(status, job_condition(end.target, end.reason, end.message, now))
            for pod in active:
                self._give_up(job, pod, counted=end.final == "Failed")
        elif job["spec"].get("suspend"):
            for pod in active:
                self._give_up(job, pod, counted=False)
        else:
            self._manage(job, status, pods, won)
        self._count(job, status, end, now)

    def _suspend_or_start(self, job: JsonObject, status: dict[str, Any], now: datetime) -> None:
        told = next((x for x in status.get("conditions") or () if x["type"] == "Suspended"), None)
        is_told = told is not None and told["status"] == "True"
        if job["spec"].get("suspend"):
            status.pop("startTime", None)
            if not is_told:
                _tell(status, job_condition("Suspended", "JobSuspended", "Job suspended", now))
                self.record(job, "Suspended", "Job suspended")
            return
        if is_told:
            change = job_condition("Suspended", "JobResumed", "Job resumed", now, "False")
            _tell(status, change)
            self.record(job, "Resumed", "Job resumed")
        if "startTime" not in status:
            status["startTime"] = timestamp(now)
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is not None:
            due = parse_time(status["startTime"]) + timedelta(seconds=limit)
            if due > now:
                self.queue.add_after(key_of(job), (due - now).total_seconds())

    def _note_losses(self, job: JsonObject, ended: Sequence[JsonObject], now: datetime) -> None:
        """Count failures in a row; `ended` pods are counted now and never again."""
        uid = job["metadata"]["uid"]
        count, last = self._losses.get(uid, (0, now))
        for pod in sorted(ended, key=lambda item: finish_time(item, now)):
            if succeeded(pod):
                count = 0
            else:
                count, last = count + 1, finish_time(pod, now)
        self._losses[uid] = (count, last)

    def _totals(
        self, job: JsonObject, status: dict[str, Any], ended: Sequence[JsonObject]
    ) -> tuple[int, int]:
        """Successes and failures, those not yet counted included."""
        lost = status.get("failed", 0) + sum(map(failed, ended))
        if _indexed(job):
            done = completions.expand(status.get("completedIndexes", ""))
            done |= {
                index
                for pod in ended
                if succeeded(pod) and (index := completions.index_of(pod)) is not None
            }
            status["completedIndexes"] = completions.compress(done)
            return len(done), lost
        return status.get("succeeded", 0) + sum(map(succeeded, ended)), lost

    def _manage(
        self, job: JsonObject, status: dict[str, Any], pods: Sequence[JsonObject], won: int
    ) -> None:
        now = self.context.now()
        active = [pod for pod in pods if pod_active(pod)]
        want = wanted_active(job, won, len(active))
        if len(active) > want:
            for pod in deletion_order(active, now)[: len(active) - want]:
                self._give_up(job, pod, counted=False)
            return
        missing = want - len(active)
        if job["spec"].get("podReplacementPolicy") == "Failed":
            missing -= sum(map(pod_terminating, pods))
        if missing <= 0:
            return
        count, last = self._losses[job["metadata"]["uid"]]
        left = (last + backoff(count) - now).total_seconds()
        if left > 0:
            self.queue.add_after(key_of(job), left)
            return
        for number, template in enumerate(self._templates(job, status, active, missing)):
            if number == MAX_BURST:
                self.queue.add(key_of(job))
                return
            self._control.create(job, template, finalizers=[TRACKING])

    def _templates(
        self,
        job: JsonObject,
        status: dict[str, Any],
        active: Sequence[JsonObject],
        count: int,
    ) -> list[JsonObject]:
        template = job["spec"]["template"]
        if not _indexed(job):
            return [template] * count
        done = completions.expand(status.get("completedIndexes", ""))
        total = int(job["spec"]["completions"])
        name = job["metadata"]["name"]
        free = completions.free_indexes(total, done, active, count)
        return [completions.with_index(template, name, index) for index in free]

    def _give_up(self, job: JsonObject, pod: JsonObject, *, counted: bool) -> None:
        """Delete a pod; one that is not to be counted is no longer tracked first."""
        if not counted:
            self._untrack([pod])
        self._control.delete(job, pod)

    # Counting

    def _count(
        self, job: JsonObject, status: dict[str, Any], end: Verdict | None, now: datetime
    ) -> None:
        """Count the pods that ended, as the module says, and end the Job if it is to end."""
        pods = self.context.pods.controlled_by(job["metadata"]["uid"])
        ended = [pod for pod in pods if tracked(pod) and (succeeded(pod) or failed(pod))]
        won = [pod["metadata"]["uid"] for pod in ended if succeeded(pod)]
        lost = [pod["metadata"]["uid"] for pod in ended if failed(pod)]
        self._fill(status, pods)
        if ended:
            uncounted = {"succeeded": won, "failed": lost}
            status["uncountedTerminatedPods"] = {k: v for k, v in uncounted.items() if v}
            self._write(job, status)
            self._untrack(ended)
            status["succeeded"] = status.get("succeeded", 0) + len(won)
            status["failed"] = status.get("failed", 0) + len(lost)
            self._fill(status, self.context.pods.controlled_by(job["metadata"]["uid"]))
        status["uncountedTerminatedPods"] = {}
        if end is None or status["terminating"]:
            self._write(job, status)
            return
        if not ended:
            self._write(job, status)
        _tell(status, job_condition(end.final, end.reason, end.message, now))
        if end.final == "Complete":
            status["completionTime"] = timestamp(now)
        self._write(job, status)
        if end.final == "Complete":
            self.record(job, "Completed", "Job completed")
        else:
            self.record(job, end.reason, end.message, "Warning")
        self._losses.pop(job["metadata"]["uid"], None)

    def _fill(self, status: dict[str, Any], pods: Sequence[JsonObject]) -> None:
        active = [pod for pod in pods if pod_active(pod)]
        status["active"] = len(active)
        status["ready"] = sum(map(pod_ready, active))
        status["terminating"] = sum(map(pod_terminating, pods))

    def _write(self, job: JsonObject, status: dict[str, Any]) -> None:
        value = ordered(status)
        if _indexed(job) and "completedIndexes" in value:
            value["succeeded"] = len(completions.expand(value["completedIndexes"]))
        self.registry.mutate(
            "jobs.batch",
            *key_of(job),
            lambda current: current.update(status=clone(value)),
            subresource="status",
        )


def _indexed(job: JsonObject) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _without_tracking(pod: JsonObject) -> None:
    kept = [item for item in pod["metadata"].get("finalizers") or () if item != TRACKING]
    if kept:
        pod["metadata"]["finalizers"] = kept
    else:
        pod["metadata"].pop("finalizers", None)


def _tell(status: dict[str, Any], fresh: JsonObject) -> None:
    """Set a condition in place; one of the same status stays as it is."""
    present = status.setdefault("conditions", [])
    for place, item in enumerate(present):
        if item["type"] == fresh["type"]:
            if item["status"] != fresh["status"]:
                present[place] = fresh
            return
    present.append(fresh)
