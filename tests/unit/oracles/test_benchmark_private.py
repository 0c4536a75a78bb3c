"""What an injector keeps under a fixed name: no other run may see it, and its recovery must."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minibench import MINIBENCH, git, make_checkout, pins_of, request

from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles.benchmark import private
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.benchmark.layout import SREGYM
from pytest_sremut.oracles.benchmark.turn import Turn
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.names import Instrument

KEEPING = dataclasses.replace(MINIBENCH, injector="minibench.faults:Notes", private=("/tmp",))
needs_namespaces = pytest.mark.skipif(
    not private.possible(), reason="no mount namespace can be had here"
)


@pytest.fixture
def fault() -> Iterator[str]:
    """A fault, and with it a file, that no other test's process has."""
    name = f"notes-{os.getpid()}"
    assert not notes(name).exists()
    yield name
    notes(name).unlink(missing_ok=True)


def notes(fault: str) -> Path:
    """Where the injector keeps them."""
    return Path(f"/tmp/minibench-{fault}.txt")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("bench") / "checkout")


@pytest.fixture
def make(checkout: Path) -> Iterator[Callable[[], BenchmarkInstrument]]:
    made: list[BenchmarkInstrument] = []

    def one() -> BenchmarkInstrument:
        made.append(
            BenchmarkInstrument(Instrument.OWN, directory=checkout, layouts={"minibench": KEEPING})
        )
        return made[-1]

    yield one
    for instrument in made:
        instrument.close()
    assert git(checkout, "status", "--porcelain", "--ignored") == ""


def asked(checkout: Path, place: Path, namespace: str) -> ReadingRequest:
    place.mkdir(exist_ok=True)
    made = request(place, pins_of(checkout), OracleNode(id="fault", use=""), timeout=60.0)
    return dataclasses.replace(made, namespace=namespace)


def test_sregym_keeps_its_files_in_tmp() -> None:
    assert SREGYM.private == ("/tmp",)


@pytest.mark.parametrize("directory", ["tmp", "", "/", "//"])
def test_a_layout_names_directories_by_their_whole_path(directory: str) -> None:
    with pytest.raises(UsageError, match="allowed: an absolute path other than /"):
        dataclasses.replace(MINIBENCH, private=(directory,))


@needs_namespaces
def test_two_runs_at_a_time_each_recover_what_they_kept(
    make: Callable[[], BenchmarkInstrument], checkout: Path, tmp_path: Path, fault: str
) -> None:
    first, second = make(), make()
    one, two = (asked(checkout, tmp_path / name, name) for name in ("one", "two"))
    assert first.operate("inject", one, fault)["apart"] == "mount namespace"
    second.operate("inject", two, fault)
    assert not notes(fault).exists()
    assert first.operate("recover", one, fault)["returned"] == "one till"
    assert second.operate("recover", two, fault)["returned"] == "two till"


def test_without_namespaces_one_run_waits_for_the_other(
    make: Callable[[], BenchmarkInstrument],
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    monkeypatch.setattr(BenchmarkInstrument, "_may_be_private", lambda *_: False)
    first, second = make(), make()
    one, two = (asked(checkout, tmp_path / name, name) for name in ("one", "two"))
    assert first.operate("inject", one, fault)["apart"] == "turn"
    waiting = threading.Thread(target=second.operate, args=("inject", two, fault))
    waiting.start()
    try:
        waiting.join(0.5)
        assert waiting.is_alive()
        assert first.operate("recover", one, fault)["returned"] == "one till"
        waiting.join(60)
        assert not waiting.is_alive()
        assert second.operate("recover", two, fault)["returned"] == "two till"
    finally:
        first.close()


def test_a_turn_is_given_up_with_its_instrument_and_has_an_end() -> None:
    first, second = (Turn("turn-test", patience=0.1) for _ in range(2))
    first.take()
    first.take()
    with pytest.raises(HarnessError, match=r"another run has held .*sremut-turn-test-\d+\.lock"):
        second.take()
    first.give()
    first.give()
    second.take()
    second.give()


SEEN = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pytest_sremut.oracles.benchmark import private
shared, place = Path(sys.argv[2]), Path(sys.argv[3])
os.chdir(shared / "folder")
private.enter(shared, place)
Path("through").write_text("x")
mine = shared / "mine"
mine.write_text(mine.read_text() + "+" if mine.exists() else "")
print(json.dumps({
    "entries": sorted(os.listdir(shared)),
    "folder": sorted(os.listdir(shared / "folder")),
    "link": sorted(os.listdir(shared / "link")),
    "mine": (shared / "mine").read_text(),
    "user": os.geteuid(),
}))
"""


@needs_namespaces
def test_directories_shine_through_and_files_are_ones_own(tmp_path: Path) -> None:
    shared, place = tmp_path / "shared", tmp_path / "place"
    (shared / "folder").mkdir(parents=True)
    (shared / "folder" / "file").touch()
    (shared / "link").symlink_to(shared / "folder")
    (shared / "stale").write_text("somebody else's")
    root = str(Path(private.__file__).parents[3])
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SEEN, root, shared, place],
                check=True, capture_output=True, text=True,
            ).stdout
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in found:
        assert one["entries"] == ["folder", "link", "mine"]
        assert one["folder"] == one["link"] == ["file", "through"]
        assert one["user"] == os.geteuid()
    assert [one["mine"] for one in found] == ["", "+"]
    assert sorted(path.name for path in shared.iterdir()) == ["folder", "link", "stale"]
    assert (shared / "folder" / "through").read_text() == "x"
