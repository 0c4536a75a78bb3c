from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from study_project import CONTRACT, MUTANTS, PREDICTIONS, REPOSITORY, STUDY, Edit

from pytest_sremut.engine.own_pods import PROBE, image_of
from pytest_sremut.errors import InputError
from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import ContractVerdict, State, Verdict


def refused(root: Path, file: PurePosixPath = STUDY) -> InputError:
    with pytest.raises(InputError) as caught:
        load_study(root, file)
    return caught.value


# -- the shipped studies -----------------------------------------------------------------------


def test_the_shipped_study(study: Study) -> None:
    assert [mutant.slug for mutant in study.mutants] == ["ms-m01", "ms-m02", "ms-m03"]
    assert [oracle.id for oracle in study.oracles] == ["O1", "O3", "O4"]
    assert study.oracle("O3").problem == {"expected_service_port": 9090}
    assert study.oracle("O4").of == ("O1", "O3")
    assert {oracle.instruments for oracle in study.oracles} == {("in-process", "isolated")}
    assert study.states == tuple(State)
    assert study.target.workload_name == "user-service"
    assert study.frozen == {
        "study": STUDY,
        "mutants": MUTANTS,
        "contract": CONTRACT,
        "predictions": PREDICTIONS,
    }


def test_the_profiles_are_complete_and_different(study: Study) -> None:
    embedded, kind = study.profiles["embedded"], study.profiles["kind"]
    assert (embedded.settle, kind.settle) == (2.0, 60.0)
    assert (embedded.poll, kind.poll) == (0.1, 2.0)
    assert embedded.deadlines == {"MS-I1": 1.5, "MS-I2": 1.5, "MS-I3": 1.5, "MS-I6": 8.0}
    assert kind.deadlines == {}
    assert (kind.workload.rate, kind.workload.duration, kind.workload.pause) == (100, 10.0, 1.0)
    assert embedded.workload.mix == kind.workload.mix
    assert embedded.workload.rounds == kind.workload.rounds == 10


def test_which_profile_a_session_uses(study: Study) -> None:
    assert [study.profile_for(kind) for kind in ("embedded", "kind")] == ["embedded", "kind"]
    assert study.profile_for("context") == "kind"
    own = replace(study, profiles={**study.profiles, "context": study.profiles["kind"]})
    assert own.profile_for("context") == "context"
    for kind in ("embedded", "kind", "context"):
        assert own.profile_for(kind, "embedded") == "embedded"


def test_the_contract_is_the_published_one(study: Study) -> None:
    deadlines = {one.id: one.deadline for one in study.contract.invariants}
    assert deadlines == {**{f"MS-I{n}": 30.0 for n in range(1, 6)}, "MS-I6": 120.0}
    assert study.contract.poll == 2.0
    assert study.contract.invariant("MS-I2").parameters == {"connect_timeout": 3.0}
    assert study.contract.invariant("MS-I4").parameters["minimum_requests"] == 50
    assert study.contract.invariant("MS-I6").parameters["again"] == [
        "MS-I1", "MS-I2", "MS-I3", "MS-I4",
    ]  # fmt: skip


def test_the_predictions_are_the_published_ones(study: Study) -> None:
    predictions = study.predictions
    assert predictions is not None
    assert len(predictions.oracles) == 27
    for (_, state, oracle), verdict in predictions.oracles.items():
        blind = oracle == "O1" or state is not State.FAULTED
        assert verdict is (Verdict.ACCEPT if blind else Verdict.REJECT)
    violated = {
        mutant: {name.removeprefix("MS-") for name in names}
        for (mutant, state), (verdict, names) in predictions.contract.items()
        if state is State.FAULTED and verdict is ContractVerdict.REJECT
    }
    assert violated == {
        "MS-M01": {"I1", "I2", "I3", "I4", "I6"},
        "MS-M02": {"I2", "I3", "I4", "I6"},
        "MS-M03": {"I2", "I4", "I6"},
    }
    controls = {
        verdict
        for (_, state), verdict in predictions.contract.items()
        if state is not State.FAULTED
    }
    assert controls == {(ContractVerdict.PASS, frozenset())}
    assert {one.mutant for one in predictions.quantities} == {"", "MS-M01", "MS-M02", "MS-M03"}
    assert predictions.falsification[0]["then"] == "prediction-falsified"


def test_the_second_study_differs_only_in_its_mutant(study: Study) -> None:
    other = load_study(
        REPOSITORY, PurePosixPath("audits/pinned_endpoints_social_network/study.yaml")
    )
    assert other.contract == study.contract
    assert other.profiles == study.profiles
    assert other.oracles == study.oracles
    assert other.target == study.target
    assert other.registry.captured == study.registry.captured
    assert [mutant.id for mutant in other.mutants] == ["MS-M04"]
    assert other.predictions is not None
    assert set(other.predictions.oracles.values()) == {Verdict.ACCEPT}
    assert other.predictions.contract["MS-M04", State.FAULTED] == (
        ContractVerdict.REJECT,
        frozenset({"MS-I6"}),
    )


def test_the_reference_is_the_object_that_the_application_brings(study: Study) -> None:
    from pytest_sremut.demo.manifests import manifests

    (service,) = [
        body
        for body in manifests("social-network")
        if body["kind"] == "Service" and body["metadata"]["name"] == "user-service"
    ]
    captured = study.registry.captured
    assert captured["metadata"] == service["metadata"]
    assert {key: captured["spec"][key] for key in service["spec"]} == service["spec"]


# -- what may be left out ------------------------------------------------------------------------


def test_a_study_without_predictions_has_none(edit: Edit) -> None:
    root = edit(STUDY, f"predictions: {PREDICTIONS}\n", "")
    study = load_study(root, STUDY)
    assert study.predictions is None
    assert set(study.frozen) == {"study", "mutants", "contract"}


def test_a_study_may_run_some_mutants_of_a_registry(edit: Edit) -> None:
    edit(STUDY, f"predictions: {PREDICTIONS}\n", "")
    root = edit(STUDY, "states: [", "only: [MS-M03, MS-M01]\nstates: [")
    assert [mutant.id for mutant in load_study(root, STUDY).mutants] == ["MS-M01", "MS-M03"]


def test_an_oracle_may_have_instruments_of_its_own(edit: Edit) -> None:
    root = edit(
        STUDY,
        'O1: {use: "reference:pods-and-deployments"}',
        'O1: {use: "python:my.graders:Strict", arguments: {x: [1]}, instruments: [isolated]}',
    )
    oracle = load_study(root, STUDY).oracle("O1")
    assert oracle.use == "python:my.graders:Strict"
    assert oracle.arguments == {"x": [1]}
    assert oracle.instruments == ("isolated",)


def test_a_profile_without_poll_takes_the_contracts(edit: Edit) -> None:
    root = edit(STUDY, "    poll: 2s\n", "")
    assert load_study(root, STUDY).profiles["kind"].poll == 2.0


DIGEST = "ghcr.io/example/wrk2@sha256:" + "0" * 64


def test_a_profile_may_name_its_images(edit: Edit, study: Study) -> None:
    named = f"    settle: 60s\n    images: {{demo: 'r.io:5000/demo:1', load: '{DIGEST}'}}\n"
    found = load_study(edit(STUDY, "    settle: 60s\n", named), STUDY).profiles["kind"]
    assert found.images == {"demo": "r.io:5000/demo:1", "load": DIGEST}
    assert image_of(found, "load") == DIGEST
    assert image_of(found, "probe") == image_of(study.profiles["kind"], "probe") == PROBE


@pytest.mark.parametrize("image", ["demo", "Demo:1", "demo@sha256:12", "a b:1", "x:1\\n"])
def test_an_image_that_is_none(edit: Edit, image: str) -> None:
    named = f'    settle: 60s\n    images: {{load: "{image}"}}\n'
    told = str(refused(edit(STUDY, "    settle: 60s\n", named)))
    assert "profiles.kind.images.load" in told
    assert "allowed: an image by digest, NAME@sha256:DIGEST, or by name and tag, NAME:TAG" in told


# -- mistakes --------------------------------------------------------------------------------------

O1 = 'O1: {use: "reference:pods-and-deployments"}'


@pytest.mark.parametrize(
    ("file", "old", "new", "place", "found", "allowed"),
    [
        # the study
        (STUDY, "id: missing_service_social_network", "id: other", "id (line", "other",
         "missing_service_social_network, the name of its directory"),
        (STUDY, "demo:social-network", "demo:hotel", "application", "demo:hotel",
         "demo:social-network"),
        (STUDY, "demo:social-network", "manifests:../x", "application", "manifests:../x",
         "inside the project"),
        (STUDY, "fault: delete-service-and-recycle-pods", "fault: unplug", "fault", "unplug",
         "delete-service-and-recycle-pods"),
        (STUDY, "name: user-service", "name: media-service", "mutants", "Service user-service",
         "Service media-service"),
        (STUDY, "port: 9090}\nfault", "port: 9091}\nfault", "target.port", "9091", "a port of"),
        (STUDY, "states: [healthy, faulted, restored]", "states: [faulted, healthy, restored]",
         "states", "[faulted, healthy, restored]", "in this order"),
        (STUDY, "states: [healthy, faulted, restored]", "states: [healthy, faulted]",
         "states", "[healthy, faulted]", "all three"),
        (STUDY, "repetitions: 3", "repetitions: 0", "repetitions", "0", "1 or more"),
        (STUDY, "repetitions: 3", "repetitions: 3.0", "repetitions", "3.0", "a whole number"),
        (STUDY, "schedule: round-robin", "schedule: random", "schedule", "random", "round-robin"),
        (STUDY, "states: [", "only: [MS-M09]\nstates: [", "only[0]", "MS-M09", "MS-M01"),
        # oracles
        (STUDY, O1, 'O1: {use: "reference:pods"}', "oracles.O1.use", "reference:pods",
         "reference:pods-and-deployments"),
        (STUDY, O1, "O1: {use: nothing}", "oracles.O1.use", "nothing", "python:package"),
        (STUDY, O1, "O1: {use: all-of}", "oracles.O1", "no key of", "required"),
        (STUDY, O1, "O1: {use: all-of, of: []}", "oracles.O1.of", "0 entries", "1 or more"),
        (STUDY, O1, "O1: {use: all-of, of: [O9]}", "oracles.O1.of[0]", "O9", "O3, O4"),
        (STUDY, O1, "O1: {use: all-of, of: [O1]}", "oracles.O1.of[0]", "O1", "O3, O4"),
        (STUDY, O1, "O1: {use: all-of, of: [O4]}", "oracles.O1.of", "a cycle among O1, O4",
         "do not contain themselves"),
        (STUDY, O1, 'O1: {use: "python:a.b:C", of: [O3]}', "oracles.O1.of", "`of` beside",
         "all-of"),
        (STUDY, O1, O1 + '\n  o1: {use: "sregym:X"}', "oracles.o1", "o1", "more than case"),
        (STUDY, O1, O1 + '\n  Contract: {use: "sregym:X"}', "oracles.Contract", "Contract",
         "none of"),
        (STUDY, O1, O1 + '\n  O-5: {use: "sregym:X"}', "oracles.O-5", "key text 'O-5'",
         "letters, digits and underscores"),
        (STUDY, "{expected_service_port: 9090}", "{expected_service_port: 0}",
         "oracles.O3.problem.expected_service_port", "0", "a port"),
        (STUDY, "instruments: [in-process, isolated]", "instruments: [by-hand]",
         "instruments[0]", "by-hand", "in-process, isolated, own, pinned"),
        # profiles and workload
        (STUDY, "    settle: 60s\n", "", "profiles.kind", "no key settle", "required"),
        (STUDY, "MS-I6: 8s", "MS-I7: 8s", "profiles.embedded.deadlines.MS-I7", "MS-I7", "MS-I1"),
        (STUDY, "{rate: 100, duration: 10s, pause: 1s, timeout: 10s}", "{rate: 100}",
         "profiles.kind.workload", "no duration", "complete"),
        (STUDY, "weight: 60", "weight: 61", "workload.mix", "sum to 101", "100"),
        (STUDY, "name: read-user-timeline", "name: read-home-timeline", "workload.mix[1].name",
         "a second time", "once"),
        (STUDY, "threads: 3", "threads: 4", "workload.threads", "4 threads for 3", "one thread"),
        (STUDY, "rounds: 10", "rounds: 9", "workload.rounds", "9", "at least 10"),
        (STUDY, "rate: 100, duration: 1s,", "rate: 2, duration: 1s,",
         "profiles.embedded.workload", "a window of 20 requests", "50 that MS-I4 needs"),
        (STUDY, "duration: 1s,", "duration: 0ms,", "profiles.embedded.workload.duration", "0ms",
         "more than 0s"),
        (STUDY, "poll: 100ms", "poll: on", "profiles.embedded.poll", "`on`", "quotes"),
        # files
        (STUDY, f"contract: {CONTRACT}", "contract: contracts/none.yaml", "", "no such file",
         "readable"),
        (STUDY, f"contract: {CONTRACT}", "contract: ../c.yaml", "", "out of the project",
         "inside the project"),
        # mutants
        (MUTANTS, "value: 65535", "value: 9090", "mutants[2].differs", "/spec/ports/0/targetPort",
         "nothing"),
        (MUTANTS, "differs: [/spec/selector]", "differs: [/spec/ports]", "mutants[1].differs",
         "/spec/ports", "/spec/selector"),
        (MUTANTS, "path: /spec/selector,", "path: /spec/selectors,", "mutants[1]", "does not apply",
         "RFC 6902"),
        (MUTANTS, "[service-absent]", "[service-gone]", "mutants[0].activation[0]",
         "service-gone", "service-absent"),
        (MUTANTS, "[service-absent]", "[selector-exact]", "mutants[0].activation",
         "[selector-exact]", "service-absent for an absent mutant"),
        (MUTANTS, "activation: [selector-exact, ports-exact,", "activation: [service-absent,",
         "mutants[2].activation", "service-absent", "for no other"),
        (MUTANTS, "activation: [selector-exact, ports-exact,",
         "activation: [endpoints-pinned, ports-exact,", "mutants[2].activation",
         "endpoints-pinned", "`creates`"),
        (MUTANTS, "id: MS-M02", "id: ms-M01", "mutants[1].id", "named like those of MS-M01",
         "more than case"),
        (MUTANTS, "id: MS-M02", "id: MS M02", "mutants[1].id", "'MS M02'", "hyphens"),
        (MUTANTS, "absent: true", "absent: yes", "mutants[0].absent", "`yes`", "true, false"),
        (MUTANTS, "absent: true", "absent: false", "mutants[0].absent", "false", "true"),
        (MUTANTS, "absent: true", "absent: true\n    differs: [/spec]", "mutants[0].differs",
         "has no place here", "nothing beside"),
        (MUTANTS, "    name: user-service\n", "    name: user-service\n    uid: x\n", "captured",
         "/metadata/uid", "without them"),
        (MUTANTS, "{op: replace, path: /spec/selector,", "{op: replace, pth: /spec/selector,",
         "mutants[1].patch[0].pth", "unknown key", "did you mean path"),
        # the contract
        (CONTRACT, "check: service-identity", "check: service", "invariants[0].check", "service",
         "service-identity"),
        (CONTRACT, "id: MS-I2", "id: MS-I1", "invariants[1].id", "MS-I1 a second time", "once"),
        (CONTRACT, "again: [MS-I1,", "again: [MS-I6,", "invariants[5].parameters.again[0]",
         "MS-I6", "MS-I1, MS-I2"),
        (CONTRACT, "poll: 2s", "poll: 0s", "poll", "0s", "more than 0s"),
        (CONTRACT, "connect_timeout: 3s", "connect_timeout: 3",
         "invariants[1].parameters.connect_timeout", "3",
         "a duration"),
        # predictions
        (PREDICTIONS, "study: missing_service_social_network", "study: other", "study", "other",
         "missing_service_social_network"),
        (PREDICTIONS, "  MS-M01:\n    healthy: {O1", "  MS-M07:\n    healthy: {O1",
         "oracles.MS-M07", "MS-M07", "MS-M01, MS-M02, MS-M03"),
        (PREDICTIONS, "violated: [MS-I2, MS-I4, MS-I6]", "violated: [MS-I2, MS-I9]",
         "contract.MS-M03.faulted.violated[1]", "MS-I9", "MS-I1"),
        (PREDICTIONS, "{verdict: REJECT, violated: [MS-I2, MS-I4, MS-I6]}", "{verdict: REJECT}",
         "contract.MS-M03.faulted", "no key violated", "required"),
        (PREDICTIONS, "{verdict: REJECT, violated: [MS-I2, MS-I4, MS-I6]}",
         "{verdict: PASS, violated: [MS-I2]}", "contract.MS-M03.faulted.violated",
         "has no place here", "nothing beside"),
        (PREDICTIONS, "id: Q2", "id: Q1", "quantities[1].id", "Q1 a second time", "once"),
        (PREDICTIONS, "mutant: MS-M01, state: faulted", "mutant: MS-M9, state: faulted",
         "quantities[2].mutant", "MS-M9", "MS-M01"),
        (PREDICTIONS, "mutant: MS-M01, state: faulted", "state: faulted", "quantities[2]",
         "no mutant in the faulted state", "control"),
        (PREDICTIONS, "measure: retained_percent, expected: 26,", "measure: latency, expected: 26,",
         "quantities[4].measure", "latency", "retained_percent"),
        (PREDICTIONS, "14,\n     profile: embedded", "14,\n     profile: quick",
         "quantities[4].profile", "quick", "embedded, kind"),
        (PREDICTIONS, "id: F9", "id: F1", "falsification[8].id", "F1 a second time", "once"),
        (PREDICTIONS, "{grader: O4,", "{grader: O9,", "falsification[4].when.grader", "O9",
         "O1, O3, O4, contract, any"),
        (PREDICTIONS, "states: [faulted], verdict: PASS", "states: [faulted], verdict: ACCEPT",
         "falsification[6].when.verdict", "ACCEPT", "PASS, REJECT, any"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_place_found_and_allowed(
    edit: Edit, file: PurePosixPath, old: str, new: str, place: str, found: str, allowed: str
) -> None:
    error = refused(edit(file, old, new))
    if place:
        assert error.file == str(file)
        assert error.place.startswith(place)
        assert "line" in error.place
    assert found in error.found
    assert allowed in error.allowed


@pytest.mark.parametrize("section", ["oracles", "contract"])
def test_predictions_are_complete(project: Path, section: str) -> None:
    path = project / PREDICTIONS
    lines = path.read_text().splitlines(keepends=True)
    begin = lines.index(f"{section}:\n")
    faulted = next(n for n in range(begin, len(lines)) if lines[n].startswith("    faulted:"))
    path.write_text("".join(lines[:faulted] + lines[faulted + 1 :]))
    error = refused(project)
    assert error.place.startswith(f"{section}.MS-M01 (line")
    assert error.found == "no prediction for faulted"


def test_one_missing_verdict_is_missed(edit: Edit) -> None:
    error = refused(edit(PREDICTIONS, "{O1: ACCEPT, O3: REJECT, O4: REJECT}",
                         "{O1: ACCEPT, O3: REJECT}", count=3))  # fmt: skip
    assert error.place.startswith("oracles.MS-M01.faulted")
    assert error.found == "no prediction for O4"


def test_a_template_is_one_of_the_closed_list(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "mutants", tmp_path / "mutants")
    shutil.copytree(REPOSITORY / "contracts", tmp_path / "contracts")
    shutil.copytree(REPOSITORY / "audits", tmp_path / "audits")
    file = tmp_path / "mutants/pinned_endpoints.yaml"
    text = file.read_text()
    study = PurePosixPath("audits/pinned_endpoints_social_network/study.yaml")
    old = "{$eligible-pod-addresses: Deployment/user-service}"
    for new, found, allowed in (
        ("{$pods: Deployment/user-service}", "template key $pods", "$eligible-pod-addresses"),
        ("{$eligible-pod-addresses: Deployment/u, x: 1}", "template key", "alone"),
        ("{$eligible-pod-addresses: user-service}", "'user-service'", "Deployment/NAME"),
        ("{$eligible-pod-addresses: [1]}", "[1]", "Deployment/NAME"),
    ):
        file.write_text(text.replace(old, new))
        error = refused(tmp_path, study)
        assert error.place.startswith("mutants[0].creates[0].subsets[0].addresses")
        assert found in error.found
        assert allowed in error.allowed


def test_a_link_out_of_the_project_is_refused(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "contract.yaml"
    (project / CONTRACT).rename(outside)
    (project / CONTRACT).symlink_to(outside)
    error = refused(project)
    assert error.file == str(CONTRACT)
    assert "symbolic link" in error.found


def test_a_missing_study_is_named(project: Path) -> None:
    assert refused(project, PurePosixPath("audits/none/study.yaml")).found == "no such file"


# -- fuzz ------------------------------------------------------------------------------------------

FILES = (STUDY, PREDICTIONS, MUTANTS, CONTRACT)
TEXTS = {file: (REPOSITORY / file).read_text(encoding="utf-8") for file in FILES}
SNIPPETS = st.one_of(
    st.sampled_from(
        [
            "", "null", "true", "[]", "{}", "-1", "0", "1e9", ".nan", "on", "'x'", "*a", "&a ",
            "!!int ", ": ", "- ", "\n", "  ", "\t", "MS-M01", "contract", "healthy", "../x", "~",
            "'", '"', "{", "[",
        ]
    ),
    st.text(max_size=6),
)  # fmt: skip


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_gives_an_input_error_or_a_study(project: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(FILES))
    text = TEXTS[file]
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = min(len(text), begin + data.draw(st.sampled_from([0, 1, 2, 5, 20, 80])))
        text = text[:begin] + data.draw(SNIPPETS) + text[end:]
    (project / file).write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        study = load_study(project, STUDY)
    except InputError as error:
        str(error).encode()
    else:
        assert study.id == "missing_service_social_network"
    finally:
        (project / file).write_text(TEXTS[file], encoding="utf-8")


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_line_out_of_place_gives_an_input_error_or_a_study(
    project: Path, data: st.DataObject
) -> None:
    file = data.draw(st.sampled_from(FILES))
    lines = TEXTS[file].splitlines(keepends=True)
    index = data.draw(st.integers(0, len(lines) - 1))
    kind = data.draw(st.sampled_from(["drop", "twice", "indent", "swap", "cut", "value"]))
    line = lines[index]
    match kind:
        case "drop":
            lines[index] = ""
        case "twice":
            lines[index] = line + line
        case "indent":
            lines[index] = "  " + line
        case "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], line
        case "cut":
            lines = lines[:index]
        case _:
            value = data.draw(st.sampled_from(["7", "[x]", "{x: 1}", "null", "'é'", "3s"]))
            lines[index] = f"{line.partition(':')[0]}: {value}\n"
    (project / file).write_text("".join(lines), encoding="utf-8")
    told: InputError | None = None
    try:
        load_study(project, STUDY)
    except InputError as error:
        told = error
    finally:
        (project / file).write_text(TEXTS[file], encoding="utf-8")
    if told is not None:
        assert told.file in {str(name) for name in FILES} or told.found == "no such file"
        assert told.found
        assert told.allowed


def test_the_fixture_is_the_shipped_study(project: Path) -> None:
    for file in FILES:
        mine, shipped = ((base / file).read_bytes() for base in (project, REPOSITORY))
        assert hashlib.sha256(mine).digest() == hashlib.sha256(shipped).digest()
