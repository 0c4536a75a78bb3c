"""`audits/*/study.yaml` becomes parametrised items in schedule order."""

from __future__ import annotations

from pathlib import Path

import pytest

MAIN = "audits/missing_service_social_network/study.yaml"
PINNED = "audits/pinned_endpoints_social_network/study.yaml"


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    result = pytester.runpytest_inprocess("--collect-only", "-q", *arguments)
    return [line for line in result.outlines if "::test_cell[" in line]


def test_items_are_cells_in_schedule_order(project: Path, pytester: pytest.Pytester) -> None:
    items = collected(pytester, "-m", "mutant")
    own = [item for item in items if item.startswith(MAIN)]
    assert len(own) == 3 * 3 * 3 * 4
    assert own[:5] == [
        f"{MAIN}::test_cell[ms-m01-r01-healthy-O1]",
        f"{MAIN}::test_cell[ms-m01-r01-healthy-O3]",
        f"{MAIN}::test_cell[ms-m01-r01-healthy-O4]",
        f"{MAIN}::test_cell[ms-m01-r01-healthy-contract]",
        f"{MAIN}::test_cell[ms-m01-r01-faulted-O1]",
    ]
    runs = list(
        dict.fromkeys(
            item.split("[")[1].split("-healthy")[0].split("-faulted")[0].split("-restored")[0]
            for item in own
        )
    )
    assert runs == [f"ms-m0{m}-r0{r}" for r in (1, 2, 3) for m in (1, 2, 3)]


def test_a_path_is_a_wish_too(project: Path, pytester: pytest.Pytester) -> None:
    assert len(collected(pytester, PINNED)) == 12
    node = f"{PINNED}::test_cell[ms-m04-r01-faulted-O1]"
    assert collected(pytester, node) == [node]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("pinned_endpoints_social_network", 12),  # a study
        ("ms-m02", 36),  # a mutant
        ("MS-M02", 36),
        ("faulted", 40),  # a state
        ("O1 and faulted", 10),  # an oracle
        ("ms-m03-r02", 12),  # a run
        ("contract and not faulted and pinned", 2),
    ],
)
def test_selection(project: Path, pytester: pytest.Pytester, expression: str, count: int) -> None:
    assert len(collected(pytester, "-m", "mutant", "-k", expression)) == count


def test_what_was_admitted_is_what_is_collected(project: Path, pytester: pytest.Pytester) -> None:
    """A study is read once: who edits it meanwhile changes nothing of the session."""
    pytester.makeconftest(
        f"""
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(session):
            (session.config.rootpath / {PINNED!r}).write_text("edited")
        """
    )
    assert len(collected(pytester, PINNED)) == 12


def test_cells_carry_the_marker(project: Path, pytester: pytest.Pytester) -> None:
    assert collected(pytester, "audits", "-m", "not mutant") == []


def test_locations_name_the_study(project: Path, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            assert {item.location[0] for item in items} == {str(items[0].path.relative_to(
                items[0].config.rootpath))}
        """
    )
    result = pytester.runpytest_inprocess("--collect-only", PINNED)
    assert result.ret == 0


def test_a_bad_study_is_an_error_with_its_place(
    project: Path, pytester: pytest.Pytester, how: list[str]
) -> None:
    study = project / PINNED
    text = study.read_text()
    assert "repetitions: 1" in text
    study.write_text(text.replace("repetitions: 1", "repetitions: one"))
    result = pytester.runpytest_subprocess("-m", "mutant", "-k", "nothing", *how)
    assert result.ret in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR, 1}
    text = result.stdout.str() + result.stderr.str()
    assert "pinned_endpoints_social_network/study.yaml" in text
    assert "repetitions" in text
    assert "one" in text
    assert "Traceback" not in text
