"""`audits/*/study.yaml` becomes items `audits/<id>/study.yaml::test_cell[<cell id>]`.

The items are ordinary parametrised functions, so fixtures, `-k`, `--collect-only`, JUnit and
every reporting plugin treat them as they treat any test. Order is the study's schedule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.errors import InputError
from pytest_sremut.session.subject import why_not_run

if TYPE_CHECKING:
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.cellreport import CellReport
    from pytest_sremut.study.model import Cell, Study

__all__ = [
    "STUDY_FILE",
    "StudyFile",
    "cell_of",
    "remember",
    "selects",
    "study_file",
    "study_files",
    "study_of",
]

STUDY_FILE = "study.yaml"
_LOADED: pytest.StashKey[dict[PurePosixPath, Study]] = pytest.StashKey()


def study_of(config: pytest.Config, file: Path) -> Study:
    """The study of a file, read once a session: what was admitted is collected and reported.

    Raises:
        InputError: The first thing that is not allowed in it.
    """
    from pytest_sremut.study.load import load_study

    loaded = config.stash.setdefault(_LOADED, {})
    name = PurePosixPath(file.relative_to(config.rootpath).as_posix())
    if name not in loaded:
        loaded[name] = load_study(config.rootpath, name)
    return loaded[name]


def remember(config: pytest.Config, studies: Iterable[Study]) -> None:
    """Let `study_of` know studies that were loaded already."""
    config.stash.setdefault(_LOADED, {}).update((study.file, study) for study in studies)


def study_file(
    path: Path,
    parent: pytest.Collector,
    settings: Settings,
    *,
    has_records: Callable[[str], bool] = lambda _study: False,
) -> StudyFile | None:
    """The collector of a study of this project, `<audits>/<id>/study.yaml`; None of another file.

    Args:
        path: Of the file.
        parent: As pytest collects.
        settings: Of the session.
        has_records: Whether there are records of a study, by its id: it is judged from them then,
            whatever is at hand here.
    """
    if path.name != STUDY_FILE or path.parent.parent != settings.audits:
        return None
    collected: StudyFile = StudyFile.from_parent(parent, path=path)
    # A study's id is the name of its own directory.
    collected.why_not_run = (
        (lambda _study: "")
        if has_records(path.parent.name)
        else (lambda study: why_not_run(study, settings))
    )
    return collected


def study_files(settings: Settings, arguments: Iterable[str], invocation: Path) -> list[Path]:
    """The study files that the session's arguments cover, sorted."""
    asked = [(invocation / argument.split("::")[0]).resolve() for argument in arguments]
    found = sorted(settings.audits.glob(f"*/{STUDY_FILE}"))
    return [file for file in found if any(file.is_relative_to(place) for place in asked)]


_CELL = re.compile(r"study\.yaml::test_cell\[(.+-r\d+)-(healthy|faulted|restored)-")


def cell_of(nodeid: str) -> tuple[str, str] | None:
    """Run id and state of a cell's node id; None for any other test."""
    match = _CELL.search(nodeid)
    return (match[1], match[2]) if match else None


def selects(keyword: str, study: Study) -> bool:
    """Whether `-k` selects any cell of a study: the gate must know before anything is collected,
    because a controller of xdist never collects."""
    if not keyword:
        return True
    from _pytest.mark.expression import Expression  # what -k itself uses; pytest has no public way

    from pytest_sremut.study.cells import cells

    expression = Expression.compile(keyword)
    common = (study.id, STUDY_FILE, "test_cell", "mutant", "parametrize")
    for cell in cells(study):
        names = (*common, f"test_cell[{cell.id}]")

        def named(name: str, /, **_: object) -> bool:
            return any(name.lower() in known.lower() for known in names)  # noqa: B023 - used at once

        if expression.evaluate(named):
            return True
    return False


def _not_run_template() -> None:
    """Never called: the item is marked to be skipped."""


def _cell_template(sremut_cell: Cell, sremut_report: CellReport) -> None:  # noqa: ARG001
    sremut_report.require()


class StudyFile(pytest.Module):
    """One study as a pytest module with one parametrised function."""

    study: Study
    why_not_run: Callable[[Study], str]
    """Why none of its cells can be run or judged here; empty where they can."""

    def _getobj(self) -> ModuleType:
        from pytest_sremut.study.cells import cells

        try:
            self.study = study_of(self.config, self.path)
        except InputError as error:
            raise self.CollectError(str(error)) from None
        self.extra_keyword_matches.add(self.study.id)
        module = ModuleType(self.study.id)
        module.__file__ = str(self.path)
        listed = list(cells(self.study))
        if reason := self.why_not_run(self.study):
            # One item that any choice of its cells selects.
            self.extra_keyword_matches.update(f"test_cell[{cell.id}]" for cell in listed)
            skipped = pytest.mark.skip(reason=reason)(self._function(_not_run_template))
            module.__dict__["test_study"] = pytest.mark.mutant(skipped)
            return module
        parametrize = pytest.mark.parametrize("sremut_cell", listed, ids=[c.id for c in listed])
        function = self._function(_cell_template)
        module.__dict__["test_cell"] = parametrize(pytest.mark.mutant(function))
        return module

    def _function(self, template: Any) -> Any:
        # The function claims the study as its source file, so that ids, reports and locations
        # name what the user wrote and not this module.
        name = "test_cell" if template is _cell_template else "test_study"
        code = template.__code__.replace(co_name=name, co_filename=str(self.path), co_firstlineno=1)
        return FunctionType(code, globals(), name)
