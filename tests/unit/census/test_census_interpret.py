"""Following programs on partly known values."""

# ruff: noqa: E501 - one case of a table is one line

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_sremut.census.interpreter.texts import plain
from pytest_sremut.census.interpreter.values import Unknown


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return f'{1 + 1}-{\"a\".upper()}'", "2-A"),
        ("return f'x-{unknown}'", "x-⟦unknown⟧"),
        ("return {**{'a': 1}, 'b': [2, *range(2)]}", {"a": 1, "b": [2, 0, 1]}),
        ("return {f'{k}-1': v for k, v in zip('ab', (1, 2))}", {"a-1": 1, "b-1": 2}),
        ("x = []\n    for i in range(3):\n        x.append(i)\n    return x", [0, 1, 2]),
        ("if 'a' in ('a', 'b'):\n        return 1\n    return 2", 1),
        ("x = 1\n    if unknown:\n        x = 1\n    return x", 1),
        ("try:\n        return 1\n    finally:\n        pass", 1),
        ("match 'b':\n        case 'a':\n            return 1\n        case 'b' | 'c':\n            return 2", 2),
        ("def inner(n=5, *rest, k, **more):\n        return [n, k, *rest, *more]\n    return inner(1, 2, k=3, z=4)", [1, 3, 2, "z"]),
        ("x = [lambda i=i: i for i in range(3)]\n    return [f() for f in x]", [0, 1, 2]),
        ("from functools import partial\n    return partial(dict, a=1)(b=2)", {"a": 1, "b": 2}),
        ("a, (b, *c) = 1, (2, 3)\n    return a", 1),
        ("n = 0\n    def bump():\n        nonlocal n\n        n = 7\n    bump()\n    return n", 7),
        ("return ' '.join(['a', 'b']).replace('a', 'c').split()", ["c", "b"]),
        ("import json\n    return json.loads(json.dumps({'a': [1]}))", {"a": [1]}),
        ("import textwrap\n    return textwrap.dedent('  a')", "a"),
        ("return '%s-%d' % ('a', 3)", "a-3"),
        ("import os\n    return os.environ.get('X', 'fallback')", "fallback"),
        ("x = {'a': 1}\n    x.setdefault('b', 2)\n    x.update(c=3)\n    del x['a']\n    return x", {"b": 2, "c": 3}),
        ("def gen():\n        yield 1\n        yield 2\n    return [x for x in gen()]", [1, 2]),
        ("return [y for x in [[1], [2]] for y in x if y > 1]", [2]),
        ("return (lambda: None)() or 'x'", "x"),
        ("x = (y := 4) + 1\n    return [x, y]", [5, 4]),
    ],
)  # fmt: skip
def test_values(program: Callable[..., object], body: str, value: object) -> None:
    made = program(f"def main():\n    {body}\n")
    assert plain(made.run(), 0) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("class A:\n    x = 1\n    def f(self): return [self.x]\nclass B(A):\n    x = 2\n    def f(self): return [*super().f(), 3]\ndef main(): return B().f()", [2, 3]),
        ("class A:\n    def f(self): return 'a'\nclass B(A):\n    def f(self): return 'b' + super().f()\nclass C(A):\n    def f(self): return 'c' + super().f()\nclass D(B, C):\n    def f(self): return 'd' + super().f()\ndef main(): return D().f()", "dbca"),
        ("from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int\n    y: list = field(default_factory=list)\n    z: str = 'q'\ndef main():\n    a = A(1)\n    return [a.x, a.y, a.z]", [1, [], "q"]),
        ("from enum import StrEnum\nclass E(StrEnum):\n    ONE = 'one'\ndef main(): return f'inject_{E.ONE}'", "inject_one"),
        ("class A:\n    @property\n    def p(self): return 5\n    @staticmethod\n    def s(x): return x\n    @classmethod\n    def c(cls): return cls.s(6)\ndef main(): return [A().p, A.s(1), A.c()]", [5, 1, 6]),
        ("def deco(f):\n    def wrapper(*a, **k): return [f(*a, **k), f.__name__]\n    return wrapper\n@deco\ndef g(x): return x\ndef main(): return g(3)", [3, "g"]),
        ("class A:\n    def go(self, what): return getattr(self, f'do_{what}')()\n    def do_it(self): return 'done'\ndef main(): return A().go('it')", "done"),
        ("class A:\n    def __init__(self): self.h = {'x': self.m}\n    def m(self): return 9\ndef main(): return A().h['x']()", 9),
        ("class C:\n    def __enter__(self): return 4\n    def __exit__(self, *a): pass\ndef main():\n    with C() as x:\n        return x", 4),
        ("def main():\n    return [loop(0)]\ndef loop(n):\n    return loop(n + 1)", ["⟦value⟧"]),
    ],
)  # fmt: skip
def test_classes_and_functions(program: Callable[..., object], text: str, value: object) -> None:
    assert plain(program(text).run(), 0) == value


def test_modules_that_import_each_other(program: Callable[..., object]) -> None:
    made = program(
        "import other\ndef main(): return other.f()\ndef g(): return 1\n",
        other="import program\ndef f(): return program.g()\n",
    )
    assert plain(made.run(), 0) == 1


def test_both_branches_of_an_undecided_test_are_followed(program: Callable[..., object]) -> None:
    made = program(
        "import subprocess\ndef main():\n    if unknown:\n        k = 'a'\n        do(k)\n"
        "    else:\n        do('b')\n"
        "def do(x): subprocess.run(f'kubectl delete svc {x}', shell=True)\n"
    )
    made.run()
    assert [effect.name for effect in made.effects] == ["a", "b"]


def test_what_continue_leaves_reaches_the_code_after_the_loop(
    program: Callable[..., object],
) -> None:
    made = program(
        "import subprocess\ndef main():\n    found = False\n    for x in unknown():\n"
        "        if x.name == 'a':\n            found = True\n            continue\n"
        "    if not found:\n        raise ValueError\n"
        "    subprocess.run('kubectl delete svc a', shell=True)\n"
    )
    made.run()
    assert [effect.kind for effect in made.effects] == ["Service"]


def test_a_handlers_commands_are_marked(program: Callable[..., object]) -> None:
    made = program(
        "import subprocess\ndef main():\n    try:\n        subprocess.run('kubectl delete svc a')\n"
        "    except Exception:\n        subprocess.run('kubectl delete svc b')\n        raise\n"
    )
    made.run()
    assert [(effect.name, effect.is_handler) for effect in made.effects] == [
        ("a", False),
        ("b", True),
    ]


def test_a_loop_that_sleeps_and_reads_is_a_wait(program: Callable[..., object]) -> None:
    made = program(
        "import time\nfrom kubernetes import client\ndef wait_for_stable(ns):\n"
        "    api = client.CoreV1Api()\n    while True:\n"
        "        if all(p.status.phase == 'Running' for p in api.list_namespaced_pod(ns).items):\n"
        "            return\n        time.sleep(1)\ndef main(): wait_for_stable('x')\n"
    )
    made.run()
    wait = made.effects[-1]
    assert (wait.verb, wait.kind, wait.namespace, wait.detail) == (
        "wait",
        "Pod",
        "x",
        "wait_for_stable",
    )
    assert {"status.phase"} <= set(made.m.roots[0].reads)


def test_threads_and_pools_are_followed(program: Callable[..., object]) -> None:
    made = program(
        "import subprocess, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def go(x): subprocess.run(f'kubectl delete svc {x}', shell=True)\ndef main():\n"
        "    threading.Thread(target=go, args=('a',)).start()\n"
        "    with ThreadPoolExecutor() as pool:\n        pool.submit(go, 'b').result()\n"
    )
    made.run()
    assert [effect.name for effect in made.effects] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n" + "".join(f"    x{i} = {i}\n" for i in range(10_000)) + "    return 1\n",
        "def main():\n    return " + " + ".join(["1"] * 900) + "\n",
        "def main():\n    return 1 if " + " or ".join(["unknown"] * 500) + " else 1\n",
    ],
    ids=["10000 lines", "long sum", "long or"],
)
def test_long_functions(program: Callable[..., object], text: str) -> None:
    made = program(text)
    value = made.run()
    assert plain(value, 0) in {1, 900}
    assert not made.m.trails


def test_deep_calls_end_in_an_unknown_value(program: Callable[..., object]) -> None:
    functions = "".join(f"def f{i}(): return f{i + 1}()\n" for i in range(200))
    made = program(f"def main(): return f0()\n{functions}def f200(): return 1\n")
    assert isinstance(made.run(), Unknown)
