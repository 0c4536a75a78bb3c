"""Writing, checking and exporting a ledger."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ledger_world import Adjudicated

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.ledger.renderings.difference import json_difference, text_difference
from pytest_sremut.ledger.renderings.document import parse_ledger
from pytest_sremut.ledger.renderings.step_summary import step_summary
from pytest_sremut.ledger.renderings.store import LedgerFiles, append_text
from pytest_sremut.ledger.renderings.stryker import stryker_report


@pytest.fixture
def files(tmp_path: Path) -> LedgerFiles:
    return LedgerFiles(directory=tmp_path / ".sremut")


def test_a_ledger_is_written_regenerated_and_left_alone(
    files: LedgerFiles, judged_whole: Adjudicated
) -> None:
    data, rendering = judged_whole.data, judged_whole.markdown.encode()
    assert files.differences(data, rendering) == [
        "ledger.json: there is none",
        "ledger.md: there is none",
    ]
    assert files.write(data, rendering) == "written"
    assert files.write(data, rendering) == "unchanged"
    assert files.differences(data, rendering) == []
    files.json.write_bytes(data.replace(b'"killed":3', b'"killed":2', 1))
    assert files.write(data, rendering) == "regenerated"
    assert files.json.read_bytes() == data
    assert sorted(path.name for path in files.directory.iterdir()) == ["ledger.json", "ledger.md"]


@pytest.mark.parametrize("name", ["ledger.json", "ledger.md"])
def test_what_is_no_ledger_is_not_overwritten(
    files: LedgerFiles, judged_whole: Adjudicated, name: str
) -> None:
    files.directory.mkdir()
    (files.directory / name).write_text("my notes")
    with pytest.raises(EvidenceError, match="is no ledger; it is not overwritten"):
        files.write(judged_whole.data, judged_whole.markdown.encode())
    assert (files.directory / name).read_text() == "my notes"


def test_a_write_that_fails_leaves_the_old_ledger(
    files: LedgerFiles, judged_whole: Adjudicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rendering = judged_whole.data, judged_whole.markdown.encode()
    files.write(data, rendering)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EvidenceError, match=r"cannot be written: No space left"):
        files.write(data + b"\n", rendering)
    assert files.json.read_bytes() == data
    assert sorted(path.name for path in files.directory.iterdir()) == ["ledger.json", "ledger.md"]


def test_the_ledger_satisfies_its_schema_and_another_version_does_not(
    judged_whole: Adjudicated,
) -> None:
    assert parse_ledger(judged_whole.data, what="x")["format"] == 2
    with pytest.raises(EvidenceError, match=r"x: format: found 1; allowed: 2"):
        parse_ledger(judged_whole.data.replace(b'"format":2', b'"format":1'), what="x")
    with pytest.raises(EvidenceError, match="x: not JSON"):
        parse_ledger(judged_whole.data[:-10], what="x")


def test_its_bytes_are_canonical(judged_whole: Adjudicated) -> None:
    assert judged_whole.data == canonical_json(json.loads(judged_whole.data)) + b"\n"


@pytest.mark.parametrize(
    ("standing", "told"),
    [
        (b'{"a":[1,2],"b":{"c":2}}', ["b.c: stands 2, the records give 3"]),
        (b'{"a":[1],"b":{"c":3}}', ["a[1]: stands nothing, the records give 2"]),
        (b'{"a":[1,2],"b":{"c":3},"d":1}', ["d: stands 1, the records give nothing"]),
        (b'{"a":[1,true],"b":{"c":3}}', ["a[1]: stands true, the records give 2"]),
        (
            b'{"a": [1,2],"b":{"c":3}}',
            ["the values agree, the bytes differ from byte 5 on: it was reformatted"],
        ),
        (b"[]", ["all of it: stands [], the records give "]),
        (b"{", ["not JSON: "]),
    ],
)
def test_a_difference_names_its_place(standing: bytes, told: list[str]) -> None:
    found = json_difference(standing, b'{"a":[1,2],"b":{"c":3}}')
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))


def test_a_long_difference_is_counted() -> None:
    found = json_difference(json.dumps(list(range(100))).encode(), json.dumps([0] * 100).encode())
    assert len(found) == 21
    assert found[-1] == "and 79 more differences"


def test_lines_that_differ() -> None:
    assert text_difference(b"a\nb\nc\n", b"a\nB\nc\n") == ["-b", "+B"]
    assert text_difference(b"a\r\n", b"a\n") == ["the lines agree, their ends differ"]
    assert text_difference(b"\xff\n", b"a\n") == ["-\\xff", "+a"]


def test_a_step_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    append_text(path, "after\n")
    assert path.read_text() == "before\nafter\n"
    with pytest.raises(EvidenceError, match="cannot be written"):
        append_text(tmp_path, "x")


def test_the_step_summary_tells_counts_survivors_and_the_digest(judged_whole: Adjudicated) -> None:
    text = step_summary(judged_whole.ledger, "f" * 64)
    shares = "0 of 9 runs (0 %) | 18 of 18 runs (100 %) | 0"
    assert f"| `O1` | 0 of 3 | 0 % | {shares} | 18 of 18 | 0 of 36 |" in text
    assert "- `O1` let `MS-M02` survive (an agent that recreates" in text
    assert text.endswith(f"SHA-256 `{'f' * 64}`\n")


def test_the_stryker_export_is_one_file_a_grader(judged_whole: Adjudicated) -> None:
    source = "mutants:\n  - id: MS-M01\n  - id: MS-M02\n  - id: MS-M03\n"
    report = stryker_report(judged_whole.ledger, {"mutants/missing_service.yaml": source})
    assert report["schemaVersion"] == "2"
    assert set(report["thresholds"]) == {"high", "low"}
    names = list(report["files"])
    assert names[0] == "missing_service_social_network/O1/mutants/missing_service.yaml"
    assert len(names) == 4
    for name, file in report["files"].items():
        assert file["source"] == source
        assert file["language"] == "yaml"
        statuses = {mutant["status"] for mutant in file["mutants"]}
        assert statuses == ({"Survived"} if "/O1/" in name else {"Killed"})
        assert file["mutants"][1]["location"] == {
            "start": {"line": 3, "column": 5},
            "end": {"line": 3, "column": 15},
        }
    ids = [m["id"] for file in report["files"].values() for m in file["mutants"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("fate", "errors", "status"),
    [
        ("killed", 0, "Killed"),
        ("survived", 0, "Survived"),
        ("unstable", 0, "Survived"),
        ("unproven", 0, "NoCoverage"),
        ("unscored", 1, "RuntimeError"),
        ("unscored", 0, "Ignored"),
    ],
)
def test_every_fate_has_a_status(
    judged_whole: Adjudicated, fate: str, errors: int, status: str
) -> None:
    document = json.loads(judged_whole.data)
    document["studies"][0]["scores"][0]["mutants"][0].update(fate=fate, errors=errors)
    report = stryker_report(document, {})
    assert next(iter(report["files"].values()))["mutants"][0]["status"] == status
