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

from quick import MAIN, PINNED, make_project

from pytest_sremut.demo.manifests import deployment, service
from pytest_sremut.demo.roles import ROLES

__all__ = [
    "APPLICATION",
    "ask_the_target",
    "edit",
    "make_small",
    "small_application",
    "write_application",
]

APPLICATION = "apps/small"
_NAMESPACE = "social-network"


def make_small(directory: Path, *, pinned: bool = False) -> Path:
    """The quick project, its main study with the small application, the other's too if `pinned`."""
    project = make_project(directory)
    for name in (MAIN, PINNED) if pinned else (MAIN,):
        study = project / "audits" / name / "study.yaml"
        ask_the_target(study)
        edit(study, {"demo:social-network": f"manifests:{APPLICATION}"})
    write_application(project, small_application())
    return project


def ask_the_target(study: Path) -> None:
    """Let a study's load ask the target itself, and not what stands before it."""
    text = study.read_text()
    mix = text[text.index("  mix:\n") : text.index("\nprofiles:")]
    edit(
        study,
        {
            "http://nginx-thrift:8080": "http://user-service:9090",
            mix: "  mix: [{name: health, path: /healthz, weight: 100}]\n",
        },
    )


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
