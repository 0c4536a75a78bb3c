"""Is a checkout the pinned one; where its classes stand; what its oracles load; its kubeconfig."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from minibench import MINIBENCH, ORACLES, commit, git, make_checkout, pins_of

from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.kubeconfig import write_single_context
from pytest_sremut.oracles.benchmark.layout import SOURCES, SREGYM, Layout
from pytest_sremut.oracles.benchmark.state import difference, restore, snapshot
from pytest_sremut.study.model import OracleSpec

ROGUE = f"{ORACLES}/rogue.py"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture
def checkout(directory: Path) -> Checkout:
    return Checkout(directory, MINIBENCH)


def spec(name: str) -> OracleSpec:
    use = name if ":" in name else f"minibench:{name}"
    return OracleSpec(id="O1", use=use, instruments=("own",))


# -- is it the pinned one? -------------------------------------------------------------------------


def test_a_checkout_as_it_was_pinned(checkout: Checkout, directory: Path) -> None:
    assert checkout.differences(pins_of(directory), [spec("Plain"), spec("All")]) == []
    assert git(directory, "status", "--porcelain", "--ignored") == ""


def test_what_git_ignores_is_seen_when_it_is_new(checkout: Checkout, directory: Path) -> None:
    cache = directory / ORACLES / "__pycache__"
    cache.mkdir()
    (cache / "base.cpython-311.pyc").touch()
    elsewhere = directory / ".venv" / "__pycache__"
    elsewhere.mkdir(parents=True)
    (elsewhere / "x.pyc").touch()
    changed = (cache / "base.cpython-311.pyc").stat().st_ctime
    assert checkout.dirt() == []
    assert checkout.written_since(changed + 1) == []
    assert checkout.written_since(changed) == [
        f"{directory}: found {ORACLES}/__pycache__/base.cpython-311.pyc, written meanwhile; "
        "allowed: nothing new"
    ]


def test_another_commit(checkout: Checkout, directory: Path) -> None:
    pins = pins_of(directory)
    later = commit(directory)
    (told,) = checkout.differences(pins, [spec("Plain")])
    assert told == f"{directory}: commit: found {later}; pinned: {pins.commit}"


def test_a_changed_file_is_named_with_both_digests(checkout: Checkout, directory: Path) -> None:
    pins = pins_of(directory)
    with (directory / ROGUE).open("a") as file:
        file.write("# changed\n")
    dirt, told = checkout.differences(pins, [spec("Plain")])
    assert dirt == f"{directory}: work tree: found M {ROGUE}; allowed: a clean work tree"
    assert told == (
        f"{directory / ROGUE}: SHA-256: found {checkout.digest(ROGUE)}; pinned: {pins.files[ROGUE]}"
    )
    commit(directory)
    commit_differs, told = checkout.differences(pins, [spec("Plain")])
    assert "commit" in commit_differs
    assert ROGUE in told


def test_a_missing_file(checkout: Checkout, directory: Path) -> None:
    pins = dataclasses.replace(pins_of(directory), files={"gone.py": "0" * 64})
    told = checkout.differences(pins, [])
    assert told == [f"{directory / 'gone.py'}: SHA-256: found no such file; pinned: {'0' * 64}"]


def test_an_untracked_file_is_dirt(checkout: Checkout, directory: Path) -> None:
    for number in range(7):
        (directory / f"new{number}").write_text("")
    (told,) = checkout.dirt()
    assert "?? new0" in told
    assert told.endswith("and 2 more; allowed: a clean work tree")


def test_a_module_that_is_loaded_and_not_pinned(checkout: Checkout, directory: Path) -> None:
    pins = pins_of(directory)
    fewer = {name: d for name, d in pins.files.items() if not name.endswith(("late.py", "base.py"))}
    told = checkout.differences(dataclasses.replace(pins, files=fewer), [spec("Plain")])
    assert [line.partition(": ")[0] for line in told] == [
        str(directory / ORACLES / name) for name in ("base.py", "late.py")
    ]
    assert all("pinned: nothing (an oracle of the study loads it)" in line for line in told)


def test_a_directory_that_is_no_repository(tmp_path: Path, directory: Path) -> None:
    pins = pins_of(directory)
    (directory / ".git").rename(tmp_path / "elsewhere")
    told = Checkout(directory, MINIBENCH).differences(pins, [])
    assert any("commit: found " in line for line in told)
    assert any("not a git checkout" in line for line in told)


def test_no_git_at_all(
    checkout: Checkout, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = pins_of(directory)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert any("git cannot be run" in line for line in checkout.differences(pins, []))


def test_a_directory_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no directory"):
        Checkout(tmp_path / "nothing", MINIBENCH)
    with pytest.raises(UsageError, match=f"no checkout of minibench: it has no {ORACLES}"):
        Checkout(tmp_path, MINIBENCH)


# -- what stands in it -----------------------------------------------------------------------------


def test_a_class_is_found_by_its_name(checkout: Checkout) -> None:
    assert checkout.place("minibench:Plain") == "minibench.harness.oracles.rogue:Plain"
    assert checkout.place("python:any.where:Thing") == "any.where:Thing"


def test_a_class_that_does_not_exist_is_told_with_what_is_near(checkout: Checkout) -> None:
    with pytest.raises(UsageError, match=r"no class PodRunning in .*; did you mean PodsRunning"):
        checkout.place("minibench:PodRunning")


def test_a_class_that_exists_twice_must_be_named_with_its_module(checkout: Checkout) -> None:
    with pytest.raises(
        UsageError, match=r"say which with python:minibench\.harness\.oracles\.rogue"
    ):
        checkout.place("minibench:Exits")


def test_imports_are_followed_wherever_they_stand(checkout: Checkout) -> None:
    assert checkout.oracle_files([spec("Plain")]) == [
        f"{ORACLES}/{name}.py" for name in ("__init__", "base", "late", "rogue")
    ]
    assert checkout.oracle_files([spec("PodsRunning")]) == [
        f"{ORACLES}/{name}.py" for name in ("__init__", "attentive", "base")
    ]


def test_relative_imports_are_followed(checkout: Checkout, directory: Path) -> None:
    path = directory / ORACLES / "relative.py"
    path.write_text("from . import late\nfrom .base import Grader\nclass Near(Grader): ...\n")
    found = checkout.oracle_files([spec("python:minibench.harness.oracles.relative:Near")])
    assert {Path(file).stem for file in found} == {"__init__", "base", "late", "relative"}


def test_a_module_that_cannot_be_parsed_is_told(checkout: Checkout, directory: Path) -> None:
    (directory / ROGUE).write_text("class Plain(:\n")
    told = checkout.differences(pins_of(directory), [spec("Plain")])
    assert any("cannot be parsed" in line for line in told)


# -- layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [SREGYM, MINIBENCH])
def test_a_layout_survives_the_way_to_the_worker(layout: Layout) -> None:
    assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout


def test_a_source_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match=f"port: found 'prot'; allowed: {', '.join(SOURCES)}"):
        Layout(name="x", oracles=("x",), problem={"port": "prot"})


# -- the kubeconfig --------------------------------------------------------------------------------


def kubeconfig(directory: Path) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "wrong",
        "contexts": [
            {"name": name, "context": {"cluster": f"c-{name}", "user": f"u-{name}"}}
            for name in ("wrong", "right")
        ],
        "clusters": [
            {"name": f"c-{name}", "cluster": {"server": name, "certificate-authority": "ca.crt"}}
            for name in ("wrong", "right")
        ],
        "users": [{"name": f"u-{name}", "user": {"token": name}} for name in ("wrong", "right")],
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def test_only_the_asked_context_is_passed_on(tmp_path: Path) -> None:
    destination = tmp_path / "own" / "kubeconfig"
    destination.parent.mkdir()
    write_single_context(kubeconfig(tmp_path), "right", destination)
    written = yaml.safe_load(destination.read_text())
    assert written["current-context"] == "right"
    assert [item["name"] for item in written["contexts"]] == ["right"]
    assert written["clusters"] == [
        {
            "name": "c-right",
            "cluster": {"server": "right", "certificate-authority": str(tmp_path / "ca.crt")},
        }
    ]
    assert "wrong" not in destination.read_text()
    assert stat.S_IMODE(destination.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{contexts: 1}", "a: [", "contexts: [{name: right}]"])
def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    source = tmp_path / "config"
    source.write_text(text)
    with pytest.raises(UsageError, match="context right cannot be read"):
        write_single_context(source, "right", tmp_path / "kubeconfig")


def test_a_context_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no left among its contexts"):
        write_single_context(kubeconfig(tmp_path), "left", tmp_path / "kubeconfig")


# -- what is carried -------------------------------------------------------------------------------


class Thing:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def ours(value: Any) -> bool:
    return type(value) is Thing


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    | st.tuples(inner, inner),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), VALUES, max_size=5))
def test_whatever_was_noted_comes_back_exactly(noted: dict[str, Any]) -> None:
    root = Thing(part=Thing(), parts=[Thing()])
    before = snapshot(root, ours)
    vars(root.part).update(noted)
    vars(root.parts[0]).update(noted)
    carried = json.loads(json.dumps(difference(before, root, ours)))
    fresh = Thing(part=Thing(), parts=[Thing()])
    restore(carried, fresh, ours)
    assert vars(fresh.part) == noted
    assert vars(fresh.parts[0]) == noted


def test_what_did_not_change_is_not_carried() -> None:
    root = Thing(a=[1], part=Thing(b={"c": 2}))
    before = snapshot(root, ours)
    assert difference(before, root, ours) == {}
    root.part.b["c"] = 3  # in place
    assert difference(before, root, ours) == {'["part"]': {"b": {"json": {"c": 3}}}}


def test_an_object_that_contains_itself_ends() -> None:
    root = Thing()
    root.itself = root
    before = snapshot(root, ours)
    root.noted = 1
    assert difference(before, root, ours)["[]"]["noted"] == {"json": 1}
