"""Every number of `ledger.md` carries where it came from; a test walks them all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import Adjudicated
from records import ROOT, Records, Told, pod_down

from pytest_sremut.ledger.renderings.markdown_tables import cited, code, escaped, table
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Outcome, State, Verdict

_CODE = re.compile(r"`[^`]*`|SHA-256")
_CITED = re.compile(r"\bs(\d+)(?:–s(\d+))?\b")
_NUMBER = re.compile(r"(?<![A-Za-z])\d+(?:\.\d+)?")


def source_table(markdown: str) -> dict[int, tuple[str, str, str]]:
    """Number -> (evidence, path, SHA-256), from the last section."""
    _, _, tail = markdown.partition("## Sources")
    rows = re.findall(r"^\| s(\d+) \| (\S+) \| `([^`]+)` \| `([0-9a-f]{64})` \|$", tail, re.M)
    return {int(number): (evidence, path, digest) for number, evidence, path, digest in rows}


def rows(markdown: str) -> Iterator[tuple[str, list[str]]]:
    """Section title and cells of every row of every table before the sources."""
    body, _, _ = markdown.partition("## Sources")
    title = ""
    for line in body.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("| ") and not line.startswith("|---"):
            yield title, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def walk(markdown: str, evidence: dict[str, Path]) -> int:
    """Check every number; returns how many there were.

    A number is any run of digits that stands in no name (code spans are names, and so are evidence
    labels). Each has to stand in a row of a table whose last cell names sources, each of them in
    the source table, each there with the digest that the file has.
    """
    listed = source_table(markdown)
    for label, path, digest in listed.values():
        data = (evidence[label] / path).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest, path
    count = 0
    body, _, _ = markdown.partition("## Sources")
    for line in body.splitlines():
        if not line.startswith("|"):
            told = _CODE.sub("", line).removeprefix("<!-- sremut/ledger/v1 -->")
            assert not _NUMBER.search(told), f"a number outside any table: {line}"
    for title, cells in rows(markdown):
        *figures, last = cells
        told = " ".join(_CODE.sub("", cell) for cell in figures)
        numbers = _NUMBER.findall(re.sub(r"\be\d+\b", "", told))
        if not numbers:
            continue
        count += len(numbers)
        if last == "–":  # nothing was read: then every count in it is zero
            assert set(numbers) <= {"0"}, (title, cells)
            continue
        sources = _CITED.findall(last)
        assert sources, f"{title}: numbers without a source: {cells}"
        for first, final in sources:
            for number in range(int(first), int(final or first) + 1):
                assert number in listed, (title, number)
    return count


def places(found: Adjudicated, *directories: Path) -> dict[str, Path]:
    by_digest = {item.digest: item for item in found.judged.evidence}
    assert len(by_digest) == len(directories)
    labels = {f"e{item['id']}": directory for item, directory in
              zip(found.ledger["evidence"], directories, strict=True)}  # fmt: skip
    return {**labels, "project": ROOT}


def test_every_number_has_its_source(judged_whole: Adjudicated, whole: Path) -> None:
    assert walk(judged_whole.markdown, places(judged_whole, whole)) > 1000


def test_every_number_of_a_troubled_study_too(
    records: Records, judge_it: Callable[..., Adjudicated]
) -> None:
    faulted = State.FAULTED
    told = {
        "ms-m01-r01": Told(outcome=Outcome.INFRASTRUCTURE_FAILURE, until=State.HEALTHY),
        "ms-m02-r01": Told(outcome=None, until=faulted),
        "ms-m03-r01": Told(by_instrument={(faulted, "O3", "isolated"): Verdict.ERROR}),
        "ms-m01-r02": Told(
            verdicts={(faulted, "O1"): Verdict.REJECT},
            samples={faulted: [pod_down("user-service-1")] * 6 + [pod_down()] * 8},
        ),
        "ms-m02-r02": Told(violated={faulted: ("MS-I3",)}, modules="b" * 64),
        "ms-m03-r02": Told(not_evaluated=["MS-I6"], requests={faulted: 0}, failures={faulted: 0}),
    }
    for run in runs(records.study):
        records.attempt(run, told.get(run.id))
    found = judge_it(records.directory)
    assert walk(found.markdown, places(found, records.directory)) > 500


def test_every_number_of_a_study_without_any_record_too(
    records: Records, judge_it: Callable[..., Adjudicated]
) -> None:
    found = judge_it(records.directory)
    assert walk(found.markdown, places(found, records.directory)) > 20


def test_the_walk_finds_a_number_without_a_source(judged_whole: Adjudicated, whole: Path) -> None:
    broken = re.sub(r"(\| `O1` \| 0 of 3 \|.*\|) s[^|]+\|", r"\1 |", judged_whole.markdown)
    assert broken != judged_whole.markdown
    with pytest.raises(AssertionError, match="numbers without a source"):
        walk(broken, places(judged_whole, whole))


def test_cited_records_hold_the_numbers(judged_whole: Adjudicated, whole: Path) -> None:
    """Not only is there a source: the window's counts stand in the very file that is cited."""
    listed = source_table(judged_whole.markdown)
    checked = 0
    for title, cells in rows(judged_whole.markdown):
        if title != "Workload windows" or cells[0] == "attempt":
            continue
        numbers = [int(a) for a, b in _CITED.findall(cells[-1])]
        bodies = [json.loads((whole / listed[number][1]).read_bytes()) for number in numbers]
        (own,) = [b for b in bodies if b["state"] == cells[1]]
        requests, _, rounds = cells[2].partition(" in ")
        assert own["workload"]["requests"] == int(requests)
        assert len(own["workload"]["rounds"]) == int(rounds)
        assert own["workload"]["failures"] == int(cells[3].split()[0])
        checked += 1
    assert checked == 27


def test_every_reading_has_raw_path_and_digest(judged_whole: Adjudicated, whole: Path) -> None:
    count = 0
    for title, cells in rows(judged_whole.markdown):
        if title != "Readings" or cells[0] == "attempt":
            continue
        path, digest = re.findall(r"`([^`]+)`", cells[6])
        assert hashlib.sha256((whole / path).read_bytes()).hexdigest() == digest
        count += 1
    assert count == 162


def test_figures_in_the_rendering_are_those_of_the_document(
    judged_whole: Adjudicated, study: Study
) -> None:
    for row in judged_whole.study["scores"]:
        line = f"| `{row['grader']}` | {row['killed']} of {row['scored']} | {row['percent']} % |"
        assert line in judged_whole.markdown


@given(st.text(max_size=60))
def test_text_from_records_breaks_no_table(text: str) -> None:
    (_, _, row, _) = table(("a", "b"), [(escaped(text), code(text))])
    assert "\n" not in row
    assert len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) == 3
    bare = re.sub(r"\\.", "", escaped(text))
    assert not set(bare) & set("`<>|[]*_#")


def test_citations_are_merged() -> None:
    assert cited({"from": [[1, 2], [5, 5]]}, {"from": [[3, 3], [9, 9]]}) == "s1–s3 s5 s9"
    assert cited({"from": []}) == "–"
