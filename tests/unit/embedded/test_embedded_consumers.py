"""Every kind that is served and every controller names somebody who needs it.

The tables stand in docs/embedded.md, for people; they are compared with the code here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_sremut.embedded import controllers
from pytest_sremut.embedded.meta.resources import RESOURCES

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "embedded.md"
CORPUS = ROOT.parent / "shared" / "k8s-golden" / "v1.36.2"
SMOKES = ROOT / "tests" / "embedded" / "test_clients.py"

ROW = re.compile(r"\| `([^`]+)` \| (client |recording |)`([^`]+)`(?: \([^|]+\))? \| `([^`]+)` \|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Who needs `subject`: a file, a client or a recording, in which `word` names it."""

    subject: str
    form: str
    name: str
    word: str


def table(name: str) -> list[Consumer]:
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}: begin -->\n(.*)<!-- {name}: end -->", text, re.DOTALL)
    assert found, f"no table of {name} in {DOCUMENT}"
    rows = [line for line in found[1].splitlines() if line.startswith("|")][2:]
    consumers = []
    for row in rows:
        cells = ROW.fullmatch(row)
        assert cells, f"not a row of the table of {name}: {row}"
        subject, form, consumer, word = cells.groups()
        consumers.append(
            Consumer(subject=subject, form=form.strip() or "file", name=consumer, word=word)
        )
    return consumers


def running_controllers() -> list[str]:
    """Names of the controllers that a cluster starts, in order."""
    source = Path(controllers.__file__).read_text(encoding="utf-8")
    started = re.search(r"self\._controllers = \[\n(.*?)\n        \]", source, re.DOTALL)
    assert started
    return re.findall(r"(\w+)\(context", started[1])


def test_every_served_kind_is_listed_once() -> None:
    assert [item.subject for item in table("kinds")] == list(RESOURCES)


def test_every_controller_is_listed_once() -> None:
    names = running_controllers()
    assert len(names) >= 15
    assert [item.subject for item in table("controllers")] == names


@pytest.mark.parametrize(
    "consumer", [*table("kinds"), *table("controllers")], ids=lambda item: item.subject
)
def test_the_consumer_is_there_and_names_it(consumer: Consumer) -> None:
    match consumer.form:
        case "file":
            text = (ROOT / consumer.name).read_text(encoding="utf-8")
        case "client":
            installed = (ROOT / ".ci" / "clients").read_text(encoding="utf-8")
            assert f"get {consumer.name} " in installed
            text = SMOKES.read_text(encoding="utf-8")
        case _:
            if not CORPUS.is_dir():
                pytest.skip("the recordings are not here")
            (file,) = CORPUS.glob(f"{consumer.name}.json*")
            text = file.read_text(encoding="utf-8")
    assert consumer.word in text
