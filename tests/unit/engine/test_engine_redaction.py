"""Secrets in every place that a run looks at: none of them in any file, message or mark of it."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from engine_world import EngineWorld, small_application
from fake_kube import FakeKube
from world import NS

from pytest_sremut.cluster.port import ExecResult, Failed
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.ground.durable import text_redaction
from pytest_sremut.oracles.oracle_port import Raised, Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import Outcome, State, Verdict

CANARY = "canary-7Qx41zPw0sLk93"
"""In places that rules or patterns know."""

KNOWN = "kNow+n/9f3b2c7a5e1d=&"
"""In places that nobody could guess; what gives it away is this process's environment."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(text_redaction._Known, "values", frozenset())
    monkeypatch.setattr(text_redaction._Known, "forms", ())
    monkeypatch.setenv("SESSION_SERVICE_TOKEN", KNOWN)
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = EngineWorld(tmp_path / "evidence")
    world.hooks.append(lambda what, body: _plant(world.kube, what, body))
    yield world
    world.stop()


def _plant(kube: FakeKube, what: str, body: Mapping[str, Any]) -> None:
    """What others have written into the objects of the application."""
    kind, name = body["kind"], body["metadata"]["name"]
    if what == "create Namespace":
        kube.put({"kind": "ConfigMap", "metadata": {"name": "c", "namespace": NS}, "data": _data()})
        kube.change("Node", "", "node-1", metadata__annotations={"vendor.example/join": CANARY})
    if what == "create Service":
        annotations = {
            LAST_APPLIED: json.dumps({"kind": "Secret", "data": {"x": CANARY}}),
            "vendor.example/api-token": CANARY,
            "vendor.example/note": f"uses {KNOWN}",
        }
        kube.change(kind, NS, name, metadata__annotations=annotations)
        kube.change(kind, NS, name, metadata__labels={"vendor.example/auth-token": CANARY})
    if what in {"create Deployment", "delete Pod"}:
        for key in [key for key in kube.objects if key[0] == "Pod" and key[1] == NS]:
            kube.change(*key, spec=_pod_spec(), metadata__annotations={"notes": CANARY})


def _data() -> dict[str, str]:
    return {"config.yaml": f"mongodb://admin:{CANARY}@db", "plain": CANARY}


def _pod_spec() -> dict[str, Any]:
    return {
        "containers": [
            {
                "name": "main",
                "command": ["serve", CANARY],
                "env": [
                    {"name": "PORT", "value": "9090"},
                    {"name": "DB_PASSWORD", "value": CANARY},
                    {"name": "SALT", "value": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5"},
                    {"name": "PEPPER", "value": KNOWN},
                    {
                        "name": "FROM",
                        "value": CANARY,
                        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                    },
                ],
            }
        ]
    }


def _ways_to_write(secret: str) -> str:
    data = secret.encode()
    halves = f"{secret[:9]}\n{secret[9:]}"
    encoded = [base64.b64encode(b"x" * n + data).decode() for n in range(3)]
    return " ".join([secret, quote(secret, safe=""), json.dumps(secret), halves, *encoded])


def _says_too_much(request: ReadingRequest, reading: Reading) -> Reading:
    returned = {
        **reading.returned,
        "token": CANARY,
        "password": {"of": ["db", CANARY]},
        "log": f"Authorization: Bearer {CANARY}\n{_ways_to_write(KNOWN)}",
        "objects": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": _data()},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": _data()},
        ],
        "printed": f"kind: Secret\ndata:\n  k: {CANARY}\n  l: {CANARY}\nmetadata: {{}}\n",
    }
    return dataclasses.replace(
        reading,
        returned=returned,
        stdout=f"GH_TOKEN={CANARY}\n{KNOWN}",
        stderr=_ways_to_write(KNOWN),
    )


def _raises(request: ReadingRequest, reading: Reading) -> Reading:
    text = f"401 for https://admin:{CANARY}@registry/v2, {_ways_to_write(KNOWN)}"
    raised = Raised(type="requests.HTTPError", message=text, traceback=f"File x\n{text}")
    return dataclasses.replace(
        reading, verdict=Verdict.ERROR, returned=None, exception=raised, reason=text
    )


def leaks(world: EngineWorld, *texts: str) -> list[str]:
    """Where a secret stands, in whatever form."""
    told = {str(n): text.encode() for n, text in enumerate((*texts, *world.marks))}
    files = {str(path): path.read_bytes() for path in world.directory.rglob("*") if path.is_file()}
    forms = {form.encode() for value in (CANARY, KNOWN) for form in text_redaction._forms(value)}
    forms |= {CANARY[:12].encode(), KNOWN[:9].encode(), KNOWN[9:].encode(), b"Zm9vYmFyYmF6cXV4"}
    return [
        f"{name}: {form!r}"
        for name, data in {**files, **told}.items()
        for form in sorted(forms)
        if form in data
    ]


def test_no_secret_of_the_cluster_or_of_a_grader_is_kept(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for instrument in world.instruments:
        instrument.change = _says_too_much
    real_exec, real_log = world.kube.on_exec, world._log
    assert real_exec is not None

    def talkative(namespace: str, pod: str, argv: Sequence[str]) -> ExecResult | Failed:
        found = real_exec(namespace, pod, argv)
        assert isinstance(found, ExecResult)
        return dataclasses.replace(found, stderr=f"api_key={CANARY} {KNOWN}")

    def logged(rounds: int, duration: float) -> bytes:
        log = real_log(rounds, duration)
        stamp, _, _ = log.partition(b" ")
        noise = f"Cookie: session={CANARY}\n{_ways_to_write(KNOWN)}\n".encode()
        return b"".join(stamp + b" " + line for line in noise.splitlines(keepends=True)) + log

    world.kube.on_exec = talkative
    monkeypatch.setattr(world, "_log", logged)
    driver = world.driver("MS-M02")
    for state in State:
        driver.state(state)
    assert driver.outcome is Outcome.COMPLETE
    assert leaks(world) == []
    record = load_attempt(driver.attempt.directory)
    assert record.problems == ()
    # What a reader needs stands there all the same.
    raw = driver.attempt.directory / "raw"
    service = json.loads((raw / "captured-target.json").read_text())
    assert service["spec"]["selector"] == {"service": "user-service"}
    assert service["spec"]["ports"][0]["targetPort"] == 9090
    assert service["metadata"]["annotations"]["vendor.example/note"] == "uses [redacted]"
    pods = json.loads((raw / "healthy-before-oracle-pod.json").read_text())["items"]
    env = {item["name"]: item for item in pods[0]["spec"]["containers"][0]["env"]}
    assert env["PORT"]["value"] == "9090"
    assert env["FROM"]["valueFrom"] == {"secretKeyRef": {"name": "s", "key": "k"}}
    reading = json.loads((raw / "healthy-O1-in-process.json").read_text())
    assert reading["returned"]["success"] is True
    assert [item["metadata"]["name"] for item in reading["returned"]["objects"]] == ["s", "c"]


def test_no_secret_of_an_exception_is_kept_or_told(world: EngineWorld) -> None:
    world.instruments[1].change = _raises
    driver = world.driver("MS-M01")
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.HEALTHY)
    assert caught.value.outcome is Outcome.STOPPED_AT_HEALTHY_GATE
    assert "401 for https://[redacted]@registry/v2" in caught.value.reason
    assert leaks(world, str(caught.value)) == []


def test_no_secret_of_a_mistake_of_ours_is_kept(world: EngineWorld) -> None:
    def fails(request: ReadingRequest) -> None:
        raise ZeroDivisionError(f"password={CANARY} {KNOWN}")

    world.instruments[0].before = fails
    driver = world.driver("MS-M01")
    with pytest.raises(ZeroDivisionError):
        driver.state(State.HEALTHY)
    record = json.loads((driver.attempt.directory / "record.json").read_text())
    assert "ZeroDivisionError" in record["facts"]["traceback"]
    # The traceback quotes this file's own line, which holds no secret but the pattern of one.
    assert leaks(world) == []
