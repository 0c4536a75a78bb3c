"""Revisions of a Deployment, as its ReplicaSets carry them.

Rules kept here:

* pure; a template is compared without the hash label, and the hash is taken of what is compared;
* the highest revision is the newest; a ReplicaSet that becomes new again remembers those it had;
* a ReplicaSet notes the scale that the Deployment had when it was last scaled.
"""

from __future__ import annotations

from pytest_sremut.embedded.controllers.objects import whole
from pytest_sremut.embedded.controllers.workloads import rollout
from pytest_sremut.embedded.controllers.workloads.rollout import wanted
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["HASH_LABEL", "REVISION", "annotate", "annotate_scale", "bare", "revision_of"]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        rollout.DESIRED,
        rollout.MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)
HISTORY_CHARACTERS = 2000


def bare(template: JsonObject) -> JsonObject:
    """A template without the hash label, for comparing."""
    metadata = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revision_of(replicaset: JsonObject) -> int:
    """The revision that a ReplicaSet is; 0 if it carries none."""
    return whole((replicaset["metadata"].get("annotations") or {}).get(REVISION, "")) or 0


def annotate(deployment: JsonObject, replicaset: JsonObject, revision: str) -> None:
    """Copy the Deployment's annotations and raise the revision, in place."""
    annotations = replicaset["metadata"].setdefault("annotations", {})
    for name, text in (deployment["metadata"].get("annotations") or {}).items():
        if name not in NOT_COPIED:
            annotations[name] = text
    before = revision_of(replicaset)
    if before < int(revision):
        if before:
            history = [*filter(None, annotations.get(REVISION_HISTORY, "").split(",")), str(before)]
            while len(",".join(history)) > HISTORY_CHARACTERS:
                history.pop(0)
            annotations[REVISION_HISTORY] = ",".join(history)
        annotations[REVISION] = revision


def annotate_scale(deployment: JsonObject, replicaset: JsonObject) -> None:
    """Note the Deployment's scale on a ReplicaSet, in place."""
    annotations = replicaset["metadata"].setdefault("annotations", {})
    total = wanted(deployment)
    annotations[rollout.DESIRED] = str(total)
    annotations[rollout.MAX_REPLICAS] = str(total + rollout.max_surge(deployment))
