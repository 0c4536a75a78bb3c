"""The miniature benchmark as a checkout, its adapter, and requests to read it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubeconfigs import write_kubeconfig

from pytest_sremut.oracles.benchmark.layout import Application, Call, Layout
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.model import BenchmarkPins, Target

__all__ = ["MINIBENCH", "commit", "make_checkout", "pins_of", "request"]

SOURCE = Path(__file__).resolve().parents[2] / "minibench"
ORACLES = "minibench/harness/oracles"

MINIBENCH = Layout(
    name="minibench",
    oracles=(ORACLES,),
    light=("minibench.harness",),
    client="minibench.cluster:Cluster",
    problem={"cluster": "client", "namespace": "namespace", "broken_service": "target"},
    evaluate="grade",
    capture="see_healthy",
    success="solved",
    injector="minibench.faults:Saboteur",
    injector_arguments={"namespace": "namespace"},
    inject=Call(method="inject", arguments={"fault": "fault", "service": "target"}),
    recover=Call(method="recover", arguments={"fault": "fault", "service": "target"}),
    applications={
        name: Application(
            deployer=f"minibench.apps:{kind}", namespace="place", remove=Call(method="take_away")
        )
        for name, kind in (("shop", "Shop"), ("half_a_shop", "HalfAShop"))
    }
    | {
        "leaflet": Application(
            deployer="minibench.apps:Leaflet",
            arguments={"place": "namespace"},
            namespace="place",
            remove=Call(method="take_away"),
        ),
        "stray": Application(
            deployer="minibench.apps:Leaflet",
            arguments={"place": "target", "how": "context"},
            remove=Call(method="take_away"),
        ),
        "elsewhere": Application(
            deployer="minibench.apps:Leaflet",
            arguments={"place": "target"},
            namespace="place",
        ),
        "unborn": Application(deployer="minibench.unborn:Shop"),
        "needy": Application(deployer="minibench.apps:Leaflet", needs=("sh", "no-such-program")),
    },
)


def make_checkout(directory: Path, *, shop: Mapping[str, Any] | None = None) -> Path:
    """A repository with the benchmark in it, clean.

    `shop` is what its application consists of: `namespace` and `objects`.
    """
    shutil.copytree(SOURCE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    if shop is not None:
        (directory / "minibench" / "shop.json").write_text(json.dumps(shop))
    git(directory, "init", "-q")
    commit(directory)
    return directory


def commit(directory: Path) -> str:
    """Commit everything; the commit."""
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "--allow-empty", "-m", "a state of the benchmark")
    return git(directory, "rev-parse", "HEAD").strip()


def git(directory: Path, *arguments: str) -> str:
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "test"), ("EMAIL", "test@example.invalid"))
    }
    result = subprocess.run(
        ["git", "-C", str(directory), *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull},
    )
    return result.stdout


def pins_of(directory: Path, **changes: Any) -> BenchmarkPins:
    """Pins of a checkout as it is."""
    files = {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((directory / ORACLES).rglob("*.py"))
    }
    values: dict[str, Any] = {
        "name": "minibench",
        "commit": git(directory, "rev-parse", "HEAD").strip(),
        "files": files,
        "problem_class": "GoneService",
        "problem": {},
        "imports": "light",
    }
    return BenchmarkPins(**{**values, **changes})


def request(
    directory: Path, pins: BenchmarkPins, oracle: str | OracleNode, *, timeout: float = 20.0,
    captured: dict[str, Any] | None = None, **arguments: Any,
) -> ReadingRequest:  # fmt: skip
    """A request for an oracle by class name. `directory` gets a kubeconfig."""
    if isinstance(oracle, str):
        oracle = OracleNode(id="O1", use=f"minibench:{oracle}", arguments=arguments)
    return ReadingRequest(
        oracle=oracle,
        kubeconfig=str(write_kubeconfig(directory)),
        context="test",
        cluster_uid="cluster-1",
        namespace="shop",
        target=Target(
            kind="Service",
            name="till",
            workload_kind="Deployment",
            workload_name="till",
            port=80,
        ),
        baseline={},
        timeout=timeout,
        benchmark=pins,
        captured=captured or {},
    )
