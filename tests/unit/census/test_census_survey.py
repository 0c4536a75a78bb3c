"""The miniature benchmark: every construct, its verdict, and that order never matters."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sremut.census.layout import Layout, find_layout
from pytest_sremut.census.model import Census, Reason, Row, Verdict
from pytest_sremut.census.take import take_census
from pytest_sremut.errors import InputError

A, B, U = Verdict.ADEQUATE, Verdict.BLIND, Verdict.UNCERTAIN
EXPECTED = {
    "chosen": (U, "nothing-perturbed", Reason.UNRESOLVED_DISPATCH),
    "configured": (A, "recycled-status", None),
    "elsewhere": (B, "nothing-sees-it", None),
    "flag-cartFailure": (A, "signal", None),
    "flag-cartMood": (U, "undecided", Reason.SIGNAL_UNDECIDED),
    "foreign": (U, "nothing-perturbed", Reason.EXTERNAL_CALL),
    "image-by-field": (A, "direct", None),
    "image-forgotten": (B, "nothing-sees-it", None),
    "image-guarded": (A, "own-status", None),
    "image-shop": (A, "own-status", None),
    "image-social": (A, "own-status", None),
    "load": (U, "undecided", Reason.SIGNAL_UNDECIDED),
    "module-leaning": (U, "nothing-perturbed", Reason.MISSING_MODULE),
    "module-round_a": (A, "direct", None),
    "module-torn": (U, "nothing-perturbed", Reason.BROKEN_FILE),
    "node-selector-glanced": (B, "nothing-sees-it", None),
    "nothing": (U, "nothing-perturbed", Reason.NOTHING_PERTURBED),
    "opaque": (U, "trail", Reason.OPAQUE_MANIFEST),
    "policy": (A, "direct", None),
    "scaled": (A, "direct", None),
    "script": (U, "undecided", Reason.OPAQUE_SCRIPT),
    "service-gone": (B, "nothing-sees-it", None),
    "service-gone-seen": (A, "derived-kind", None),
    "service-gone-social-1": (B, "nothing-sees-it", None),
    "service_gone_compound": (A, "signal", None),
    "sleepy": (A, "direct", None),
    "ungraded": (U, "no-oracle", Reason.NO_ORACLE),
    "unmade": (U, "unresolved-factory", Reason.UNRESOLVED_FACTORY),
    "values": (B, "nothing-sees-it", None),
    "volume-settled": (B, "nothing-sees-it", None),
    "wrong-selector": (B, "nothing-sees-it", None),
}


def verdicts(census: Census) -> dict[str, tuple[Verdict, str, Reason | None]]:
    return {row.problem: (row.verdict, row.rule, row.reason) for row in census.rows}


def row(census: Census, problem: str) -> Row:
    return next(row for row in census.rows if row.problem == problem)


def test_every_verdict_with_its_rule_and_reason(mini: Path) -> None:
    assert verdicts(take_census(mini)) == EXPECTED


def test_what_a_row_says(mini: Path) -> None:
    census = take_census(mini)
    gone = row(census, "service-gone-social-1")
    assert (gone.cls, gone.application, gone.namespace) == ("ServiceGone", "Social", "social-net")
    assert (
        gone.arguments == {"app": "Social", "service": "user"}
        or gone.arguments["service"] == "user"
    )
    assert gone.oracle is not None
    assert gone.oracle.name == "PodsAndDeployments"
    changes = [(one.verb, one.kind, one.name, one.dropped[:8]) for one in gone.perturbations]
    assert ("delete", "Service", "user", "") in changes
    assert ("delete", "Pod", "", "recycled") in changes
    assert "Service" in gone.would_have_to_observe
    compound = row(census, "service_gone_compound").oracle
    assert compound is not None
    assert [child.name for child in compound.children] == ["PodsAndDeployments", "DnsGrader"]
    settled = row(census, "volume-settled")
    assert any(one.startswith("Deployment.status") for one in settled.symptoms)
    assert row(census, "unmade").trail_end is not None
    for one in census.rows:
        assert (one.verdict is U) == (one.reason is not None), one.problem
        assert one.sentence


def test_every_finder_finds_its_defect(mini: Path) -> None:
    census = take_census(mini, pairs=[("service-gone", "EndpointGrader")])
    found = {(one.finder, one.subject, one.direction.value) for one in census.findings}
    assert {
        ("error-as-verdict", "DnsGrader.grade:accept", "false accept"),
        ("error-as-verdict", "EndpointGrader.grade:reject", "false reject"),
        ("evaluate-without-baseline", "run.py", "false accept"),
        ("helper-never-called", "ImageGrader.check_rollout", "false accept"),
        (
            "injected-value-only",
            "ImageGrader.grade:spec.template.spec.containers[].image",
            "false accept",
        ),
        ("missing-attribute", "ServiceGone.port:EndpointGrader", "false reject"),
        ("namespace-sweep", "PodsAndDeployments.grade", "false reject"),
        ("oracle-writes", "Sleeper.grade", "either"),
        ("result-only-printed", "Sleeper.grade:check_rollout", "false accept"),
        ("shared-state", "GuardedGrader.seen", "either"),
        ("single-instant", "PodGlance.grade", "false reject"),
        ("success-on-empty", "PodsAndDeployments._pods_ok", "false accept"),
    } <= found
    # The benchmark's own runner does take the baseline in no file; a pairing adds no row.
    assert len(census.rows) == len(EXPECTED)


def test_an_attribute_that_the_problem_sets_is_not_missing(mini: Path) -> None:
    census = take_census(mini, pairs=[("service-gone-seen", "EndpointGrader")])
    assert not [one for one in census.findings if one.finder == "missing-attribute"]


@pytest.mark.parametrize(
    ("pair", "place"),
    [
        (("no-such", "EndpointGrader"), "--pair no-such=…"),
        (("values", "Nobody"), "--pair …=Nobody"),
    ],
)
def test_a_pairing_of_strangers(mini: Path, pair: tuple[str, str], place: str) -> None:
    with pytest.raises(InputError) as caught:
        take_census(mini, pairs=[pair])
    assert caught.value.place == place


def test_a_layout_may_come_from_a_plugin(mini: Path) -> None:
    text = (mini / ".sremut-census.yaml").read_text()
    (mini / ".sremut-census.yaml").unlink()
    with pytest.raises(InputError, match="no registry"):
        take_census(mini)
    assert "bench.registry" in text
    layout = Layout(
        name="other",
        registry="bench.registry:Catalogue.problems",
        oracle="grader",
        inject="break_it",
        evaluate="grade",
        baseline="remember",
        children="parts",
        plumbing=("bench/kube.py",),
        workload=("bench/load/",),
        alerts=("manifests/alerts.yaml",),
        runners=("",),
        oracles=("bench/oracles",),
    )
    census = take_census(mini, layouts=[layout])
    assert census.layout == "other"
    assert verdicts(census) == EXPECTED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("schema: sremut/census-layout/v1\nname: x\n", "no key registry"),
        ("schema: sremut/census-layout/v1\nname: x\nregistry: nowhere\n", "text 'nowhere'"),
        ("schema: sremut/census-layout/v1\nname: x\nregistry: 'a:b'\nmore: 1\n", "unknown key"),
    ],
)
def test_a_layout_that_is_not_allowed(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / ".sremut-census.yaml").write_text(text)
    with pytest.raises(InputError, match=found):
        find_layout(tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def broken(:\n", "syntax error"),
        ("class Catalogue:\n    problems = 3\n", "no mapping of problem ids"),
        ("class Catalogue:\n    problems = {unknown(): 1}\n", "not determined"),
        ("class Catalogue:\n    problems = {}\n", "no mapping of problem ids"),
    ],
)
def test_a_registry_that_cannot_be_read(mini: Path, body: str, message: str) -> None:
    (mini / "bench" / "registry.py").write_text(body)
    with pytest.raises(InputError, match=message):
        take_census(mini)


def test_a_checkout_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no directory"):
        take_census(tmp_path / "absent")


def test_a_file_that_does_not_parse_is_told_with_its_line(mini: Path) -> None:
    assert take_census(mini).broken["bench/torn.py"].startswith("syntax error")


def test_the_bound_on_steps_is_a_reason(mini: Path) -> None:
    path = mini / "bench" / "faults.py"
    text = path.read_text()
    body = "        for _a in [1, 2, 3, 4, 5, 6, 7, 8, 9]:\n" + "".join(
        f"            x{i} = {i}\n" for i in range(50_000)
    )
    path.write_text(text.replace('        print("nothing")\n', body))
    nothing = row(take_census(mini), "nothing")
    assert nothing.reason is Reason.BUDGET


def test_nothing_is_written_into_the_checkout(mini: Path) -> None:
    before = {path: path.read_bytes() for path in mini.rglob("*") if path.is_file()}
    take_census(mini)
    assert {path: path.read_bytes() for path in mini.rglob("*") if path.is_file()} == before


def _without_lines(sentence: str) -> str:
    return re.sub(r"\.py:\d+", ".py", sentence)


def shuffled(text: str, draw: random.Random) -> str:
    """The module with its definitions in another order that Python would accept: methods within
    classes, and functions between the statements that run at import."""
    tree = ast.parse(text)

    class Methods(ast.NodeTransformer):
        def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
            head = [item for item in node.body if not isinstance(item, ast.FunctionDef)]
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            draw.shuffle(methods)
            node.body = head + methods
            return node

    tree = Methods().visit(tree)
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list
    ]
    order = iter(draw.sample(functions, len(functions)))
    tree.body = [next(order) if node in functions else node for node in tree.body]
    return ast.unparse(ast.fix_missing_locations(tree))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_order_of_definitions_changes_a_verdict(mini: Path, seed: int) -> None:
    draw = random.Random(seed)
    originals = {path: path.read_text() for path in mini.rglob("*.py") if path.name != "torn.py"}
    try:
        for path, text in originals.items():
            path.write_text(shuffled(text, draw))
        assert verdicts(take_census(mini)) == EXPECTED
    finally:
        for path, text in originals.items():
            path.write_text(text)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_order_of_problems_or_files_changes_a_row(mini: Path, seed: int) -> None:
    """Classes move between files, and the registry lists its ids in another order."""
    draw = random.Random(seed)
    registry, problems = mini / "bench" / "registry.py", mini / "bench" / "problems" / "all.py"
    originals = {path: path.read_text() for path in (registry, problems)}
    before = {row.problem: row for row in take_census(mini).rows}
    try:
        lines = originals[registry].splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if '"service-gone": ' in line)
        last = next(i for i, line in enumerate(lines) if '"unmade"' in line) + 1
        lines[first:last] = draw.sample(lines[first:last], last - first)
        registry.write_text("".join(lines))
        tree = ast.parse(originals[problems])
        movable = [
            node
            for node in tree.body
            if isinstance(node, ast.ClassDef) and ast.unparse(node.bases[0]) == "Problem"
            if not any(node.name in ast.unparse(o) for o in tree.body if o is not node)
        ]
        chosen = draw.sample(movable, len(movable) // 2)
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        moved = ast.Module(body=[*imports, *chosen], type_ignores=[])
        (mini / "bench" / "problems" / "moved.py").write_text(ast.unparse(moved))
        rest = [node for node in tree.body if node not in chosen]
        names = ", ".join(node.name for node in chosen)
        problems.write_text(
            ast.unparse(ast.Module(body=rest, type_ignores=[]))
            + f"\nfrom bench.problems.moved import {names}\n"
        )
        after = {row.problem: row for row in take_census(mini).rows}
        for problem, one in before.items():
            assert after[problem].verdict is one.verdict
            assert _without_lines(after[problem].sentence) == _without_lines(one.sentence)
    finally:
        for path, text in originals.items():
            path.write_text(text)


_TOKENS = ("None", "self", "x", "[]", "{}", "(1,)", "lambda: 0", "'s'", "import os", ")")


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_source_is_uncertain_or_a_named_error(mini: Path, seed: int) -> None:
    draw = random.Random(seed)
    files = sorted(path for path in mini.rglob("*.py"))
    originals = {path: path.read_text() for path in files}
    try:
        for path in draw.sample(files, 5):
            lines = originals[path].splitlines(keepends=True)
            for _ in range(4):
                index = draw.randrange(len(lines))
                words = re.findall(r"[A-Za-z_]\w+", lines[index])
                if words:
                    word, token = draw.choice(words), draw.choice(_TOKENS)
                    lines[index] = lines[index].replace(word, token, 1)
            path.write_text("".join(lines))
        try:
            census = take_census(mini)
        except InputError:
            return
        for one in census.rows:
            assert (one.verdict is U) == (one.reason is not None)
    finally:
        for path, text in originals.items():
            path.write_text(text)
