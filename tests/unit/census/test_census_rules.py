"""Rules as data: schemas, digest, and what each rule of the verdict says."""

# ruff: noqa: E501 - one case of a table is one line

from __future__ import annotations

import importlib.resources

import pytest

from pytest_sremut.census.judge.surfaces import Recycle, Side
from pytest_sremut.census.judge.verdicts import judge
from pytest_sremut.census.model import (
    Channel,
    Observation,
    Perturbation,
    Place,
    Reason,
    Trail,
    Verdict,
)
from pytest_sremut.census.rules import rules_from, shipped_rules
from pytest_sremut.errors import InputError

RULES = shipped_rules()
HERE = Place("a.py", 1)
TEMPLATE = "spec.template.spec."


def texts() -> dict[str, bytes]:
    folder = importlib.resources.files("pytest_sremut.census").joinpath("rules")
    names = ("words", "modules", "verdicts")
    return {name: folder.joinpath(f"{name}.yaml").read_bytes() for name in names}


def look(
    kind: str, *fields: str, channel: Channel = Channel.API, namespace: str = "x"
) -> Observation:
    return Observation(
        channel=channel, kind=kind, namespace=namespace, name="", fields=fields, place=HERE
    )


def change(kind: str, *fields: str, verb: str = "update", **given: str) -> Perturbation:
    return Perturbation(
        verb=verb, kind=kind, namespace="x", name="a", fields=fields, place=HERE, via="api", **given
    )


PODS = look("Pod", "status.containerStatuses[].ready")
DEPLOYMENTS = look("Deployment", "spec.replicas", "status.readyReplicas")
ALERTS = look("METRICS", "wget", channel=Channel.METRICS)
IMAGE = change("Deployment", f"{TEMPLATE}containers[].image")
NODE = change("Deployment", f"{TEMPLATE}nodeSelector")


def verdict(
    seen: list[Observation],
    *changes: Perturbation,
    recycles: tuple[Recycle, ...] = (),
    window: bool = True,
    aspects: frozenset[str] = frozenset(),
) -> tuple[str, str]:
    result = judge(
        seen,
        Side(perturbations=changes, recycles=recycles),
        [],
        [],
        rules=RULES,
        aspects=aspects,
        has_window=window,
    )
    return result.verdict.value, result.rule


@pytest.mark.parametrize(
    ("seen", "changes", "expected"),
    [
        ([look("Service", "spec.ports[].port")], [change("Service", "spec.selector")], ("ADEQUATE", "direct")),
        ([PODS, DEPLOYMENTS], [change("Service", verb="delete")], ("BLIND", "nothing-sees-it")),
        ([look("Endpoints", "subsets")], [change("Service", verb="delete")], ("ADEQUATE", "derived-kind")),
        ([look("DNS", "nslookup", channel=Channel.DNS)], [change("Service", verb="delete")], ("ADEQUATE", "signal")),
        ([look("DNS", "nslookup", channel=Channel.DNS)], [change("Service", "spec.selector")], ("BLIND", "nothing-sees-it")),
        ([look("Workload", channel=Channel.WORKLOAD)], [change("Service", verb="delete")], ("UNCERTAIN", "undecided")),
        ([DEPLOYMENTS], [IMAGE], ("ADEQUATE", "own-status")),
        ([look("Deployment", f"{TEMPLATE}containers[].image")], [IMAGE], ("ADEQUATE", "direct")),
        ([look("Deployment", f"{TEMPLATE}containers[].name")], [NODE], ("BLIND", "nothing-sees-it")),
        ([look("Deployment", "status.readyReplicas", namespace="y")], [IMAGE], ("BLIND", "nothing-sees-it")),
        ([PODS], [NODE], ("ADEQUATE", "watched-pods")),
        ([DEPLOYMENTS], [change("Deployment", f"{TEMPLATE}nodeSelector", settled="a.py:9")], ("BLIND", "nothing-sees-it")),
        ([DEPLOYMENTS], [change("Deployment", f"{TEMPLATE}containers[].livenessProbe", settled="a.py:9")], ("ADEQUATE", "own-status")),
        ([DEPLOYMENTS], [change("HelmRelease", "values.tls")], ("BLIND", "nothing-sees-it")),
        ([look("EXEC", "psql", channel=Channel.EXEC)], [change("EXEC", "psql", verb="exec")], ("ADEQUATE", "same-program")),
        ([DEPLOYMENTS], [change("EXEC", "bash", verb="exec")], ("UNCERTAIN", "undecided")),
        ([look("METRICS", "resource-usage", channel=Channel.METRICS)], [change("DaemonSet", f"{TEMPLATE}containers[].image")], ("BLIND", "nothing-sees-it")),
        ([DEPLOYMENTS], [change("Deployment", "spec.replicas", dropped="recycled")], ("UNCERTAIN", "nothing-perturbed")),
    ],
)  # fmt: skip
def test_one_look_at_one_change(
    seen: list[Observation], changes: list[Perturbation], expected: tuple[str, str]
) -> None:
    assert verdict(seen, *changes) == expected


def test_pods_at_one_instant_are_no_look_at_their_workload() -> None:
    assert verdict([PODS], NODE, window=False) == ("BLIND", "nothing-sees-it")


def test_alerts_see_the_aspects_that_the_checkout_has_rules_for() -> None:
    flag = change("ConfigMap", "data.f.json.flags.cartFailure.defaultVariant")
    assert verdict([ALERTS], flag, aspects=frozenset({"errors"})) == ("ADEQUATE", "signal")
    assert verdict([ALERTS], flag, aspects=frozenset({"latency"})) == ("UNCERTAIN", "undecided")


def test_what_is_recycled_after_its_need_was_taken_shows_it() -> None:
    gone = change("ConfigMap", verb="delete")
    recycle = Recycle(kind="Deployment", namespace="x", name="a", place=HERE, order=2, settled="")
    assert verdict([DEPLOYMENTS], gone, recycles=(recycle,)) == ("ADEQUATE", "recycled-status")
    settled = Recycle(
        kind="Deployment", namespace="x", name="a", place=HERE, order=2, settled="a:3"
    )
    assert verdict([DEPLOYMENTS], gone, recycles=(settled,)) == ("BLIND", "nothing-sees-it")


def test_a_trail_makes_blindness_uncertain_and_leaves_adequacy() -> None:
    trail = Trail(reason=Reason.EXTERNAL_CALL, place=Place("b.py", 7), what="lib.call")
    for changes, expected in (
        ([change("Service", verb="delete")], Verdict.UNCERTAIN),
        ([IMAGE], Verdict.ADEQUATE),
    ):
        result = judge(
            [PODS, DEPLOYMENTS],
            Side(perturbations=changes),
            [],
            [trail],
            rules=RULES,
            aspects=frozenset(),
            has_window=True,
        )
        assert result.verdict is expected
        if expected is Verdict.UNCERTAIN:
            assert (result.reason, result.trail_end) == (Reason.EXTERNAL_CALL, Place("b.py", 7))


def test_the_digest_is_of_the_rules_and_not_of_their_comments() -> None:
    given = texts()
    given["verdicts"] = b"# another comment\n" + given["verdicts"]
    assert rules_from(given).digest == RULES.digest
    given["verdicts"] = given["verdicts"].replace(b"stops: true", b"stops: false", 1)
    assert rules_from(given).digest != RULES.digest


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("verdicts", b"breaks: [DNS, TCP, HTTP]", b"breaks: [SMELL]", "SMELL"),
        ("verdicts", b"stops: true", b"stop: true", "unknown key"),
        ("verdicts", b"fields: '^data", b"fields: '^(data", "data"),
        ("words", b"readers:", b"viewers:", "unknown key"),
        ("modules", b"  - abc\n", b"  - abc\n  - abc\n", "the same entry twice"),
    ],
)
def test_rules_that_are_not_allowed(name: str, old: bytes, new: bytes, found: str) -> None:
    given = texts()
    assert old in given[name]
    given[name] = given[name].replace(old, new, 1)
    with pytest.raises(InputError, match=found):
        rules_from(given)
