"""The recorded kubectl commands, run by a real kubectl against our cluster.

Rules kept here:

* a recorded command is run by a kubectl of the recorded minor version or, for the newest, by one
  that is not older; where there is none, its steps are not played at all;
* compared are the exit code and what was printed; text is compared word by word, ages and waiting
  messages left out; JSON and YAML as objects.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import reviewed, settings
from .outcome import Outcome, explain
from .recorded import Step, steps
from .rules import Side, differences
from .translation import Translator
from .world import World

Json = Any

SPACE = "golden-kubectl"
_AGE = re.compile(r"(?<![\w.-])(?:\d+[smhd]){1,2}(?: ago)?(?![\w.])")
_DATE = re.compile(
    r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*"
)
_DIFF = re.compile(r"\S*/(LIVE|MERGED)-[^/]+/")
_SERVER = re.compile(r"https?://127\.0\.0\.1:\d+")
_HASH = re.compile(r"(pod-template-hash[=:] ?)[a-z0-9]+")
_JOB = re.compile(r"\bj1-[a-z0-9]{5}\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WAITING = re.compile(r"^(Waiting for|All commands and output|If you don't see)")
_INPUT = {
    "replace": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1", '
    '"namespace": "golden-kubectl"}, "data": {"a": "c"}}',
    "exec": "hello\n",
}


@cache
def kubectls() -> dict[int, str]:
    """Every kubectl on this machine, by minor version.

    Looked for in ``SREMUT_KUBECTL`` (paths, like PATH) and in PATH, as ``kubectl`` and
    ``kubectl.1.N``; a newer one may come from a package of the interpreter's environment.
    """
    found: dict[int, str] = {}
    places = [
        *os.environ.get("SREMUT_KUBECTL", "").split(os.pathsep),
        shutil.which("kubectl") or "",
    ]
    for place in list(filter(None, places)):
        places += map(str, Path(place).resolve().parent.glob("kubectl.1.*"))
    for place in filter(None, places):
        if not Path(place).is_file():
            continue
        ran = subprocess.run(
            [place, "version", "--client", "-o", "json"], capture_output=True, check=False
        )
        if ran.returncode == 0:
            minor = json.loads(ran.stdout)["clientVersion"]["minor"].rstrip("+")
            found.setdefault(int(minor), place)
    return found


def client_for(version: str) -> str | None:
    """The kubectl that plays the commands recorded with ``v1.N.x``."""
    minor = int(version.split(".")[1])
    if minor in kubectls():
        return kubectls()[minor]
    newer = [found for found in sorted(kubectls()) if found > minor >= 36]
    return kubectls()[newer[0]] if newer else None


class Commands:
    """The kubectl scenario, one client version after the other."""

    def __init__(self, world: World, kubeconfig: Path, scratch: Path) -> None:
        self._world = world
        self._scratch = scratch
        self._recorded, self._ours = Side(), Side()
        self._translator = Translator(self._recorded, self._ours)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(scratch / "cache"),
        }

    def play(self, wanted: Collection[int] | None = None) -> Iterator[Outcome]:
        """Play the commands that a kubectl of this machine can play."""
        settings.namespace(self._world, SPACE)
        self._manifests()
        last = ""
        for step in steps("06-kubectl"):
            client = client_for(step.data["client"])
            if client is None or (wanted is not None and step.number not in wanted):
                continue
            if client != last:
                self._empty()
                last = client
            if "wait-ready" in step.name:
                self._empty(going=True)  # what a rollout leaves behind was gone by then
            lines = self._step(step, client)
            yield explain(f"06-kubectl/{step.name}", lines, reviewed.REVIEWED)

    def _empty(self, *, going: bool = False) -> None:
        """Wait until no pod is left; or none that is `going`."""

        def pods() -> list[Json]:
            items = self._world.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
            return [item for item in items if not going or "deletionTimestamp" in item["metadata"]]

        self._world.until(lambda: not pods(), "no pod is left")

    def _manifests(self) -> None:
        """The files that the recorded commands name, from what kubectl noted of them."""
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "app", "namespace": SPACE},
            "spec": settings.service("app", "app")["spec"],
        }
        deployment = settings.deployment("app", replicas=2)
        deployment |= {"apiVersion": "apps/v1", "kind": "Deployment"}
        deployment["metadata"]["namespace"] = SPACE
        changed = json.loads(json.dumps(deployment))
        container = changed["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "X", "value": "1"}]
        for name, first in (("app.yaml", deployment), ("app2.yaml", changed)):
            text = yaml.safe_dump_all([first, service])
            (self._scratch / name).write_text(text, encoding="utf-8")

    def _step(self, step: Step, client: str) -> list[str]:
        data = step.data
        words = [self._translator.text(word) for word in data["command"][1:]]
        words = [
            str(self._scratch / "cold") if word == "/tmp/golden/cache" else word for word in words
        ]
        given = next((text for verb, text in _INPUT.items() if verb in words), None)
        takes = "-i" in words or "-" in words
        ran = subprocess.run(
            [client, *words],
            input=given if takes else "",
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
            cwd=self._scratch,
            timeout=120,
        )
        lines = []
        if ran.returncode != data["exit_code"]:
            lines.append(f"exit code: recorded {data['exit_code']}, ours {ran.returncode}")
        self._names(data, ran.stdout)
        lines += self._output("stdout", data["stdout"], ran.stdout, words)
        lines += self._output("stderr", data.get("stderr_plain", ""), ran.stderr, words)
        return lines

    def _names(self, data: Json, ours: str) -> None:
        """Pair the names of pods that both printed."""
        if "jsonpath={.items[*].metadata.name}" in data["command"]:
            pairs = zip(data["stdout"].split(), ours.split(), strict=False)
            for left, right in pairs:
                self._translator.pair(left, right)

    def _output(self, name: str, recorded: str, ours: str, words: list[str]) -> list[str]:
        left, right = _structured(recorded, words), _structured(ours, words)
        if left is not None and right is not None:
            self._recorded.learn(left)
            self._ours.learn(right)
            self._translator.learn(left, right)
            found = differences(self._recorded.canonical(left), self._ours.canonical(right))
            return [f"{name}{line}" for line in found]
        shown = [
            _plain(side.text(text), words)
            for side, text in ((self._recorded, recorded), (self._ours, ours))
        ]
        if "-A" in words:
            shown = [[line for line in lines if SPACE in line] for lines in shown]
        cut = "[cut, " in recorded
        if cut and left is None and words[-1] in ("json", "yaml"):
            return []  # the recording holds its beginning only
        missing = [line for line in shown[0] if line not in shown[1]]
        added = [line for line in shown[1] if line not in shown[0] and not cut]
        missing = [line for line in missing if "[cut, " not in line]
        return [
            *(f"{name}: missing, recorded {line!r}" for line in missing),
            *(f"{name}: not recorded, ours {line!r}" for line in added),
        ]


def _structured(text: str, words: list[str]) -> Json:
    """Output that is an object, as an object; of versions, the server's."""
    try:
        if "json" in words:
            value = json.loads(text)
        elif "yaml" in words:
            value = yaml.safe_load(text)
        else:
            return None
    except (ValueError, yaml.YAMLError):
        return None
    return value.get("serverVersion", value) if isinstance(value, dict) else None


def _plain(text: str, words: list[str]) -> list[str]:
    """Lines of printed text without what differs by the moment, in no order."""
    lines = []
    for line in _COLOUR.sub("", text).splitlines():
        shown = _DIFF.sub("<folder>/", _SERVER.sub("<server>", line))
        shown = _AGE.sub("<age>", _DATE.sub("<date>", shown))
        shown = _HASH.sub(r"\1<hash>", _JOB.sub("j1-<x>", shown))
        if "describe" in words:
            shown = re.sub(r"\(x\d+ over <age>\)", "", shown)
        if not _WAITING.match(line):
            lines.append(" ".join(shown.split()))
    return sorted(filter(None, lines))
