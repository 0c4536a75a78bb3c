"""An application that is given as files: what is read from them, and every refusal."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from manifest_project import (
    APPLICATION,
    CONFIG_MAP,
    DEPLOYMENT,
    FILES,
    MEDIA,
    SERVICE,
    STUDY,
    make_project,
    write,
)

from pytest_sremut.attestation.registration.check import check, recheck
from pytest_sremut.attestation.registration.freeze import freeze
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.errors import InputError
from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ground.formats.yamlfile import YamlFile, parse_documents, read_yaml
from pytest_sremut.study.load import load_study
from pytest_sremut.study.manifests import load_manifests
from pytest_sremut.study.model import Study


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def refused(root: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_study(root, STUDY)
    return caught.value


def names_application(root: Path, application: str) -> None:
    study = root / STUDY
    study.write_text(study.read_text().replace(f"manifests:{APPLICATION}", application))


# -- what is read ----------------------------------------------------------------------------------


def test_objects_in_the_order_of_their_creation(project: Path) -> None:
    study = load_study(project, STUDY)
    assert [(one["kind"], one["metadata"]["name"]) for one in study.manifests] == [
        ("ConfigMap", "user-service"),
        ("Service", "user-service"),
        ("Deployment", "user-service"),
        ("Deployment", "media-service"),
    ]
    assert study.manifests[0] == json.loads(CONFIG_MAP)  # what is in the file, and nothing more
    assert "namespace" not in study.manifests[1]["metadata"]


def test_every_file_is_frozen_beside_the_others(project: Path) -> None:
    study = load_study(project, STUDY)
    application = {
        f"application/{name}": APPLICATION / name for name in ("a.yaml", "b.yml", "c.json")
    }
    others = ("study", "mutants", "contract", "predictions")
    assert dict(study.frozen) == {
        **{role: study.frozen[role] for role in others},
        **application,
    }
    before = file_digests(project, study.frozen)
    write(project, "c.json", CONFIG_MAP + "\n")
    after = file_digests(project, study.frozen)
    assert {role for role in before if before[role] != after[role]} == {"application/c.json"}


def test_a_study_of_the_demo_has_no_files_of_an_application(project: Path) -> None:
    names_application(project, "demo:social-network")
    study = load_study(project, STUDY)
    assert study.manifests == ()
    assert set(study.frozen) == {"study", "mutants", "contract", "predictions"}


def test_a_registration_covers_the_application(project: Path) -> None:
    (project / "attestation").mkdir()
    (project / "attestation" / "trust.yaml").write_text("schema: sremut/trust/v1\nroots: []\n")
    study = load_study(project, STUDY)
    freeze(project, study, SelfIssuedAuthority())
    report = check(project, study)
    assert not report.failures
    assert recheck(project, report) == ()
    write(project, "c.json", CONFIG_MAP + "\n")
    assert [one.name for one in recheck(project, report)] == ["frozen application/c.json"]
    write(project, "c.json", CONFIG_MAP)
    write(project, "d.yaml", CONFIG_MAP.replace("user-service", "another"))
    (more,) = check(project, load_study(project, STUDY)).failures
    assert more.line().endswith("the study uses apps/social/d.yaml, registered is none")


# -- the directory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("application", "found"),
    [
        ("manifests:../apps", "manifests:../apps"),
        ("manifests:/etc", "manifests:/etc"),
        ("manifests:apps/../../x", "manifests:apps/../../x"),
        ("manifests:nowhere", "nowhere: No such file or directory"),
        (f"manifests:{STUDY}", f"{STUDY}: Not a directory"),
        ("manifests:apps", "directory 'social' in apps"),
        ("helm:chart", "helm:chart"),
        ("Helm:chart", "text 'Helm:chart'"),
    ],
)
def test_a_directory_that_cannot_be_read(project: Path, application: str, found: str) -> None:
    names_application(project, application)
    error = refused(project)
    assert (error.file, error.found) == (str(STUDY), found)
    assert error.place.startswith("application (line ")


def test_a_name_that_says_nothing_of_what_is_allowed_is_told_all_of_it(project: Path) -> None:
    names_application(project, "Helm:chart")
    assert refused(project).allowed == (
        "demo:social-network, BENCHMARK:NAME (sregym:social_network), or manifests:DIR, a "
        "directory of the project"
    )


def test_a_directory_without_manifests(project: Path) -> None:
    for name in FILES.keys() - {"README.md"}:
        (project / APPLICATION / name).unlink()
    assert refused(project).found == "no manifests in apps/social"


def test_a_name_that_a_registration_could_not_carry(project: Path) -> None:
    write(project, "d e.yaml", CONFIG_MAP)
    assert refused(project).found == "file 'd e.yaml' in apps/social"


def test_no_file_is_left_out_for_its_capitals(project: Path) -> None:
    write(project, "D.YAML", CONFIG_MAP)
    # Capitals come first in the order of names.
    assert refused(project).found == (
        "ConfigMap user-service a second time, after apps/social/D.YAML (line 1, column 1)"
    )


def test_a_link_out_of_the_project(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (project / APPLICATION).rename(outside)
    (project / APPLICATION).symlink_to(outside)
    assert refused(project).found == "a symbolic link out of the project: apps/social"
    (project / APPLICATION).unlink()
    (project / APPLICATION).mkdir()
    for name in FILES:
        (project / APPLICATION / name).symlink_to(outside / name)
    error = refused(project)
    assert (error.file, error.found) == ("apps/social/a.yaml", "a symbolic link out of the project")


def test_a_loop_of_links(project: Path) -> None:
    names_application(project, "manifests:apps/loop")
    (project / "apps/loop").symlink_to("loop")
    assert refused(project).found.startswith("apps/loop: ")


# -- the objects -----------------------------------------------------------------------------------

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("text", "place", "found", "allowed"),
    [
        ("[1]", "line 1, column 1", "[1]", "a mapping with apiVersion, kind and metadata"),
        ("just text", "line 1", "text 'just text'", "a mapping"),
        ("a: 1\na: 2\n", "line 2", "key 'a' a second time", "every key once"),
        (f"{CONFIG_MAP}---\na: &x [\n", "line 5", "", ""),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "line 1", "no key apiVersion", "required"),
        ("apiVersion: v1\nkind: ConfigMap\n", "line 1", "no key metadata", "required"),
        (JOB, "kind (line 2, column 7)", "text 'Job'", "ConfigMap, Deployment or Service"),
        *[
            (JOB.replace("Job", kind), "kind (line 2", f"text '{kind}'", "ConfigMap, Deployment")
            for kind in (
                "Secret", "Namespace", "StatefulSet", "PersistentVolumeClaim", "ServiceAccount",
                "ClusterRole", "RoleBinding", "HorizontalPodAutoscaler", "Pod", "List",
            )
        ],
        (CONFIG_MAP.replace('"v1"', '"v2"'), "apiVersion (line 1", "text 'v2'", "'v1'"),
        (DEPLOYMENT.replace("apps/v1", "v1"), "apiVersion (line 1", "text 'v1'", "'apps/v1'"),
        (CONFIG_MAP.replace("user-service", "A"), "metadata.name", "text 'A'", "lower-case"),
        (SERVICE.replace("name: user-service", "name: a.b"), "metadata.name", "text 'a.b'",
         "at most 63"),
        (CONFIG_MAP.replace('"name"', '"generateName"'), "metadata.generateName",
         "unknown key text 'generateName'", "annotations, labels, name, namespace"),
        (CONFIG_MAP.replace('"name"', '"uid": "1", "name"'), "metadata.uid", "unknown key", "name"),
        (CONFIG_MAP.replace('"name"', '"finalizers": [], "name"'), "metadata.finalizers",
         "unknown key", "name"),
        (CONFIG_MAP.replace('"user-service"', '"kube-root-ca.crt"'), "metadata.name (line 2",
         "kube-root-ca.crt", "no cluster uses"),
        (CONFIG_MAP.replace('"{}\\n"', "1"), "data.service-config.json (line 2", "1", "text"),
        (CONFIG_MAP.replace('"data"', '"dta"'), "dta (line 2", "unknown key", "mean data?"),
        (CONFIG_MAP.replace('"name"', '"namespace": "other", "name"'), "metadata.namespace (line 2",
         "other", "social-network, the study's, or none"),
        (CONFIG_MAP.replace("}\n", ', "annotations": {"a": 1}}\n'), "", "", ""),
        (CONFIG_MAP, "metadata.name (line 2", "ConfigMap user-service a second time, after "
         "apps/social/c.json (line 1, column 1)", "every kind and name once"),
        (MEDIA + "status: {}\n", "status (line 17", "unknown key", "spec"),
        (MEDIA.replace("spec:\n  sel", "spec:\n  replicas: -1\n  sel"), "spec.replicas", "-1",
         "0 or more"),
        (MEDIA.replace("spec:\n  sel", "spec:\n  replicas: 1.0\n  sel"), "spec.replicas", "1.0",
         "a whole number"),
        (MEDIA.replace("matchLabels: {", "matchExpressions: []\n    matchLabels: {"),
         "spec.selector.matchExpressions", "unknown key", "matchLabels"),
        (MEDIA.replace("matchLabels: {service: media-service}", "matchLabels: {}"),
         "spec.selector.matchLabels", "0 entries", "1 or more"),
        (MEDIA.replace("matchLabels: {service: media-service}", "matchLabels: {service: x}"),
         "spec.selector.matchLabels.service", "service: x", "labels of the template's pods"),
        (MEDIA.replace("        image: example.org/social:1\n", ""),
         "spec.template.spec.containers[0]", "no key image", "required"),
        (MEDIA.replace("labels: {service", "labels: {sremut.io/role: x, service"),
         "metadata.labels.sremut.io/role", "key text 'sremut.io/role'", "labels of your own"),
        (MEDIA.replace("app: media", "sremut.io/role: media"),
         "spec.template.metadata.labels.sremut.io/role", "key", "labels of your own"),
        (SERVICE.replace("    port: 9090", "    port: 0").replace("name: u", "name: v"),
         "spec.ports[0].port", "0", "1 to 65535"),
        (f"{SERVICE.replace('name: u', 'name: v')}  x: 100000000000000000000.5\n", "line 1",
         "integers of 2^53", "what JSON carries exactly"),
    ],
)  # fmt: skip
def test_an_object_that_is_not_allowed(
    project: Path, text: str, place: str, found: str, allowed: str
) -> None:
    """In a file of its own, after those that are fine."""
    write(project, "d.yaml", text)
    error = refused(project)
    assert error.file == "apps/social/d.yaml"
    assert error.place.startswith(place)
    assert found in error.found
    assert allowed in error.allowed


@pytest.mark.parametrize(
    ("file", "found"),
    [("b.yml", "Service user-service"), ("a.yaml", "Deployment user-service")],
)
def test_the_target_and_its_workload_are_among_them(project: Path, file: str, found: str) -> None:
    (project / APPLICATION / file).unlink()
    error = refused(project)
    assert (error.file, error.found) == (str(STUDY), f"manifests without {found}")


def test_workloads_whose_pods_a_mutant_asks_for_are_among_them(project: Path) -> None:
    study, mutants = project / STUDY, project / "mutants" / "pinned_endpoints.yaml"
    study.write_text(study.read_text().replace("missing_service.yaml", mutants.name))
    text = mutants.read_text()
    assert text.count("Deployment/user-service") == 1
    mutants.write_text(text.replace("Deployment/user-service", "Deployment/text-service"))
    assert refused(project).found == "manifests without Deployment text-service"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("targetPort: 9090", "targetPort: 9091", "spec.ports[0].targetPort (line 10"),
        ("service: user-service", "app: user-service", "spec.selector.app (line 12"),
        ("ClusterIP", "NodePort", "spec.type (line 6"),
        ("  type", "  externalTrafficPolicy: Local\n  type", "spec.externalTrafficPolicy (line 6"),
        ('  - name: "9090"', "  - port: 1\n  - name: x", "spec.ports (line 8"),
    ],
)
def test_the_target_is_what_the_mutants_were_proven_against(
    project: Path, old: str, new: str, place: str
) -> None:
    write(project, "b.yml", SERVICE.replace(old, new))
    error = refused(project)
    assert error.file == "apps/social/b.yml"
    assert error.place.startswith(place)
    assert "mutants/missing_service.yaml" in error.found


def test_an_image_of_the_demo_has_no_place_here(project: Path) -> None:
    study = project / STUDY
    named = "    settle: 60s\n    images: {demo: 'r.io/demo:1'}\n"
    study.write_text(study.read_text().replace("    settle: 60s\n", named))
    error = refused(project)
    assert error.place.startswith("profiles.kind.images.demo (line ")
    assert error.allowed == "load and probe: only the demo application takes an image from here"


# -- whatever the bytes ----------------------------------------------------------------------------


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=60) | st.text(alphabet="a:{}[]-&*! \n'\"#1|>?,", max_size=60))
def test_documents_of_any_bytes(data: bytes | str) -> None:
    raw = data if isinstance(data, bytes) else data.encode()
    with contextlib.suppress(InputError):
        documents = parse_documents(raw, PurePosixPath("x.yaml"))
        assert all(one.value is not None for one in documents)


def test_documents_keep_places_and_anchors_apart() -> None:
    first, second = parse_documents(b"a: &x 1\n---\n---\nb: 2\n", PurePosixPath("x.yaml"))
    assert (first.value, second.value) == ({"a": 1}, {"b": 2})
    assert (second.place("b"), second.place("a")) == ((4, 4), (4, 1))
    with pytest.raises(InputError, match="alias \\*x of no finished anchor"):
        parse_documents(b"a: &x 1\n---\nb: *x\n", PurePosixPath("x.yaml"))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS
    | st.sampled_from(["v1", "apps/v1", "Service", "Deployment", "ConfigMap", "user-service"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        (), ("kind",), ("apiVersion",), ("metadata",), ("metadata", "name"), ("metadata", "labels"),
        ("metadata", "namespace"), ("spec",), ("spec", "selector"), ("spec", "replicas"),
        ("spec", "selector", "matchLabels"), ("spec", "template"), ("spec", "template", "spec"),
        ("spec", "template", "metadata", "labels"), ("spec", "template", "spec", "containers"),
        ("spec", "ports"), ("data",),
    ]
)  # fmt: skip


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(which=st.sampled_from([SERVICE, DEPLOYMENT, CONFIG_MAP]), path=PATHS, value=VALUES)
def test_objects_of_any_values(
    fuzzed: tuple[Path, YamlFile, Study], which: str, path: tuple[str, ...], value: Any
) -> None:
    """One of the application's objects with anything in one place: fine, or our named error."""
    project, source, study = fuzzed
    (document,) = parse_documents(which.encode(), PurePosixPath("x.yaml"))
    body: Any = document.value
    node = body
    for step in path[:-1]:
        node = node.get(step) if isinstance(node, dict) else None
    if path and isinstance(node, dict):
        node[path[-1]] = value
    elif not path:
        body = value
    write(project, "d.yaml", json.dumps(body))
    with contextlib.suppress(InputError):
        found = load_manifests(project, source, study.target, study.registry)
        assert len(found.objects) in {4, 5}


@pytest.fixture(scope="module")
def fuzzed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, YamlFile, Study]:
    project = make_project(tmp_path_factory.mktemp("fuzzed") / "project")
    return project, read_yaml(project, STUDY), load_study(project, STUDY)
