"""What a census writes, verdicts by hand, and the baseline."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from pytest_sremut.census.judge.baseline import baseline_text, read_baseline
from pytest_sremut.census.judge.overrides import read_overrides
from pytest_sremut.census.model import Verdict
from pytest_sremut.census.report.documents import to_csv, to_json, to_markdown
from pytest_sremut.census.take import take_census
from pytest_sremut.cli import main
from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.canonical import canonical_json

OVERRIDES = """
schema: sremut/census-overrides/v1
overrides:
  - problem: {problem}
    verdict: {verdict}
    reason: seen with a real cluster, where the pods stay pending
    citation: bench/faults.py:66
    reviewer: somebody
"""


def test_the_same_checkout_gives_the_same_bytes(mini: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(mini, other)
    first = to_json(take_census(mini))
    assert first == to_json(take_census(other))
    document = json.loads(first)
    assert first == canonical_json(document) + b"\n"
    totals = document["totals"]
    assert totals["problems"] == len(document["rows"]) == 31
    assert totals["blind_at_most"] - totals["blind_at_least"] == totals["uncertain"]
    assert document["digests"]["rules"]
    assert str(tmp_path) not in first.decode()


def test_every_place_is_a_line_of_the_checkout(mini: Path) -> None:
    document = json.loads(to_json(take_census(mini)))
    for row in document["rows"]:
        for one in (*row["observations"], *row["perturbations"], *row["trails"]):
            file, line = one["place"].rsplit(":", 1)
            assert 1 <= int(line) <= len((mini / file).read_text().splitlines())


def test_csv_has_one_line_per_problem(mini: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(take_census(mini)))))
    assert len(rows) == 31
    assert {row["verdict"] for row in rows} == {"ADEQUATE", "BLIND", "UNCERTAIN"}


def test_markdown_tells_the_interval_and_every_id(mini: Path) -> None:
    census = take_census(mini)
    text = to_markdown(census)
    assert "at least 8, at most" in text
    for row in census.rows:
        assert f"**{row.problem}**" in text


def test_a_verdict_by_hand_is_shown_as_such(mini: Path, tmp_path: Path) -> None:
    file = tmp_path / "hand.yaml"
    file.write_text(OVERRIDES.format(problem="volume-settled", verdict="ADEQUATE"))
    census = take_census(mini, overrides=read_overrides(file))
    row = next(row for row in census.rows if row.problem == "volume-settled")
    assert (row.verdict, row.overridden, row.rule) == (Verdict.ADEQUATE, "BLIND", "override")
    assert "the rules said BLIND" in row.sentence
    document = json.loads(to_json(census))
    assert document["totals"]["overridden"] == 1
    assert document["digests"]["overrides"]


@pytest.mark.parametrize(
    ("problem", "verdict", "found"),
    [
        ("volume-settled", "BLIND", "what the rules say"),
        ("no-such-problem", "BLIND", "no problem of the registry"),
        ("volume-settled", "PERHAPS", "PERHAPS"),
    ],
)
def test_a_stale_override_is_an_error(
    mini: Path, tmp_path: Path, problem: str, verdict: str, found: str
) -> None:
    file = tmp_path / "hand.yaml"
    file.write_text(OVERRIDES.format(problem=problem, verdict=verdict))
    with pytest.raises(InputError, match=found):
        take_census(mini, overrides=read_overrides(file))


def test_an_override_needs_a_citation(tmp_path: Path) -> None:
    file = tmp_path / "hand.yaml"
    text = OVERRIDES.format(problem="values", verdict="ADEQUATE")
    file.write_text(text.replace("bench/faults.py:66", "somewhere"))
    with pytest.raises(InputError, match="FILE:LINE"):
        read_overrides(file)


def test_a_baseline_knows_what_it_was_made_from(mini: Path, tmp_path: Path) -> None:
    census = take_census(mini)
    file = tmp_path / "known.yaml"
    file.write_text(baseline_text(census))
    baseline = read_baseline(file)
    assert len(baseline.blind) == census.count(Verdict.BLIND)
    assert baseline.findings == {one.key for one in census.findings}
    assert baseline.stale(census) == []
    (mini / "bench" / "oracles" / "signals.py").write_text("")
    (mini / "run.py").unlink()
    assert "evaluate-without-baseline:run.py:run.py is no longer found" in baseline.stale(
        take_census(mini)
    )


def test_the_command_writes_three_files(
    mini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = main(
        [
            "census",
            f"--sremut-benchmark={mini}",
            f"--output={out}",
            "--pair",
            "service-gone=EndpointGrader",
        ]
    )
    assert code == 0
    assert sorted(file.name for file in out.iterdir()) == ["census.csv", "census.json", "census.md"]
    told = capsys.readouterr().out
    assert "BLIND         8" in told
    assert "reads `port`, which ServiceGone never sets" in told


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--sremut-benchmark=/nowhere/at/all"], 1, "no directory"),
        (["--sremut-benchmark=.", "--pair", "nonsense"], 2, "PROBLEM=ORACLE"),
    ],
)
def test_misuse_is_one_sentence(
    arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", *arguments]) == code
    assert told in capsys.readouterr().err
