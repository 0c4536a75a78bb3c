"""The pytest plugin: options, markers and hooks of a few lines.

Importing this module stays cheap: no Kubernetes client, no HTTP server, no cryptography. Without
`-m mutant`, an audit's path or an own option that asks for work, the plugin does and prints
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_sremut import hookspecs
from pytest_sremut.options import Settings, add_options, asks_for_mutants, settings_of
from pytest_sremut.session.census import CensusItems, add_census_options, asks_for_census

if TYPE_CHECKING:
    from pytest_sremut.session.audit import Audit
    from pytest_sremut.session.recorded import Adjudication

__all__: list[str] = []

AUDIT: pytest.StashKey[Audit | Adjudication] = pytest.StashKey()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    add_census_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "mutant: a cell of a mutation study (run × state × oracle); select to run audits"
    )
    config.addinivalue_line(
        "markers",
        "census: a verdict about a benchmark's source; select to audit --sremut-benchmark",
    )
    settings = settings_of(config)
    if asks_for_census(config):
        config.pluginmanager.register(CensusItems(config, settings), "sremut-census")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []  # the census collects nothing from disk
    asked = asks_for_mutants(config) or settings.adjudicate
    if asked and config.args_source is not pytest.Config.ArgsSource.ARGS:
        # Plain `pytest` runs the project's tests; `-m mutant` without a path means the audits.
        config.args = [str(settings.audits)] if settings.audits.is_dir() else config.args
    if asked or any(_inside(settings.audits, argument, config) for argument in config.args):
        audit = _audit(config, settings)
        config.stash[AUDIT] = audit
        config.pluginmanager.register(audit, "sremut-audit")


def _audit(config: pytest.Config, settings: Settings) -> Audit | Adjudication:
    if settings.adjudicate:
        from pytest_sremut.session.recorded import Adjudication

        return Adjudication(config, settings)
    from pytest_sremut.session.audit import Audit

    return Audit(config, settings)


def _inside(audits: Path, argument: str, config: pytest.Config) -> bool:
    place = (config.invocation_params.dir / argument.split("::", maxsplit=1)[0]).resolve()
    return place == audits or audits in place.parents


def pytest_unconfigure(config: pytest.Config) -> None:
    audit = config.stash.get(AUDIT, None)
    if audit is not None:
        del config.stash[AUDIT]
        config.pluginmanager.unregister(audit)
        audit.close()
