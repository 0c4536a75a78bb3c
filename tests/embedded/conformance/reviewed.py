"""Differences from the recorded cluster that were looked at, with the reason of each.

An entry here is a promise that somebody has understood the difference; a difference without one
fails the suite. Lines are matched as narrowly as they can be told.
"""

from __future__ import annotations

from .outcome import Reviewed

_QUICKER = (
    "Recorded in the moment between a request and the controllers' answer to it, or while a "
    "replacement was still being created; here that moment is a few milliseconds."
)
_NODE = "The node is this machine: its capacity, kernel and runtime are told as they are."
_PROSE = "Descriptions of API fields are not in the schemas."
_VERSION = "The server says that it is not a build of Kubernetes."
_KINDS = (
    "Kinds, versions and subresources that studies do not use are not served: "
    "`kubectl api-resources` lists those that are."
)
_SCHEMAS = "The schemas hold fields and types, no prose; the protobuf form is empty."
_HEALTH = "The checks and paths of the real server's own parts do not exist here."
_RACE = (
    "Written to stdout and stderr at once: the recorded runtime reads the two in any order, here "
    "they are one stream in the order of writing."
)
_MEMORY = "Memory limits are stored and counted, not enforced: no process is killed for memory."
_UNHEALTHY = (
    "Until a readiness probe has succeeded once it is repeated quickly and without an event, so "
    "the first refused connect of a starting server is not told."
)
_REPAIR = "The recorded cluster's IP repair loop reported its own start; there is none here."
_COMBINED = (
    "Which of more than ten similar events are told together depends on how often a controller "
    "tried in the meantime."
)
_PLAIN = (
    "The recorded API server speaks TLS only and says so to a plain request on that port; here the "
    "handshake just fails."
)

REVIEWED: tuple[Reviewed, ...] = (
    # 01-discovery
    Reviewed(steps="01-discovery/001-get-version", line="", reason=_VERSION),
    Reviewed(
        steps="01-discovery/002-get-api",
        line="serverAddress",
        reason="The address under which clients should ask is not told: they know it.",
    ),
    Reviewed(
        steps="01-discovery/0(03-get-apis|04|06|08|1[0-7])",
        line=r"^\.(groups|resources|items)\S*: missing, recorded",
        reason=_KINDS,
        verdict="not offered",
    ),
    Reviewed(
        steps="01-discovery/003-get-apis",
        line="autoscaling",
        reason=_KINDS,
        verdict="not offered",
    ),
    Reviewed(steps="01-discovery/0(18|19|20)-openapi", line="", reason=_SCHEMAS),
    Reviewed(steps="01-discovery/02[1-5]-", line="", reason=_HEALTH),
    Reviewed(steps="01-discovery/031-get-nodes", line="", reason=_NODE),
    # 02-deployment
    Reviewed(
        steps="02-deployment/(003-settled|016-table-events|events-events)",
        line="Unhealthy",
        reason=_UNHEALTHY,
    ),
    Reviewed(
        steps="02-deployment/(003-settled|events-events)",
        line="ClusterIPNotAllocated",
        reason=_REPAIR,
    ),
    Reviewed(
        steps="02-deployment/016-table-events",
        line="remainingItemCount",
        reason="Two events fewer: see 003-settled.",
    ),
    Reviewed(steps="02-deployment/039-get-during-foreground", line=r"^\.status", reason=_QUICKER),
    Reviewed(
        steps="0[28]-[a-z]+/events-events",
        line="combined from similar events",
        reason=_COMBINED,
    ),
    # 04-pods
    Reviewed(
        steps="04-pods/0(10-during-delete-at-0s|19-after-force)",
        line=r"status|web\.subsets|endpointslices\.items\[0\]\.endpoints|^pods\?",
        reason=_QUICKER,
    ),
    Reviewed(
        steps="04-pods/037-pod-immutable",
        line="pod updates may not change fields other than",
        reason="The sentence is the same; the dump of two Go structures behind it is not printed.",
    ),
    Reviewed(steps="04-pods/04[2-6]-log", line="", reason=_RACE),
    Reviewed(
        steps="04-pods/051-log-crash-previous",
        line="unable to retrieve container logs",
        reason="The recorded node had removed the container already; here its log is kept.",
    ),
    # 05-errors
    Reviewed(steps="05-errors/069-get-d-orphan", line="status: recorded 200", reason=_QUICKER),
    Reviewed(steps="05-errors/075-get-d-foreground", line=r"^\.status", reason=_QUICKER),
    # 06-kubectl
    Reviewed(steps="06-kubectl/.*-get-nodes-wide", line="node-1 Ready", reason=_NODE),
    Reviewed(
        steps="06-kubectl/.*v1.36.2-describe",
        line="Readiness:",
        reason="Played by kubectl 1.37, which prints probes in another form.",
    ),
    Reviewed(
        steps="06-kubectl/.*(-diff|apply-dry-client)",
        line="generation: [456]",
        reason="The recorded server-side apply counted as a change of the spec, ours does not.",
    ),
    Reviewed(steps="06-kubectl/.*-(get-events|describe)", line="Unhealthy", reason=_UNHEALTHY),
    Reviewed(
        steps="06-kubectl/.*-explain",
        line="",
        reason=_PROSE,
        verdict="not offered",
    ),
    Reviewed(steps="06-kubectl/.*-version", line="", reason=_VERSION),
    Reviewed(steps="06-kubectl/.*-cold-get", line="Terminating", reason=_QUICKER),
    # 08-faults
    Reviewed(
        steps="08-faults/(00[23]-|events-events)",
        line=r"OOMKilled|memory-kill|rows\[7\]",
        reason=_MEMORY,
        verdict="not offered",
    ),
    Reviewed(
        steps="08-faults/028-hpa-create",
        line="",
        reason="HorizontalPodAutoscalers are stored as autoscaling/v2 only, and nothing scales.",
        verdict="not offered",
    ),
    Reviewed(steps="08-faults/events-events", line="Unhealthy", reason=_UNHEALTHY),
    Reviewed(
        steps="08-faults/events-events",
        line="^Pod (lr|cordoned) ",
        reason=_QUICKER,
    ),
    Reviewed(steps="08-faults/045-token", line="wget", reason=_PLAIN),
)
