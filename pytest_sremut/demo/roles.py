"""Who is who in the demo application: one table of 27 roles, and what each of them calls.

The table is the truth: a service can only call what its role names (`Calls` refuses the rest), so
"only compose-post reaches user-service" is read here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = [
    "FRONTEND",
    "NAMES",
    "ROLES",
    "TARGET",
    "Kind",
    "Role",
]

Kind = Literal["frontend", "service", "memcached", "mongodb", "redis", "idle"]

_PORTS: dict[str, int] = {"service": 9090, "memcached": 11211, "mongodb": 27017, "redis": 6379}


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One Deployment and its Service: both have this name, and one port."""

    name: str
    kind: Kind
    port: int
    calls: tuple[str, ...]


def _role(name: str, *calls: str, kind: Kind | None = None, port: int | None = None) -> Role:
    chosen: Kind = kind or _kind(name)
    return Role(name=name, kind=chosen, port=port or _PORTS[chosen], calls=calls)


def _kind(name: str) -> Kind:
    last = name.rpartition("-")[2]
    kinds: dict[str, Kind] = {
        "service": "service",
        "memcached": "memcached",
        "mongodb": "mongodb",
        "redis": "redis",
    }
    return kinds[last]


_TABLE = (
    _role(
        "compose-post-service",
        "unique-id-service",
        "media-service",
        "user-service",
        "text-service",
        "post-storage-service",
        "user-timeline-service",
        "home-timeline-service",
    ),
    _role("home-timeline-redis"),
    _role(
        "home-timeline-service",
        "home-timeline-redis",
        "post-storage-service",
        "social-graph-service",
    ),
    _role("jaeger", kind="idle", port=16686),
    _role("media-frontend", "media-memcached", "media-mongodb", kind="frontend", port=8081),
    _role("media-memcached"),
    _role("media-mongodb"),
    _role("media-service"),
    _role(
        "nginx-thrift",
        "home-timeline-service",
        "user-timeline-service",
        "compose-post-service",
        kind="frontend",
        port=8080,
    ),
    _role("post-storage-memcached"),
    _role("post-storage-mongodb"),
    _role("post-storage-service", "post-storage-memcached", "post-storage-mongodb"),
    _role("social-graph-mongodb"),
    _role("social-graph-redis"),
    _role("social-graph-service", "social-graph-redis", "social-graph-mongodb"),
    _role("text-service", "url-shorten-service", "user-mention-service"),
    _role("unique-id-service"),
    _role("url-shorten-memcached"),
    _role("url-shorten-mongodb"),
    _role("url-shorten-service", "url-shorten-memcached", "url-shorten-mongodb"),
    _role("user-memcached"),
    _role("user-mention-service", "user-memcached", "user-mongodb"),
    _role("user-mongodb"),
    _role("user-service"),
    _role("user-timeline-mongodb"),
    _role("user-timeline-redis"),
    _role(
        "user-timeline-service",
        "user-timeline-redis",
        "user-timeline-mongodb",
        "post-storage-service",
    ),
)

ROLES = MappingProxyType({role.name: role for role in _TABLE})
"""Role by name, sorted by name."""

NAMES: tuple[str, ...] = tuple(ROLES)
"""The names of the 27 Deployments and of their Services, sorted."""

FRONTEND = "nginx-thrift"
"""Where the workload comes in."""

TARGET = "user-service"
"""Which only a compose-post request reaches."""
