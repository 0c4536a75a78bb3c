"""Deployments: ReplicaSets of the template's revisions, and the way from one to the next.

Rules kept here:

* the new ReplicaSet is the one whose template equals the Deployment's but for the hash label; it is
  made at most once per template, and its name, label and selector carry the hash;
* one step per look: whatever changes a ReplicaSet ends the look, and the next one starts from what
  came of it (`rollout` does the sums, `deploymentstatus` words the conditions);
* a paused Deployment is scaled but not rolled out; scaling is never a rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pytest_sremut.embedded.controllers.base import Controller
from pytest_sremut.embedded.controllers.objects import (
    Key,
    add_owner,
    condition,
    controller_of,
    deleting,
    key_of,
    labels_of,
    matches,
    owner_reference,
    pod_terminal,
    safe_hash,
    without_owner,
)
from pytest_sremut.embedded.controllers.workloads import deploymentstatus, rollout
from pytest_sremut.embedded.controllers.workloads.revision import (
    HASH_LABEL,
    REVISION,
    annotate,
    annotate_scale,
    bare,
    revision_of,
)
from pytest_sremut.embedded.controllers.workloads.rollout import by_age, wanted
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["DeploymentController"]


class DeploymentController(Controller[Key]):
    """Keeps each Deployment's ReplicaSets and status as its spec wants."""

    name = "deployment-controller"
    watches = ("deployments.apps", "replicasets.apps", "pods")

    def on_event(self, event: Event) -> None:
        """A Deployment's own events, those of its ReplicaSets, and the end of pods it waits for."""
        if event.resource == "deployments.apps":
            self.queue.add(event.key)
        elif event.resource == "replicasets.apps":
            for value in (event.old, event.object):
                owner = controller_of(value) if value is not None else None
                if owner is not None and owner.get("kind") == "Deployment":
                    self.queue.add((event.key[0], owner["name"]))
            if event.type != "DELETED" and controller_of(event.object) is None:
                self._offer(event.object)
        elif event.type == "DELETED":
            self._pod_gone(event.object)

    def _offer(self, replicaset: JsonObject) -> None:
        for value in self.registry.list("deployments.apps", replicaset["metadata"]["namespace"]):
            if matches(value["spec"].get("selector"), labels_of(replicaset)):
                self.queue.add(key_of(value))

    def _pod_gone(self, pod: JsonObject) -> None:
        """A Recreate rollout goes on when the last old pod is gone."""
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != "ReplicaSet":
            return
        namespace = pod["metadata"]["namespace"]
        replicaset = self.context.replicasets.get(namespace, owner["name"])
        above = controller_of(replicaset) if replicaset is not None else None
        if above is not None and above.get("kind") == "Deployment":
            deployment = self.registry.get("deployments.apps", namespace, above["name"])
            if deployment is not None and not rollout.is_rolling(deployment):
                self.queue.add(key_of(deployment))

    # One look

    def reconcile(self, key: Key) -> None:
        """See the module."""
        deployment = self.registry.get("deployments.apps", *key)
        if deployment is None:
            return
        owned = self._owned(deployment)
        if deleting(deployment):
            new, _ = self._split(deployment, owned)
            self._write_counts(deployment, owned, new)
            return
        deployment = self._tell_paused(deployment)
        if deployment["spec"].get("paused") or self._scaled(deployment, owned):
            self._scale_only(deployment, owned)
        elif rollout.is_rolling(deployment):
            self._roll(deployment, owned)
        else:
            self._recreate(deployment, owned)

    def _owned(self, deployment: JsonObject) -> list[JsonObject]:
        """The Deployment's ReplicaSets, after adopting and releasing by its selector."""
        selector = deployment["spec"].get("selector")
        uid = deployment["metadata"]["uid"]
        mine = []
        for item in self.context.replicasets.controlled_by(uid):
            if matches(selector, labels_of(item)) or deleting(deployment) or deleting(item):
                mine.append(item)
            else:
                self._change(item, lambda value: without_owner(value, uid))
        if not deleting(deployment):
            for item in self.context.replicasets.uncontrolled(deployment["metadata"]["namespace"]):
                if matches(selector, labels_of(item)) and not deleting(item):
                    mine.append(self._change(item, lambda value: add_owner(value, deployment)))
        return mine

    def _change(self, replicaset: JsonObject, fn: Callable[[JsonObject], None]) -> JsonObject:
        changed = self.registry.mutate("replicasets.apps", *key_of(replicaset), fn)
        return changed if changed is not None else replicaset

    def _tell_paused(self, deployment: JsonObject) -> JsonObject:
        change = deploymentstatus.paused_condition(deployment)
        if change is None:
            return deployment
        status = clone(deployment.get("status") or {})
        self._set_progressing(status, "Unknown", *change)
        return self._write_status(deployment, status)

    def _set_progressing(self, status: JsonObject, value: str, reason: str, message: str) -> None:
        now = self.context.now()
        deploymentstatus.set_condition(
            status, "Progressing", value=value, reason=reason, message=message, now=now
        )

    def _scaled(self, deployment: JsonObject, owned: Iterable[JsonObject]) -> bool:
        total = wanted(deployment)
        told = (rollout.desired(item) for item in owned if wanted(item))
        return any(number is not None and number != total for number in told)

    # Ways to go

    def _roll(self, deployment: JsonObject, owned: Sequence[JsonObject]) -> None:
        deployment, new, old = self._with_new(deployment, owned)
        size = rollout.new_replicas(deployment, [new, *old], wanted(new))
        if size == wanted(new):
            for name, count in rollout.old_replicas(deployment, old, new).items():
                item = next(item for item in old if item["metadata"]["name"] == name)
                self._scale(deployment, item, count)
            if deploymentstatus.complete(deployment, deployment.get("status") or {}):
                self._forget_revisions(deployment, old)
        else:
            self._scale(deployment, new, size)
        self._write_rollout(deployment)

    def _recreate(self, deployment: JsonObject, owned: Sequence[JsonObject]) -> None:
        new, old = self._split(deployment, owned)
        running = [item for item in old if wanted(item)]
        for item in running:
            self._scale(deployment, item, 0)
        if running or any(self._has_pods(item) for item in old):
            self._write_rollout(deployment)
            return
        deployment, new, old = self._with_new(deployment, owned)
        self._scale(deployment, new, wanted(deployment))
        if deploymentstatus.complete(deployment, deployment.get("status") or {}):
            self._forget_revisions(deployment, old)
        self._write_rollout(deployment)

    def _has_pods(self, replicaset: JsonObject) -> bool:
        pods = self.context.pods.controlled_by(replicaset["metadata"]["uid"])
        return any(not pod_terminal(pod) for pod in pods)

    def _scale_only(self, deployment: JsonObject, owned: Sequence[JsonObject]) -> None:
        new, old = self._split(deployment, owned)
        everything = [*old, new] if new is not None else old
        active = [item for item in everything if wanted(item)]
        if len(active) <= 1:
            target = active or ([new] if new is not None else by_age(old)[-1:])
            for item in target:
                self._scale(deployment, item, wanted(deployment))
        elif new is not None and self._saturated(deployment, new):
            for item in old:
                if wanted(item):
                    self._scale(deployment, item, 0)
        else:
            # Without a rolling strategy nothing is shared out; the scaling is noted all the same,
            # or it would be taken for a new one for ever and the rollout never go on.
            rolling = rollout.is_rolling(deployment)
            sizes = rollout.proportional(deployment, active) if rolling else {}
            for item in active:
                self._scale(deployment, item, sizes.get(item["metadata"]["name"], wanted(item)))
        if deployment["spec"].get("paused"):
            self._forget_revisions(deployment, old)
        current = self.context.replicasets.controlled_by(deployment["metadata"]["uid"])
        self._write_counts(deployment, current, self._split(deployment, current)[0])

    def _saturated(self, deployment: JsonObject, new: JsonObject) -> bool:
        total = wanted(deployment)
        return total == rollout.desired(new) == wanted(new) == rollout.available([new])

    # ReplicaSets

    def _split(
        self, deployment: JsonObject, owned: Iterable[JsonObject]
    ) -> tuple[JsonObject | None, list[JsonObject]]:
        """The new ReplicaSet, if it is there, and the old ones."""
        template = bare(deployment["spec"]["template"])
        new = next((x for x in by_age(owned) if bare(x["spec"]["template"]) == template), None)
        return new, [item for item in owned if item is not new]

    def _with_new(
        self, deployment: JsonObject, owned: Sequence[JsonObject]
    ) -> tuple[JsonObject, JsonObject, list[JsonObject]]:
        """The Deployment, its new ReplicaSet (made if need be) and the old ones."""
        new, old = self._split(deployment, owned)
        revision = str(max(map(revision_of, old), default=0) + 1)
        if new is None:
            new = self._make(deployment, old, revision)
            reason = "NewReplicaSetCreated"
            message = f'Created new replica set "{new["metadata"]["name"]}"'
        else:
            current = new

            def follow(value: JsonObject) -> None:
                annotate(deployment, value, revision)
                minimum = deployment["spec"].get("minReadySeconds", 0)
                if value["spec"].get("minReadySeconds", 0) != minimum:
                    value["spec"]["minReadySeconds"] = minimum

            new = self._change(current, follow)
            revision = str(revision_of(new))
            untold = deploymentstatus.has_deadline(deployment) and not condition(
                deployment, "Progressing"
            )
            reason = "FoundNewReplicaSet" if untold else ""
            message = f'Found new replica set "{new["metadata"]["name"]}"'
        return self._tell_revision(deployment, revision, reason, message), new, old

    def _tell_revision(
        self, deployment: JsonObject, revision: str, reason: str, message: str
    ) -> JsonObject:
        told = (deployment["metadata"].get("annotations") or {}).get(REVISION)
        if told == revision and not reason:
            return deployment
        status = clone(deployment.get("status") or {})
        if reason and deploymentstatus.has_deadline(deployment):
            self._set_progressing(status, "True", reason, message)
        return self._write_status(deployment, status, revision)

    def _make(self, deployment: JsonObject, old: Sequence[JsonObject], revision: str) -> JsonObject:
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        template = clone(deployment["spec"]["template"])
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        code = safe_hash(bare(template), collisions)
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH_LABEL] = code
        selector = clone(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})[HASH_LABEL] = code
        size = rollout.new_replicas(deployment, old, 0)
        body: JsonObject = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name}-{code}",
                "labels": dict(template["metadata"]["labels"]),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {"replicas": size, "selector": selector, "template": template},
        }
        if deployment["spec"].get("minReadySeconds"):
            body["spec"]["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
        annotate(deployment, body, revision)
        annotate_scale(deployment, body)
        try:
            made = self.registry.create("replicasets.apps", namespace, body)
        except ApiStatus as refused:
            self._not_made(deployment, body["metadata"]["name"], refused)
            raise
        if size:
            self._tell_scaled(deployment, made, 0, size)
        return made

    def _not_made(self, deployment: JsonObject, name: str, refused: ApiStatus) -> None:
        """A name that is taken is a collision of hashes: the next try takes another hash."""
        status = clone(deployment.get("status") or {})
        if refused.reason == "AlreadyExists":
            status["collisionCount"] = status.get("collisionCount", 0) + 1
        else:
            message = f'Failed to create new replica set "{name}": {refused.message}'
            self._set_progressing(status, "False", "ReplicaSetCreateError", message)
        self._write_status(deployment, status)

    def _scale(self, deployment: JsonObject, replicaset: JsonObject, size: int) -> None:
        before = wanted(replicaset)

        def change(value: JsonObject) -> None:
            value["spec"]["replicas"] = size
            annotate_scale(deployment, value)

        changed = self._change(replicaset, change)
        if size != before:
            self._tell_scaled(deployment, changed, before, size)

    def _tell_scaled(
        self, deployment: JsonObject, replicaset: JsonObject, before: int, size: int
    ) -> None:
        way = "up" if size > before else "down"
        name = replicaset["metadata"]["name"]
        message = f"Scaled {way} replica set {name} from {before} to {size}"
        self.record(deployment, "ScalingReplicaSet", message)

    def _forget_revisions(self, deployment: JsonObject, old: Iterable[JsonObject]) -> None:
        limit = deployment["spec"].get("revisionHistoryLimit")
        if limit is None:
            return
        kept = sorted((item for item in old if not deleting(item)), key=revision_of)
        for item in kept[: max(0, len(kept) - limit)]:
            status = item.get("status") or {}
            seen = status.get("observedGeneration", 0) >= item["metadata"]["generation"]
            if seen and not status.get("replicas") and not wanted(item):
                self.registry.delete("replicasets.apps", *key_of(item), uid=item["metadata"]["uid"])

    # Status

    def _write_rollout(self, deployment: JsonObject) -> None:
        """Write the status of a rollout, and come back if it may get stuck."""
        now = self.context.now()
        everything = self.context.replicasets.controlled_by(deployment["metadata"]["uid"])
        new, _ = self._split(deployment, everything)
        status = deploymentstatus.calculate(deployment, everything, new, now)
        deploymentstatus.set_progress(deployment, status, everything, new, now)
        self._write_status(deployment, status)
        left = deploymentstatus.deadline_left(deployment, status, now)
        if left is None:
            self.queue.cancel(key_of(deployment))
        else:
            self.queue.add_after(key_of(deployment), max(left, 0) + 1)

    def _write_counts(
        self, deployment: JsonObject, everything: Sequence[JsonObject], new: JsonObject | None
    ) -> None:
        now = self.context.now()
        status = deploymentstatus.calculate(deployment, everything, new, now)
        self._write_status(deployment, status)

    def _write_status(
        self, deployment: JsonObject, status: JsonObject, revision: str = ""
    ) -> JsonObject:
        if not revision and status == deployment.get("status"):
            return deployment

        def change(value: JsonObject) -> None:
            value["status"] = status
            if revision:
                value["metadata"].setdefault("annotations", {})[REVISION] = revision

        changed = self.registry.mutate(
            "deployments.apps", *key_of(deployment), change, subresource="status"
        )
        return changed if changed is not None else deployment
