"""The pytest plugin: options, markers, and which role this process has in a session.

Importing this module stays cheap: no Kubernetes client, no HTTP server, no cryptography. Without
`-m mutant`, an audit's path or an own option that asks for work, the plugin does and prints
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_sremut import hookspecs
from pytest_sremut.options.parsing import settings_of
from pytest_sremut.options.selection import asks_for
from pytest_sremut.options.table import add_options

if TYPE_CHECKING:
    from pytest_sremut.options.settings import Settings

__all__: list[str] = []

_MARKERS = (
    "mutant: a cell of a mutation study (run × state × oracle); select to run audits",
    "census: a verdict about a benchmark's source; select to audit --sremut-benchmark",
)


class _Role(Protocol):
    """The hooks of one process of a session."""

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        ...


_ROLE: pytest.StashKey[_Role] = pytest.StashKey()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    _configure(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    _unconfigure(config)


def _configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    settings = settings_of(config)
    if asks_for(config, "census"):
        _take_census(config, settings)
    asked = asks_for(config, "mutant") or settings.adjudicate
    if asked and config.args_source is not pytest.Config.ArgsSource.ARGS:
        # Plain `pytest` runs the project's tests; `-m mutant` without a path means the audits.
        config.args = [str(settings.audits)] if settings.audits.is_dir() else config.args
    if asked or any(_inside(settings.audits, argument, config) for argument in config.args):
        role = _role(config, settings)
        config.stash[_ROLE] = role
        config.pluginmanager.register(role, "sremut-audit")


def _take_census(config: pytest.Config, settings: Settings) -> None:
    from pytest_sremut.session.census import CensusItems

    config.pluginmanager.register(CensusItems(config, settings), "sremut-census")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []  # the census collects nothing from disk


def _role(config: pytest.Config, settings: Settings) -> _Role:
    is_worker = hasattr(config, "workerinput")
    if settings.adjudicate:
        from pytest_sremut.session.adjudication import Adjudication, AdjudicationWorker

        return (AdjudicationWorker if is_worker else Adjudication)(config, settings)
    if _will_distribute(config):
        from pytest_sremut.session.controller import Controller

        return Controller(config, settings)
    from pytest_sremut.session.runner import Single, Worker

    return (Worker if is_worker else Single)(config, settings)


def _will_distribute(config: pytest.Config) -> bool:
    """Whether this process is a controller of xdist that will start workers."""
    return (
        config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
        and not config.option.collectonly
    )


def _inside(audits: Path, argument: str, config: pytest.Config) -> bool:
    place = (config.invocation_params.dir / argument.split("::", maxsplit=1)[0]).resolve()
    return place == audits or audits in place.parents


def _unconfigure(config: pytest.Config) -> None:
    role = config.stash.get(_ROLE, None)
    if role is not None:
        del config.stash[_ROLE]
        config.pluginmanager.unregister(role)
        role.close()
