"""Each process of a session has one role, which is decided once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_sremut import plugin
from pytest_sremut.options.settings import Settings
from pytest_sremut.session.adjudication import Adjudication, AdjudicationWorker
from pytest_sremut.session.controller import Controller
from pytest_sremut.session.members import Member
from pytest_sremut.session.runner import Single, Worker

SENT = {
    "workerid": "gw1",
    "sremut": {"session": "20260101T000000Z-abcdef", "evidence": "/tmp/e", "key": "k"},
}


class Plugins:
    """Of pytest, as far as a role needs it."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}

    def register(self, what: object, name: str) -> None:
        self.names[name] = what

    def has_plugin(self, name: str) -> bool:
        return name in self.names

    def unregister(self, *, name: str) -> None:
        del self.names[name]


def config(
    *, dist: str = "no", workerinput: dict[str, Any] | None = None, collects: bool = False
) -> Any:
    """pytest's, as far as a role needs it."""
    options = {"dist": dist, "tx": ["popen"]}
    found = SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default),
        option=SimpleNamespace(collectonly=collects),
        pluginmanager=Plugins(),
        stash={},
    )
    if workerinput is not None:
        found.workerinput = workerinput
    return found


def settings(root: Path, *, adjudicate: bool = False) -> Settings:
    return Settings(
        root=root,
        audits=root / "audits",
        cluster="embedded",
        allowed_contexts=frozenset(),
        profile="",
        evidence=None,
        keep_cluster=False,
        exploratory=True,
        require="predictions",
        fail_under=None,
        adjudicate=adjudicate,
    )


@pytest.mark.parametrize(
    ("given", "role"),
    [
        (config(), Single),
        (config(dist="load"), Controller),
        (config(dist="load", collects=True), Single),
        (config(workerinput=SENT), Worker),
    ],
)
def test_the_role_of_a_process_that_runs_mutants(
    tmp_path: Path, given: Any, role: type[object]
) -> None:
    assert type(plugin._role(given, settings(tmp_path))) is role


@pytest.mark.parametrize(
    ("given", "role"),
    [
        (config(), Adjudication),
        (config(dist="load"), Adjudication),
        (config(workerinput=SENT), AdjudicationWorker),
    ],
)
def test_the_role_of_a_process_that_judges_records(
    tmp_path: Path, given: Any, role: type[object]
) -> None:
    assert type(plugin._role(given, settings(tmp_path, adjudicate=True))) is role


@pytest.mark.parametrize("given", [config(), config(dist="load"), config(workerinput=SENT)])
def test_a_role_takes_away_what_it_registered(tmp_path: Path, given: Any) -> None:
    role = plugin._role(given, settings(tmp_path))
    assert given.pluginmanager.names
    role.close()
    role.close()
    assert not given.pluginmanager.names


def test_a_worker_is_of_its_controllers_session(tmp_path: Path) -> None:
    first = Member.first(settings(tmp_path))
    worker = Member.worker_of({"workerid": "gw0", "sremut": first.for_workers()})
    assert first.worker == "main"
    assert worker.worker == "gw0"
    assert (worker.session, worker.evidence, worker.key) == (
        first.session,
        first.evidence,
        first.key,
    )
    assert first.evidence == tmp_path / ".sremut" / "evidence" / first.session


def test_only_exact_built_ins_cross_to_workers(tmp_path: Path) -> None:
    sent = Member.first(settings(tmp_path)).for_workers()
    assert {type(value) for value in sent.values()} == {str}
