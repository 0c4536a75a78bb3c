"""A quick project whose application is two Deployments, given as files.

For what a session does whatever it audits: ending, recovering, sealing. A run of it costs less than
half of one with the whole demo application. Its load asks the target itself, for what that answers
alone; so graders and contract say of each mutant what they say of it in the whole application.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from quick import MAIN, make_project

from pytest_sremut.demo.manifests import deployment, service
from pytest_sremut.demo.roles import ROLES

__all__ = ["APPLICATION", "edit", "make_small", "small_application", "write_application"]

APPLICATION = "apps/small"
_NAMESPACE = "social-network"


def make_small(directory: Path) -> Path:
    """The quick project, its main study with the small application; the other study as it is."""
    project = make_project(directory)
    study = project / "audits" / MAIN / "study.yaml"
    text = study.read_text()
    mix = text[text.index("  mix:\n") : text.index("\nprofiles:")]
    edit(
        study,
        {
            "demo:social-network": f"manifests:{APPLICATION}",
            "http://nginx-thrift:8080": "http://user-service:9090",
            mix: "  mix: [{name: health, path: /healthz, weight: 100}]\n",
        },
    )
    write_application(project, small_application())
    return project


def small_application() -> list[dict[str, Any]]:
    """The target and one beside it, each with its Service."""
    return [
        body
        for name in ("user-service", "media-service")
        for body in (
            deployment(ROLES[name], _NAMESPACE),
            service(ROLES[name], _NAMESPACE),
        )
    ]


def write_application(project: Path, bodies: Iterable[Mapping[str, Any]]) -> None:
    """Put the objects in the application's file."""
    (project / APPLICATION).mkdir(parents=True, exist_ok=True)
    (project / APPLICATION / "all.yaml").write_text(
        "".join(f"---\n{json.dumps(body)}\n" for body in bodies)
    )


def edit(file: Path, changes: Mapping[str, str]) -> None:
    """Replace texts that each stand once in a file."""
    text = file.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)
