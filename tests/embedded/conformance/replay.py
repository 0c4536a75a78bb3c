"""Play a recorded scenario against our cluster, step by step.

Rules kept here:

* requests are sent in the recorded order, with the recorded headers and bodies, translated;
* a recorded state is waited for, and must still hold at a second look unless it was recorded in
  passing; a read is repeated until it answers as recorded, for as long as the recording took;
* where the recording paused, we wait until nothing is written any more;
* a step is compared as a whole: status, content type, warnings, body.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from . import reviewed, settings
from .outcome import Outcome, explain
from .recorded import Step, steps, streams
from .rules import Side, differences
from .streams import compare_stream
from .translation import Translator
from .world import Ran, ReplayError, Reply, Watching, World

Json = Any

_PASSING = re.compile(r"at-\d|during|-at-|during-")
_PAUSE = 0.9  # seconds between recorded steps from which on the recorder slept
_REFUSED_WITHIN = 0.93  # of the given timeout: a connect that took longer was not refused
LOOK = 0.08


class Scenario:
    """A scenario being played in a cluster of its own."""

    def __init__(self, folder: str, world: World) -> None:
        self.folder = folder
        self.world = world
        self.recorded, self.ours = Side(), Side()
        self.translator = Translator(self.recorded, self.ours)
        self._streams = streams(folder)

    def play(self, wanted: Collection[int] | None = None) -> Iterator[Outcome]:  # noqa: C901  # one branch for each kind of recorded step
        """Play all steps, or those of the wanted numbers; streams only when all are played."""
        watches: list[tuple[Step, Watching]] = []
        actions = settings.ACTIONS.get(self.folder, {})
        if wanted is None:
            now = self.world.get("/sremut/v1/status")["revision"]
            since = f"?watch=true&timeoutSeconds=600&resourceVersion={now}"
            for step in self._streams:
                watches.append((step, self.world.watch(step.data["watch"] + since)))
        if 1 in actions:
            actions[1](self.world, self.translator)
        for step in steps(self.folder):
            if wanted is not None and step.number not in wanted:
                continue
            if step.number > 1 and step.number in actions:
                actions[step.number](self.world, self.translator)
            yield self._outcome(step)
        seen = [(step, watch.close()) for step, watch in watches]
        for step, events in seen:
            for line in step.lines:
                self.recorded.learn(line["object"])
            for event in events:
                self.ours.learn(event.get("object"))
        for step, events in seen:
            lines = compare_stream(step, events, self.recorded, self.ours)
            yield explain(f"{self.folder}/{step.name}", lines, reviewed.REVIEWED)

    def _outcome(self, step: Step) -> Outcome:
        name = f"{self.folder}/{step.name}"

        def judged(lines: list[str]) -> Outcome:
            return explain(name, lines, reviewed.REVIEWED)

        try:
            match step.kind:
                case "exchange":
                    return judged(self._exchange(step, judged))
                case "state":
                    return judged(self._state(step, judged))
                case "probe":
                    return judged(self._probe(step))
                case "watch":
                    return judged(self._watch(step))
                case _:
                    return judged([])
        except ReplayError as error:
            return judged([f"could not be played: {error}"])

    # Requests

    def _exchange(self, step: Step, judged: Callable[[list[str]], Outcome]) -> list[str]:
        request = step.data["request"]
        if request["method"] != "GET":
            if step.gap >= _PAUSE:
                self.world.quiet(0.3, step.gap + 2)
            return self._once(step)
        patience = 1.5 + 2 * step.gap
        deadline = time.monotonic() + patience
        best: list[str] | None = None
        while True:
            lines = self._once(step)
            if best is None or len(judged(lines).unexplained) < len(judged(best).unexplained):
                best = lines
            if not judged(best).unexplained or time.monotonic() > deadline:
                return best
            time.sleep(LOOK)

    def _once(self, step: Step) -> list[str]:
        request, response = step.data["request"], step.data["response"]
        self._introduce(step)
        before = self._unchanged(step)
        reply = self.world.send(
            request["method"],
            self.translator.path(request["path"]),
            self.translator.raw(request.get("body")),
            request.get("headers") or {},
            anonymous="anonymous" in step.name,
        )
        body = _shown(response.get("body"), reply.body, step)
        if reply.status != response["status"]:
            return [f"status: recorded {response['status']}, ours {reply.status}: {reply.body}"]
        lines = self._compare(response.get("body"), body)
        lines += _headers(response.get("headers") or {}, reply, self.recorded, self.ours)
        if before is not None:
            now = (reply.body.get("metadata") or {}).get("resourceVersion")
            if now != before:
                lines.append(f"resourceVersion changed from {before} to {now}, recorded unchanged")
        return lines

    def _introduce(self, step: Step) -> None:
        """Pair what the request names and only a recorded watch stream has shown yet."""
        path = step.data["request"]["path"]
        for stream in self._streams:
            shown = [
                line["object"]
                for line in stream.lines
                if line["t"] <= step.data["t"] and "uid" in line["object"].get("metadata", {})
            ]
            named = [item for item in shown if item["metadata"]["name"] in path]
            if any(not self.translator.knows(item["metadata"]["name"]) for item in named):
                ours = self.world.get(stream.data["watch"])
                ours["items"] = [{"metadata": item["metadata"]} for item in ours["items"]]
                known = {item["metadata"]["uid"]: item["metadata"] for item in shown}
                items = [{"metadata": metadata} for metadata in known.values()]
                recorded = {"kind": ours["kind"], "items": items}
                self.recorded.learn(recorded)
                self.ours.learn(ours)
                self.translator.learn(recorded, ours)

    def _unchanged(self, step: Step) -> str | None:
        """Our version of an object that the recorded write did not change."""
        request, body = step.data["request"], step.data["response"].get("body")
        if request["method"] not in ("PATCH", "PUT") or "no change" not in step.note:
            return None
        path = self.translator.path(request["path"]).partition("?")[0]
        found = self.world.get(path)
        assert isinstance(body, dict)
        return found["metadata"]["resourceVersion"] if found else None

    def _compare(self, recorded: Json, ours: Json) -> list[str]:
        self.recorded.learn(recorded)
        self.ours.learn(ours)
        self.translator.learn(recorded, ours)
        return differences(self.recorded.canonical(recorded), self.ours.canonical(ours))

    # States

    def _state(self, step: Step, judged: Callable[[list[str]], Outcome]) -> list[str]:
        passing = bool(_PASSING.search(step.name)) or step.gap < _PAUSE
        begin = time.monotonic()
        patience = max(6.0, 2 * step.gap + 4)
        if step.gap < _PAUSE:
            patience = 1.0  # recorded at once: the next steps count on the moment
        best: list[str] | None = None
        held = 0
        while True:
            lines = self._objects(step)
            good = not judged(lines).unexplained
            held = held + 1 if good else 0
            if best is None or len(judged(lines).unexplained) < len(judged(best).unexplained):
                best = lines
            if good and (passing or held > 1):
                return lines
            if not good and time.monotonic() - begin > patience:
                return best
            time.sleep(0.4 if good else LOOK)

    def _objects(self, step: Step) -> list[str]:
        lines = []
        found = []
        for path, answer in step.data["objects"].items():
            reply = self.world.send("GET", self.translator.path(path))
            told = once_each(answer["body"], self.recorded) if "/events" in path else answer["body"]
            if path.endswith("/events") and isinstance(reply.body, dict):
                reply = Reply(
                    status=reply.status,
                    headers=reply.headers,
                    body=once_each(reply.body, self.ours),
                )
            found.append((path, answer["status"], told, reply))
            self.recorded.learn(told)
            self.ours.learn(reply.body)
        for path, status, told, reply in found:
            if reply.status != status:
                lines.append(f"{path}: status: recorded {status}, ours {reply.status}")
                continue
            self.translator.learn(told, reply.body)
            recorded = self.recorded.canonical(told)
            ours = self.ours.canonical(reply.body)
            where = path.rsplit("/", 1)[-1]
            lines += [f"{where}{line}" for line in differences(recorded, ours)]
        return lines

    # Commands in pods

    def _probe(self, step: Step) -> list[str]:
        if "commands" not in step.data:
            return self._node_probe(step)
        space, pod = step.data["pod"].split("/")
        if step.gap >= _PAUSE:
            self.world.until(lambda: self.world.is_ready(space, pod), f"{pod} is ready")
        commands = [self.translator.text(command["cmd"]) for command in step.data["commands"]]
        # All were recorded one after another. What got no answer there gets none in any order, and
        # is played side by side. A node tells one client seldom that nobody is there: what was
        # answered is asked in turn, as it was recorded.
        answered = {
            place
            for place, command in enumerate(step.data["commands"])
            if command["elapsed_s"] < _given(command["cmd"]) * _REFUSED_WITHIN
        }
        for _ in range(2):  # a busy machine may make a refusal look like a timeout, once
            ran = self.world.run_all(space, pod, commands, in_turn=answered)
            lines = [
                line
                for command, result in zip(step.data["commands"], ran, strict=True)
                for line in self._ran(command, result)
            ]
            if not any("timed out" in line for line in lines):
                break
        return lines

    def _ran(self, command: dict[str, Json], ran: Ran) -> list[str]:
        shown = command["cmd"]
        given = _given(shown)
        recorded = (
            command["exit_code"],
            _lines(self.recorded.text(command["stdout"]), shown),
            _lines(self.recorded.text(command["stderr"]), shown),
            "timed out" if command["elapsed_s"] >= given * _REFUSED_WITHIN else "answered",
        )
        ours = (
            ran.exit_code,
            _lines(self.ours.text(ran.stdout), shown),
            _lines(self.ours.text(ran.stderr), shown),
            "timed out" if ran.elapsed >= given * _REFUSED_WITHIN else "answered",
        )
        names = ("exit code", "stdout", "stderr", "end")
        return [
            f"{shown}: {name}: recorded {left!r}, ours {right!r}"
            for name, left, right in zip(names, recorded, ours, strict=True)
            if left != right
        ]

    def _node_probe(self, step: Step) -> list[str]:
        """What the node itself saw: from a pod here, as pods share the node's network."""
        if step.name.startswith("010"):
            address = self.translator.text("10.43.92.227")
            pods = self.world.get("/api/v1/namespaces/golden-conn/pods?labelSelector=app=web")
            name = pods["items"][0]["metadata"]["name"]
            ran = self.world.run("golden-conn", name, f"nc -zv -w 5 {address} 80")
            recorded = {**step.data, "elapsed_s": 0.0, "cmd": "nc -zv -w 5 10.43.92.227 80"}
            return self._ran(recorded, ran)
        if "target" not in step.data:
            return self._blocking(step)
        host, port = self.translator.text(step.data["target"]).split(":")
        tries = step.data["tries"]
        wanted = sorted({attempt["result"].partition(":")[0] for attempt in tries})
        ours = sorted({self._connect(host, port, "s.settimeout(5)") for _ in tries[:2]})
        return [] if ours == wanted else [f"tries: recorded {wanted}, ours {ours}"]

    def _connect(self, host: str, port: str, mode: str) -> str:
        python = os.path.realpath(sys.executable)
        program = (
            f"import socket; s = socket.socket(); {mode}\n"
            f"try: s.connect(('{host}', {port})); print('connected')\n"
            "except OSError as error: print(type(error).__name__)"
        )
        ran = self.world.run("golden-conn", "client", f'{python} -ISE -c "{program}"')
        return (ran.stdout + ran.stderr).strip()

    def _blocking(self, step: Step) -> list[str]:
        address = self.translator.text("10.43.78.241")
        wanted = {
            attempt["mode"].partition(",")[0]: attempt["elapsed_s"]
            for attempt in step.data["tries"]
        }
        lines = []
        for mode, setting in (
            ("blocking", "s.setblocking(True)"),
            ("non-blocking", "s.settimeout(5)"),
        ):
            begin = time.monotonic()
            result = self._connect(address, "80", setting)
            took = time.monotonic() - begin
            slow = took >= 1.0
            if result != "ConnectionRefusedError" or (wanted[mode] >= 1.0 and not slow):
                lines.append(
                    f"{mode}: recorded refused after {wanted[mode]}, ours {result} {took:.1f}"
                )
        return lines

    # Watches

    def _watch(self, step: Step) -> list[str]:
        response = step.data["response"]
        watch = self.world.watch(self.translator.path(step.data["request"]["path"]))
        for write in step.data.get("meanwhile", []):
            headers = {"Content-Type": "application/json"}
            if write["method"] == "PATCH":
                headers["Content-Type"] = "application/merge-patch+json"
            reply = self.world.send(
                write["method"],
                self.translator.path(write["path"]),
                self.translator.raw(write["body"]),
                headers,
            )
            if reply.status != write["status"]:
                watch.close()
                return [f"meanwhile {write['method']}: {reply.status}, recorded {write['status']}"]
        ours = watch.end(20)
        recorded = [event["event"] for event in step.data.get("events", [])]
        recorded += step.data.get("lines", [])
        if watch.status != response["status"]:
            return [f"status: recorded {response['status']}, ours {watch.status}"]
        for item in recorded:
            self.recorded.learn(item.get("object", item))
        for item in ours:
            self.ours.learn(item.get("object", item))
        self.translator.learn(recorded, ours)
        return differences(self.recorded.canonical(recorded), self.ours.canonical(ours))


def _given(command: str) -> float:
    """Seconds that a command gives a connect; very many where it names none."""
    limit = re.search(r"-[wT] (\d+)", command)
    return float(limit[1]) if limit else 1e9


def _lines(text: str, command: str) -> Json:
    """Output in a form that can be compared: nslookup's lines have no order."""
    if "nslookup" in command:
        return sorted(line for line in text.splitlines() if line)
    return text


def once_each(events: Json, side: Side) -> Json:
    """A list of events with each event once, however often it was recorded."""
    side.learn(events)
    seen, items = set(), []
    for item in events.get("items") or []:
        key = str(side.canonical(item))
        if key not in seen:
            seen.add(key)
            items.append(item)
    return {**events, "items": items}


def _shown(recorded: Json, ours: Json, step: Step) -> Json:
    """Our body with the cuts that were made in the recorded one."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        if recorded.keys() == {"metadata", "spec"} and "kind" in ours:  # cut to what matters
            metadata = {"name": ours["metadata"]["name"]}
            return {"metadata": metadata, "spec": ours["spec"]}
        if "items other than" in step.note:
            names = [item["metadata"]["name"] for item in recorded["items"]]
            items = [item for item in ours["items"] if item["metadata"]["name"] in names]
            return {**ours, "items": items}
        if str(recorded.get("kind", "")).endswith("List"):
            if "items" not in recorded:
                return {key: value for key, value in ours.items() if key != "items"}
            items = recorded["items"]
            if items and all(isinstance(item, str) for item in items):
                return {**ours, "items": [item["metadata"]["name"] for item in ours["items"]]}
    return ours


def _headers(recorded: dict[str, str], reply: Reply, left: Side, right: Side) -> list[str]:
    names = {name.lower(): value for name, value in recorded.items()}
    lines = []
    wanted = names.get("content-type", "").partition(";")[0]
    found = reply.headers.get("content-type", "").partition(";")[0]
    if wanted and wanted != found:
        lines.append(f"content type: recorded {wanted}, ours {found}")
    wanted, found = names.get("warning", ""), reply.headers.get("warning", "")
    if left.text(wanted) != right.text(found):
        lines.append(f"warning: recorded {wanted!r}, ours {found!r}")
    return lines
