"""A project with one study of the miniature benchmark, and a checkout of that beside it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from quick import MAIN, PROFILE, ROOT
from small import APPLICATION, ask_the_target, small_application, write_application

sys.path.insert(0, str(ROOT / "tests" / "unit" / "support"))

from minibench import make_checkout, pins_of

STUDY = "minibench_study"
SUPPORT = str(ROOT / "tests" / "unit" / "support")
CONFTEST = f"""\
import dataclasses
import sys

sys.path.insert(0, {SUPPORT!r})


def pytest_sremut_oracles(config):
    from minibench import MINIBENCH

    # Imported once, not in every reading.
    warm = ("kubernetes.client:CoreV1Api", "kubernetes.config:load_kube_config")
    return [dataclasses.replace(MINIBENCH, warm=warm)]
"""
A, R = "ACCEPT", "REJECT"
ORACLES = """
  # Reads pods only.
  P1: {use: "minibench:PodsRunning"}
  # Has no attribute to read, and swallows what comes of it.
  E2: {use: "minibench:EndpointsReady", absent: [expected_port], diagnostic: has_ready_port}
  E3: {use: "minibench:EndpointsReady", problem: {expected_port: 9090}, diagnostic: has_ready_port}
  C4: {use: "minibench:All", of: [P1, E3], problem: {expected_port: 9090}}
  M5: {use: "minibench:Meddler"}
"""
SAY = {"P1": (A, A, A), "E2": (R, R, R), "E3": (A, R, A), "C4": (A, R, A), "M5": (A, A, A)}


def make_bench_project(
    directory: Path,
    *,
    oracles: str = ORACLES,
    say: Mapping[str, tuple[str, str, str]] = SAY,
    instruments: str = "[own, pinned]",
    profile: str = PROFILE,
    probes: Sequence[Mapping[str, str]] = (),
    application: str = "",
    small: bool = False,
) -> Path:
    """The project; its checkout is `directory / "checkout"`. The benchmark's `application` is
    deployed by code of its own: the small one, which a study gets as files if `small`."""
    shop = {"namespace": "social-network", "objects": small_application()}
    checkout = make_checkout(directory / "checkout", shop=shop if application else None)
    for name in ("mutants", "contracts"):
        shutil.copytree(ROOT / name, directory / name)
    text = (ROOT / "audits" / MAIN / "study.yaml").read_text()
    begin, end = text.index("instruments: "), text.index("# The application's published load")
    pins = pins_of(checkout)
    files = {name: d for name, d in pins.files.items() if "twice" not in name}
    section = {
        "name": "minibench",
        "commit": pins.commit,
        "files": files,
        "problem_class": "GoneService",
        **({"probes": list(probes)} if probes else {}),
    }
    text = (
        text[:begin]
        + yaml.safe_dump({"benchmark": section})
        + f"instruments: {instruments}\noracles:{oracles}\nonly: [MS-M01]\n"
        + text[end:].replace("\n  kind:\n", f"\n{profile}  kind:\n")
    )
    text = text.replace(MAIN, STUDY).replace("repetitions: 3", "repetitions: 1")
    text = text.replace(f"contracts/{STUDY}", f"contracts/{MAIN}")
    if application:
        text = text.replace("demo:social-network", f"minibench:{application}")
    if small:
        text = text.replace("demo:social-network", f"manifests:{APPLICATION}")
        write_application(directory, small_application())
    place = directory / "audits" / STUDY
    place.mkdir(parents=True)
    (place / "study.yaml").write_text(text)
    if application or small:
        ask_the_target(place / "study.yaml")
    states = ("healthy", "faulted", "restored")
    violated = ["MS-I1", "MS-I2", "MS-I3", "MS-I4", "MS-I6"]
    predictions = {
        "schema": "sremut/predictions/v1",
        "study": STUDY,
        "oracles": {
            "MS-M01": {
                state: {name: verdicts[i] for name, verdicts in say.items()}
                for i, state in enumerate(states)
            }
        },
        "contract": {
            "MS-M01": {
                "healthy": {"verdict": "PASS"},
                "faulted": {"verdict": "REJECT", "violated": violated},
                "restored": {"verdict": "PASS"},
            }
        },
    }
    (place / "predictions.yaml").write_text(yaml.safe_dump(predictions))
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "conftest.py").write_text(CONFTEST)
    return directory
