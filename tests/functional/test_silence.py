"""Without being asked the plugin does, prints and imports nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HEAVY = ("kubernetes", "aiohttp", "cryptography", "jsonschema", "asn1crypto", "jinja2", "yaml")


def test_a_plain_session_is_untouched(pytester: pytest.Pytester, how: list[str]) -> None:
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess(*how)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*sremut:*")
    assert not (pytester.path / ".sremut").exists()


def test_audits_are_not_run_unasked(project: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*sremut:*")


def test_deselecting_mutants_is_no_wish_for_them(project: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_subprocess("-m", "not mutant").assert_outcomes(passed=1)


def test_asking_without_audits_collects_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess("-m", "mutant")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys

        def test_one():
            assert not [name for name in {HEAVY!r} if name in sys.modules]
        """
    )
    pytester.runpytest_subprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_the_plugin_module_alone_is_light(pytester: pytest.Pytester) -> None:
    script = f"import sys, pytest_sremut.plugin;print([n for n in {HEAVY!r} if n in sys.modules])"
    result = pytester.run(sys.executable, "-c", script)
    result.stdout.fnmatch_lines(["[[]]"])
