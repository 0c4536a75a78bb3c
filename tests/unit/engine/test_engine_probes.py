"""Which pods are a probe's: the barrier waits for them, and they are not the application."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from pytest_sremut.engine.own_pods import ROLE_LABEL, is_probe
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study

ROOT = Path(__file__).resolve().parents[3]
CHECK = {"app": "service-connectivity-check"}


def study(*probes: Mapping[str, str]) -> Study:
    loaded = load_study(ROOT, PurePosixPath("audits/sregym_missing_service_fix/study.yaml"))
    assert loaded.benchmark is not None
    assert loaded.benchmark.probes == ()
    return dataclasses.replace(
        loaded, benchmark=dataclasses.replace(loaded.benchmark, probes=probes)
    )


PLAIN = study()
OWN = load_study(ROOT, PurePosixPath("audits/missing_service_social_network/study.yaml"))
TWO = study({"app": "dns-readiness-check"}, {"role": "check", "of": "opsgym"})


@pytest.mark.parametrize("of", [PLAIN, OWN, TWO], ids=["plain", "without a benchmark", "named"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (CHECK, True),
        ({**CHECK, "more": "x"}, True),
        ({ROLE_LABEL: "load"}, True),
        ({"app": "user-service"}, False),
        ({"service-connectivity-check": "app"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_ours_and_the_endpoint_oracles_are_always_known(
    of: Study, labels: Mapping[str, str] | None, expected: bool
) -> None:
    assert is_probe({"metadata": {"labels": labels}}, of) is expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"app": "dns-readiness-check"}, True),
        ({"role": "check", "of": "opsgym", "app": "x"}, True),
        ({"role": "check"}, False),
        ({"of": "opsgym"}, False),
    ],
)
def test_a_study_names_others_by_all_of_their_labels(
    labels: Mapping[str, str], expected: bool
) -> None:
    assert is_probe({"metadata": {"labels": labels}}, TWO) is expected
    assert is_probe({"metadata": {"labels": labels}}, PLAIN) is False
