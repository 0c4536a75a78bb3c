"""Bad values are refused in one sentence that says what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

BAD = [
    ("cluster", "minikube", "embedded | kind | context:NAME"),
    ("cluster", "context:", "embedded | kind | context:NAME"),
    ("use-namespace", "kube-system", "the name of a namespace for the study alone, *"),
    ("use-namespace", "default", "the name of a namespace for the study alone, *"),
    ("require", "everything", "predictions | soundness"),
    ("embedded", "routing=ipvs", "routing=auto|nft|forwarder, *"),
    ("embedded", "routing", "routing=auto|nft|forwarder, *"),
    ("embedded", "port=80", "routing=auto|nft|forwarder, *"),
    ("fail-under", "many", "a percentage from 0 to 100"),
    ("fail-under", "nan", "a percentage from 0 to 100"),
    ("fail-under", "101", "a percentage from 0 to 100"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_on_the_command_line(
    pytester: pytest.Pytester, name: str, value: str, allowed: str
) -> None:
    result = pytester.runpytest_inprocess(f"--sremut-{name}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --sremut-{name}: found '{value}'; allowed: {allowed}"])


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_in_the_ini_file(pytester: pytest.Pytester, name: str, value: str, allowed: str) -> None:
    pytester.makeini(f"[pytest]\nsremut_{name.replace('-', '_')} = {value}\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*found '{value}'; allowed: {allowed}"])


def test_the_command_line_beats_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsremut_require = everything\n")
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_inprocess("--sremut-require=soundness").assert_outcomes(passed=1)


def test_an_unknown_profile_stops_the_session(
    project: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    result = pytester.runpytest_subprocess("-m", "mutant", "--sremut-profile=moon", *how)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*nothing was run:*", "*profiles: no profile 'moon' (--sremut-profile); allowed: *"]
    )
    assert not (project / ".sremut").exists()


def test_a_context_that_was_not_allowed_is_never_written_to(
    project: Path, pytester: pytest.Pytester
) -> None:
    result = pytester.runpytest_subprocess(
        "-m",
        "mutant",
        "-k",
        "pinned",
        "--sremut-cluster=context:production",
        "--sremut-profile=embedded",
        "--sremut-exploratory",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*--sremut-allow-context=production*"])
    result.assert_outcomes(errors=12)


def test_every_option_has_an_ini_twin(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--help")
    text = result.stdout.str()
    options = {
        line.split()[0].split("=")[0].removeprefix("--sremut-").replace("-", "_")
        for line in text.splitlines()
        if line.strip().startswith("--sremut-")
    }
    assert options
    for option in options:
        assert f"sremut_{option} (" in text, option


@pytest.mark.parametrize("what", ["file", "proc"])
def test_evidence_that_cannot_be_written_stops_the_session(
    project: Path, pytester: pytest.Pytester, how: list[str], what: str
) -> None:
    place = project / "taken"
    place.write_text("a file")
    directory = place if what == "file" else Path("/proc/sremut")
    result = pytester.runpytest_subprocess(
        "-m", "mutant", "--sremut-exploratory", f"--sremut-evidence={directory}", *how
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --sremut-evidence: {directory}*"])


def test_what_the_embedded_cluster_can_be_told() -> None:
    """The command line's table is the one of the cluster itself, less what a session decides."""
    from typing import get_args, get_type_hints

    from pytest_sremut.embedded import Options
    from pytest_sremut.options.settings import EMBEDDED

    hints = get_type_hints(Options)
    closed = {name: get_args(hint) for name, hint in hints.items() if get_args(hint)}
    # A number and a text of parts: what is allowed stands in the table alone.
    assert {**closed, "nodes": EMBEDDED["nodes"], "pace": EMBEDDED["pace"]} == EMBEDDED
    first = {name: values[0] for name, values in EMBEDDED.items()}
    assert first == {name: str(getattr(Options(), name)) for name in EMBEDDED}
    assert Options.of_text(first) == Options()


@pytest.mark.parametrize("pace", ["fast", "delay:20", "pods:3s-1s", ""])
def test_a_pace_that_is_none_is_refused(pytester: pytest.Pytester, pace: str) -> None:
    result = pytester.runpytest_subprocess(
        "-m", "mutant", "--sremut-exploratory", f"--sremut-embedded=pace={pace}"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = f"*--sremut-embedded: 'pace={pace}': found '{pace}'; allowed: none, real, or parts*"
    result.stderr.fnmatch_lines([told])
