"""The role table: the published names, and who reaches whom."""

from __future__ import annotations

import pytest

from pytest_sremut.demo.behaviour import _SERVICES
from pytest_sremut.demo.roles import FRONTEND, NAMES, ROLES, TARGET

PUBLISHED = {
    "compose-post-service",
    "home-timeline-redis",
    "home-timeline-service",
    "jaeger",
    "media-frontend",
    "media-memcached",
    "media-mongodb",
    "media-service",
    "nginx-thrift",
    "post-storage-memcached",
    "post-storage-mongodb",
    "post-storage-service",
    "social-graph-mongodb",
    "social-graph-redis",
    "social-graph-service",
    "text-service",
    "unique-id-service",
    "url-shorten-memcached",
    "url-shorten-mongodb",
    "url-shorten-service",
    "user-memcached",
    "user-mention-service",
    "user-mongodb",
    "user-service",
    "user-timeline-mongodb",
    "user-timeline-redis",
    "user-timeline-service",
}


def test_the_27_published_names() -> None:
    assert len(NAMES) == 27
    assert list(NAMES) == sorted(PUBLISHED)


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("user-service", 9090),
        ("nginx-thrift", 8080),
        ("home-timeline-redis", 6379),
        ("user-memcached", 11211),
        ("user-mongodb", 27017),
        ("jaeger", 16686),
        ("media-frontend", 8081),
    ],
)
def test_ports(name: str, port: int) -> None:
    assert ROLES[name].port == port


def test_every_callee_exists_and_nobody_calls_in_a_circle() -> None:
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above
        return 1 + max((depth(callee, (*above, name)) for callee in ROLES[name].calls), default=0)

    assert max(depth(name) for name in NAMES) >= 4


def test_only_compose_post_calls_the_target() -> None:
    assert [name for name, role in ROLES.items() if TARGET in role.calls] == [
        "compose-post-service"
    ]
    assert [name for name, role in ROLES.items() if "compose-post-service" in role.calls] == [
        FRONTEND
    ]


def test_every_role_with_calls_of_its_own_has_a_behaviour() -> None:
    with_logic = {name for name, role in ROLES.items() if role.kind in ("service", "frontend")}
    assert set(_SERVICES) == with_logic
