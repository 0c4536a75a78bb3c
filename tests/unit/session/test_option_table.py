"""The table of options: what it declares to pytest, and that the reference names each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_sremut.options.selection import asks_for
from pytest_sremut.options.settings import Settings
from pytest_sremut.options.table import OPTIONS, Option, given

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"
# Name: how it is given, its metavariable, what the ini file gives where it says nothing.
# Projects have these in their ini files and CI jobs: a change here breaks theirs.
PUBLIC = {
    "cluster": ("text", "CLUSTER", "embedded"),
    "allow-context": ("words", "NAME", []),
    "use-namespace": ("words", "NAME", []),
    "profile": ("text", "NAME", ""),
    "evidence": ("lines", "DIR", []),
    "adjudicate": ("flag", "", False),
    "check": ("flag", "", False),
    "report": ("lines", "KIND:PATH", []),
    "keep-cluster": ("flag", "", False),
    "exploratory": ("flag", "", False),
    "sealed": ("flag", "", False),
    "tsa": ("text", "URL|self", ""),
    "require": ("text", "WHAT", "predictions"),
    "baseline": ("text", "FILE", ""),
    "fail-under": ("text", "PERCENT", ""),
    "embedded": ("words", "KEY=VALUE", []),
    "benchmark": ("text", "DIR", ""),
    "benchmark-python": ("text", "EXE", ""),
    "census-baseline": ("text", "FILE", ""),
    "census-overrides": ("text", "FILE", ""),
}
INI_ONLY = {"audits": "audits", "kind-image": "", "kind-workers": "0"}
ON_COMMAND_LINE = [option for option in OPTIONS if not option.ini_only]


def test_what_projects_rely_on(pytestconfig: pytest.Config) -> None:
    assert {
        option.name: (
            option.kind.value,
            option.metavar,
            pytestconfig._parser._inidict[option.key][2],
        )
        for option in ON_COMMAND_LINE
    } == PUBLIC
    assert {
        option.name: pytestconfig._parser._inidict[option.key][2]
        for option in OPTIONS
        if option.ini_only
    } == INI_ONLY


def test_no_name_is_declared_twice() -> None:
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)


def test_the_reference_names_every_option() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `--sremut-([a-z-]+)", text, re.MULTILINE))
    assert named == set(PUBLIC)
    assert {f"sremut_{name.replace('-', '_')}" for name in INI_ONLY} == set(
        re.findall(r"`(sremut_\w+)`,", text)
    ) - {"sremut_x_y"}


@pytest.mark.parametrize("option", ON_COMMAND_LINE, ids=lambda option: option.name)
def test_the_command_line_wins(pytester: pytest.Pytester, option: Option) -> None:
    pytester.makeini(f"[pytest]\n{option.key} = {INI[option.kind.value]}\n")
    flag = f"--sremut-{option.name}"
    ours = [flag] if option.kind.value == "flag" else [f"{flag}=ours"]
    config = pytester.parseconfig(*ours)
    assert given(config, option.name) == OURS[option.kind.value]
    assert given(pytester.parseconfig(), option.name) == THEIRS[option.kind.value]


INI = {"text": "theirs", "words": "theirs one", "lines": "\n  theirs\n  one", "flag": "true"}
OURS = {"text": "ours", "words": ["ours"], "lines": ["ours"], "flag": True}
THEIRS = {"text": "theirs", "words": ["theirs", "one"], "lines": ["theirs", "one"], "flag": True}


@pytest.mark.parametrize(
    ("expression", "asks"),
    [
        ("mutant", True),
        ("slow and mutant", True),
        ("not mutant", False),
        ("not (mutant or slow)", False),
        ("mutants", False),
        ("", False),
    ],
)
def test_which_expressions_ask_for_mutants(
    pytester: pytest.Pytester, expression: str, *, asks: bool
) -> None:
    assert asks_for(pytester.parseconfig("-m", expression), "mutant") is asks
    assert not asks_for(pytester.parseconfig("-m", expression), "census")


@pytest.mark.parametrize("name", ["baseline", "census-baseline", "census-overrides"])
def test_a_file_of_the_ini_lies_below_the_root(pytester: pytest.Pytester, name: str) -> None:
    """And one of the command line where pytest was started."""
    from pytest_sremut.options.parsing import settings_of

    key = f"sremut_{name.replace('-', '_')}"
    pytester.makeini(f"[pytest]\n{key} = known.json\nsremut_require = soundness\n")
    below = pytester.mkdir("below")

    def file(*arguments: str) -> Path:
        found: Settings = settings_of(pytester.parseconfigure(*arguments))
        return Path(getattr(found, key.removeprefix("sremut_")))

    pytester.chdir()
    assert file() == pytester.path / "known.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        root = f"--rootdir={pytester.path}"
        config = f"--config-file={pytester.path / 'tox.ini'}"
        assert file(root, config, f"--sremut-{name}=mine.json") == below / "mine.json"
        assert file(root, config) == pytester.path / "known.json"
