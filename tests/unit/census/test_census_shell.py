"""Shell text to programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.census.models.shell import parse


def words(command: str | list[str]) -> list[list[str]]:
    return [line.words for line in parse(command)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl get pods", [["kubectl", "get", "pods"]]),
        ("a 'b c' && d; e || f | g", [["a", "b c"], ["d"], ["e"], ["f"], ["g"]]),
        ("sudo -n timeout --kill-after=5s 60s kubectl top pod", [["kubectl", "top", "pod"]]),
        ("sh -c 'nc -z host 80 && echo OK'", [["nc", "-z", "host", "80"], ["echo", "OK"]]),
        (["bash", "-ec", "one; two"], [["one"], ["two"]]),
        ("A=1 B=2 env -i C=3 run it", [["run", "it"]]),
        ("wget -qO- x >/dev/null 2>&1 && ok", [["wget", "-qO-", "x"], ["ok"]]),
        (
            "nsenter --target 1 --mount -- systemctl stop kubelet",
            [["systemctl", "stop", "kubelet"]],
        ),
        ("if test -f x; then a; else b; fi", [["test", "-f", "x"], ["a"], ["b"], ["fi"]]),
        ("n=$((n+1)); use $n", [["use", "$n"]]),
        ("it's not closed", [["it's", "not", "closed"]]),
        ("", []),
    ],
)
def test_programs(command: str | list[str], expected: list[list[str]]) -> None:
    assert words(command) == expected


def test_a_here_document_is_the_programs_input() -> None:
    (line,) = parse("kubectl apply -f - <<'EOF'\nkind: Pod\nEOF\n")
    assert line.words == ["kubectl", "apply", "-f", "-"]
    assert line.stdin == "kind: Pod"


def test_what_feeds_a_pipe_is_kept() -> None:
    echo, apply = parse('echo \'{"kind": "Pod"}\' | kubectl apply -f -')
    assert apply.pipe is echo


@given(st.text(max_size=200))
def test_no_text_is_an_error(text: str) -> None:
    for line in parse(text):
        assert line.words
