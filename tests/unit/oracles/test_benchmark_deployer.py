"""Deployments by the miniature benchmark's own code, in the process that runs it."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minibench import MINIBENCH, git, make_checkout, pins_of, request

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles.benchmark.checkout import Checkout
from pytest_sremut.oracles.benchmark.deployer import BenchmarkDeployer
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.benchmark.layout import Layout
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.study.names import Instrument

NAMES = ["elsewhere", "half_a_shop", "leaflet", "needy", "shop", "stray"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("bench") / "checkout")


@pytest.fixture
def deployer(checkout: Path) -> Iterator[BenchmarkDeployer]:
    instrument = BenchmarkInstrument(
        Instrument.OWN, directory=checkout, layouts={"minibench": MINIBENCH}
    )
    yield instrument.deployer("minibench")
    instrument.close()


@pytest.fixture
def asked(tmp_path: Path, checkout: Path) -> ReadingRequest:
    return request(tmp_path, pins_of(checkout), OracleNode(id="leaflet", use=""))


def test_it_runs_from_a_copy_that_lasts_and_leaves_the_checkout_alone(
    deployer: BenchmarkDeployer, asked: ReadingRequest, checkout: Path
) -> None:
    first = deployer.operate("deploy", asked, "leaflet")
    assert first["returned"] == {"leaflets": 1}
    assert first["stdout"] == "before []\n"
    # What it wrote beside its files is there for the next call: they are one working copy.
    assert deployer.operate("deploy", asked, "leaflet")["stdout"] == "before ['leaflet.lock']\n"
    assert deployer.operate("remove", asked, "leaflet")["returned"] is None
    assert git(checkout, "status", "--porcelain", "--ignored") == ""


def test_a_namespace_that_is_not_the_studys_is_refused(
    deployer: BenchmarkDeployer, asked: ReadingRequest
) -> None:
    told = "Leaflet deploys into namespace 'till', and the study's is 'shop'"
    with pytest.raises(GuardRefusedError, match=told):
        deployer.operate("deploy", asked, "elsewhere")


def test_what_its_code_raises_is_no_verdict(
    deployer: BenchmarkDeployer, asked: ReadingRequest
) -> None:
    with pytest.raises(HarnessError) as caught:
        deployer.operate("remove", asked, "stray")
    assert str(caught.value) == (
        "remove leaflet: minibench.apps:Leaflet.take_away() of leaflet: SystemExit: 3"
    )


def test_what_hangs_is_ended(checkout: Path, asked: ReadingRequest, tmp_path: Path) -> None:
    directory = make_checkout(tmp_path / "checkout")
    apps = directory / "minibench" / "apps.py"
    apps.write_text(
        "import time\n\n\nclass Leaflet:\n    def deploy(self):\n        time.sleep(60)\n"
    )
    sleepy = dataclasses.replace(MINIBENCH.applications["needy"], needs=())
    layout = dataclasses.replace(MINIBENCH, applications={"sleepy": sleepy})
    git(directory, "add", "-A")
    instrument = BenchmarkInstrument(
        Instrument.OWN, directory=directory, layouts={"minibench": layout}
    )
    try:
        hasty = dataclasses.replace(asked, timeout=0.5)
        with pytest.raises(HarnessError, match=r"did not end within 0\.5 s"):
            instrument.deployer("minibench").operate("deploy", hasty, "sleepy")
    finally:
        instrument.close()


def test_what_it_needs_is_looked_up_beforehand(deployer: BenchmarkDeployer, checkout: Path) -> None:
    pins = pins_of(checkout)
    assert deployer.problem(pins, "needy") == "it needs no-such-program on PATH"
    assert deployer.problem(pins, "leaflet") == ""
    assert deployer.problem(pins, "unborn") == (
        "cannot import minibench.unborn: ModuleNotFoundError: No module named 'minibench.unborn'"
    )


def test_an_application_that_does_not_exist_is_a_mistake_of_the_study(
    deployer: BenchmarkDeployer, asked: ReadingRequest
) -> None:
    allowed = ", ".join(f"minibench:{name}" for name in NAMES)
    with pytest.raises(UsageError, match=f"application: found minibench:x; allowed: {allowed}"):
        deployer.operate("deploy", asked, "x")
    with pytest.raises(UsageError, match="allowed: none of opsgym, whose layout names no"):
        Layout(name="opsgym", oracles=("graders",)).application("x")


def test_a_study_that_pins_nothing_deploys_nothing(
    deployer: BenchmarkDeployer, asked: ReadingRequest
) -> None:
    with pytest.raises(HarnessError, match="the study pins no benchmark"):
        deployer.operate("deploy", dataclasses.replace(asked, benchmark=None), "leaflet")


# -- the copy --------------------------------------------------------------------------------------


def test_a_copy_is_what_git_tracks_with_submodules_links_and_modes(tmp_path: Path) -> None:
    charts = make_checkout(tmp_path / "charts")
    directory = make_checkout(tmp_path / "checkout")
    (directory / "link").symlink_to("README.md")
    (directory / "run").write_text("#!/bin/sh\n")
    (directory / "run").chmod(0o755)
    allowed = ("-c", "protocol.file.allow=always")
    git(directory, *allowed, "submodule", "add", "-q", str(charts), "charts")
    git(directory, *allowed, "submodule", "add", "-q", str(charts), "empty")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "charts")
    git(directory, "submodule", "deinit", "-q", "-f", "empty")
    (directory / "untracked").write_text("")

    copy = tmp_path / "copy"
    Checkout(directory, MINIBENCH).copy_to(copy)
    there = {path.relative_to(copy).as_posix() for path in copy.rglob("*")}
    assert {"link", "run", "minibench/apps.py", "charts/minibench/apps.py", "empty"} <= there
    assert not any(name == "untracked" or ".git/" in name for name in there)
    assert (copy / "link").readlink() == Path("README.md")
    assert (copy / "run").stat().st_mode & 0o111


def test_what_cannot_be_copied_is_told(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Checkout(checkout, MINIBENCH)
    (tmp_path / "taken").write_text("")
    with pytest.raises(HarnessError, match=r"cannot be copied: .*taken"):
        one.copy_to(tmp_path / "taken")

    def fail(command: Any, **_more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 128, "", "fatal: bad index")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(HarnessError, match="cannot be copied: fatal: bad index"):
        one.copy_to(tmp_path / "copy")
