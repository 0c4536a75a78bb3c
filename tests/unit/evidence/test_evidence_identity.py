from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path, PurePosixPath

import pytest
from evidence_doubles import TickingClock, identity

import pytest_sremut
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.identity import (
    _OWN_FILES,
    boot_id,
    file_digests,
    new_session_id,
    product_digest,
    product_facts,
    protocol_facts,
)
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.study.model import Protocol, Workload, WorkloadRequest


def package(directory: Path) -> Path:
    (directory / "sub" / "schemas").mkdir(parents=True)
    (directory / "a.py").write_text("a = 1\n")
    (directory / "sub" / "b.py").write_text("b = 1\n")
    (directory / "sub" / "schemas" / "c.json").write_text("{}\n")
    for name in ("Dockerfile", "rules.yaml", "sub/mix.lua", "sub/types.txt"):
        (directory / name).write_text(f"{name}\n")
    return directory


OWN = (
    "Dockerfile", "a.py", "rules.yaml", "sub/b.py", "sub/mix.lua", "sub/schemas/c.json",
    "sub/types.txt",
)  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_file_that_changes_is_another_product(tmp_path: Path, name: str) -> None:
    base = package(tmp_path / "one")
    digest = product_digest(base)
    (base / name).write_text("another\n")
    assert product_digest(base) != digest


def test_every_file_of_the_package_that_says_what_is_done_is_in_the_digest() -> None:
    base = Path(pytest_sremut.__file__).parent
    for path in base.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.name != "py.typed":
            assert any(path.match(pattern) for pattern in _OWN_FILES), path


def test_the_digest_is_over_path_and_content_of_our_own_files(tmp_path: Path) -> None:
    base = package(tmp_path / "one")
    digest = product_digest(base)
    assert digest == product_digest(package(tmp_path / "two"))
    lines = "".join(
        f"{hashlib.sha256((base / name).read_bytes()).hexdigest()}  {name}\n" for name in OWN
    )
    assert digest == hashlib.sha256(lines.encode()).hexdigest()
    (base / "__pycache__").mkdir()
    (base / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")
    (base / "notes.txt").write_text("x")
    assert product_digest(base) == digest
    (base / "a.py").write_text("a = 2\n")
    assert product_digest(base) != digest


def test_a_file_that_moves_is_another_product(tmp_path: Path) -> None:
    base = package(tmp_path / "one")
    digest = product_digest(base)
    (base / "a.py").rename(base / "z.py")
    assert product_digest(base) != digest


def test_the_product_says_what_it_is() -> None:
    facts = product_facts()
    assert facts["version"] == pytest_sremut.__version__
    assert re.fullmatch("[0-9a-f]{64}", facts["digest"])
    assert facts["digest"] == product_digest()
    assert facts["dependencies"]["pytest"] == pytest.__version__
    canonical_json(facts)


def test_session_ids_sort_by_time_and_differ() -> None:
    clock = TickingClock()
    one, two = new_session_id(clock), new_session_id(clock)
    assert one != two
    assert re.fullmatch(r"20260829T102200Z-[0-9a-f]{6}", one)


def test_the_boot_is_named() -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}|unknown", boot_id())


def test_digests_of_the_studied_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"x")
    digests = file_digests(tmp_path, {"study": PurePosixPath("a.yaml")})
    assert digests == {"study": hashlib.sha256(b"x").hexdigest()}
    with pytest.raises(EvidenceError, match=r"b\.yaml: cannot be read: .*ENOENT"):
        file_digests(tmp_path, {"study": PurePosixPath("b.yaml")})


def test_a_protocol_is_recorded_with_all_its_numbers() -> None:
    protocol = Protocol(
        profile="embedded",
        settle=2.0,
        poll=0.1,
        deploy_timeout=30.0,
        stable_timeout=30.0,
        oracle_timeout=20.0,
        barrier_timeout=10.0,
        sampler_interval=0.25,
        deadlines={"MS-I1": 1.5},
        workload=Workload(
            url="http://x",
            rate=200,
            connections=3,
            threads=3,
            duration=0.5,
            pause=0.05,
            rounds=10,
            timeout=3.0,
            mix=(WorkloadRequest(name="a", path="/a", weight=100),),
        ),
    )
    facts = json.loads(canonical_json(protocol_facts(protocol)))
    assert facts["deadlines"] == {"MS-I1": 1.5}
    assert facts["workload"]["mix"] == [{"name": "a", "path": "/a", "weight": 100}]
    assert facts["sampler_interval"] == 0.25


def test_an_identity_is_json() -> None:
    value = json.loads(canonical_json(identity().as_json()))
    assert value["registration"] == "EXPLORATORY"
    assert value["files"]["contract"] == "1" * 64
