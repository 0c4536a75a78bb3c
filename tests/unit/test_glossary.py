"""The glossary defines every closed word of the product, and no link of the documents is dead."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.evidence.seal.anchor import AnchorState
from pytest_sremut.ledger.scores import Fate
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Evaluation,
    Outcome,
    Registration,
    State,
    Verdict,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pytest_sremut"
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

ENTRY = re.compile(r'^- ((?:<a id="[^"]+"></a>)+)((?:\*\*[^*]+\*\*(?:, )?)+): (.+)$')
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")

# Words of schemas that are Kubernetes', RFC 6902's or cryptography's, or that say nothing alone.
NOT_OURS = frozenset(
    {"ConfigMap", "Deployment", "EndpointSlice", "Endpoints", "Service", "apps/v1", "v1"}
    | {"add", "copy", "move", "remove", "replace", "test"}
    | {"Ed25519", "journal.jsonl", "source.json", "any", "after-apply", "before-oracle"}
)
# Keys of records that are plain English or a count of something that the page defines.
PLAIN = frozenset(
    {"started", "finished", "files", "pid", "opening", "empty_directories", "event", "id", "title"}
    | {"only", "name", "url", "rate", "duration", "problems", "runs_without_valid_attempt"}
    | {"totals"}
)


def entries() -> list[tuple[list[str], list[str], str]]:
    """Anchors, spellings and text of each entry, in the order of the page."""
    items = re.split(r"\n(?=- )", GLOSSARY.read_text(encoding="utf-8"))[1:]
    found = []
    for item in items:
        match = ENTRY.match(" ".join(item.split()))
        assert match, f"no entry: {item!r}"
        anchors = re.findall(r'id="([^"]+)"', match[1])
        names = [name.strip("`") for name in re.findall(r"\*\*([^*]+)\*\*", match[2])]
        found.append((anchors, names, match[3]))
    return found


def defined() -> set[str]:
    return {name for _, names, _ in entries() for name in names}


def vocabularies() -> dict[str, list[str]]:
    """Every enumeration of texts in the product, read from its source: class to values."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "StrEnum" for base in node.bases
            ):
                name = f"{path.relative_to(PACKAGE).with_suffix('')}:{node.name}"
                found[name] = [
                    str(item.value.value)
                    for item in node.body
                    if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
                ]
    return found


def schemas() -> dict[str, Any]:
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for room in ("study", "evidence", "ledger")
        for path in sorted((PACKAGE / room / "schemas").glob("*.schema.json"))
    }


def words(node: Any) -> Iterator[str]:
    """Every text that an `enum` or a `const` of a schema allows."""
    if isinstance(node, dict):
        for word in [*node.get("enum", []), node.get("const")]:
            if isinstance(word, str) and not word.startswith("sremut/"):
                yield word
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, dict | list):
            yield from words(child)


@pytest.mark.parametrize(("name", "values"), vocabularies().items(), ids=vocabularies())
def test_every_value_of_a_closed_vocabulary_is_defined(name: str, values: list[str]) -> None:
    assert values, f"{name}: no value was read"
    assert set(values) <= defined()


def test_the_vocabularies_are_those_of_the_code() -> None:
    read = {value for values in vocabularies().values() for value in values}
    for enum in (
        Outcome, Verdict, ContractVerdict, Evaluation, State, Registration, Fate, AnchorState
    ):  # fmt: skip
        assert {member.value for member in enum} <= read


@pytest.mark.parametrize("name", schemas())
def test_every_word_that_a_schema_allows_is_defined(name: str) -> None:
    found = set(words(schemas()[name])) - NOT_OURS
    assert found <= defined()


def test_every_key_of_a_study_and_of_a_record_is_defined() -> None:
    every = schemas()
    study = every["study.schema.json"]
    keys = {*study["properties"], *study["$defs"]["workload"]["properties"]}
    keys |= set(study["properties"]["profiles"]["additionalProperties"]["properties"])
    for name in ("attempt", "record", "state", "seal", "session-seal", "sealed-session"):
        keys |= set(every[f"{name}.schema.json"]["properties"])
    keys |= set(every["ledger.schema.json"]["$defs"]["study"]["properties"])
    known = {name.replace(" ", "_") for name in defined()}
    known |= {f"{name}s" for name in known}
    known |= {f"{name[:-1]}ies" for name in known if name.endswith("y")}
    known |= {"violated", "retained", "windows"}  # of `violated`, `retained volume`, `window`
    assert keys - PLAIN <= known


def test_entries_are_sorted_and_unique() -> None:
    anchors = [anchors for anchors, _, _ in entries()]
    first = [each[0] for each in anchors]
    assert first == sorted(first)
    every = [anchor for each in anchors for anchor in each]
    assert len(every) == len(set(every))
    names = [name for _, names, _ in entries() for name in names]
    assert len(names) == len(set(names))


def test_an_anchor_is_the_word_itself() -> None:
    for anchors, names, _ in entries():
        expected = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in names]
        assert anchors == list(dict.fromkeys(expected))


def test_an_entry_is_a_few_plain_sentences() -> None:
    for _, names, text in entries():
        assert text.endswith("."), names
        assert len(text) <= 340, names


# -- links ----------------------------------------------------------------------------------------


def prose(page: Path) -> str:
    """A page without its code blocks and code spans: what looks like a link there is none."""
    text = re.sub(
        r"^[ ]*```.*?^[ ]*```$",
        "",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchors_of(page: Path) -> set[str]:
    """Explicit anchors, and those that a host of Markdown gives to headings."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"></a>', text))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_relative_link_and_anchor_resolves(page: Path) -> None:
    dead = []
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            dead.append(target)
    assert not dead


def test_links_are_found_at_all() -> None:
    assert {"docs/glossary.md", "docs/architecture.md"} <= set(
        LINK.findall(prose(ROOT / "README.md"))
    )
    assert "healthy-gate" in anchors_of(GLOSSARY)
    assert "one-session" in anchors_of(ROOT / "docs" / "architecture.md")


@pytest.mark.parametrize(
    "page",
    # The embedded cluster's page speaks of Kubernetes and of no study.
    [page for page in PAGES if page.name not in {"embedded.md", "glossary.md", "CHANGELOG.md"}],
    ids=lambda page: page.name,
)
def test_a_page_links_to_the_glossary(page: Path) -> None:
    assert any("glossary.md" in target for target in LINK.findall(prose(page)))


@pytest.mark.parametrize(
    "page",
    # The census cites files of the benchmark that it audits.
    [page for page in PAGES if page.name != "census.md"],
    ids=lambda page: page.name,
)
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:[\w-]+/)+[\w-]+\.(?:py|json|yaml|txt))`", page.read_text(encoding="utf-8")
    )
    missing = [
        path
        for path in named
        if not path.startswith(("raw/", "attempts/", "states/"))
        and not any((base / path).exists() for base in (ROOT, PACKAGE))
    ]
    assert not missing


def test_the_table_of_rooms_names_every_room_that_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {room for cell in table for room in re.findall(r"`((?:\w+/)+)`", cell)}
    rooms = {
        f"{path.parent.relative_to(PACKAGE)}/"
        for path in [*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("*/*/__init__.py")]
    }
    assert named == rooms - {"ground/"}  # which is two rooms and nothing besides
