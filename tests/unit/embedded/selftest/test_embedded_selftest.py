"""The self-test: equal to the recordings, honest about deviations, without traces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import needs
import pytest
from embedded_netns import SERVICES, FakeSource, connecting, in_namespace, service

from pytest_sremut.embedded.dns.server import DnsServer
from pytest_sremut.embedded.linux import syscalls
from pytest_sremut.embedded.linux.listeners import is_local
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.proxy import Mode, ServiceProxy
from pytest_sremut.embedded.selftest import selftest
from pytest_sremut.embedded.selftest.expectations import EXPECTATIONS, Expectation
from pytest_sremut.embedded.selftest.selftest import Observed, Stage

CORPUS = Path(__file__).parents[4].parent / "shared" / "k8s-golden"
APPLETS = Path(selftest.__file__).parents[1] / "applets"
RESOLV_CONF = "nameserver 10.96.0.10\nsearch svc.cluster.local cluster.local\noptions ndots:5\n"


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda item: item.name)
def test_each_expectation_is_what_was_recorded(expectation: Expectation) -> None:
    if not CORPUS.is_dir():
        pytest.skip("the recordings are not here")
    record = json.loads((CORPUS / expectation.source).read_text())
    command = next(item for item in record["commands"] if item["cmd"] == expectation.command)
    names: dict[str, str] = {}
    recorded = expectation.command.split(" ")
    assert len(recorded) == len(expectation.argv)
    for place, (part, text) in enumerate(zip(expectation.argv, recorded, strict=True)):
        if place and expectation.argv[place - 1] == "-w":
            continue  # a shorter timeout of its own is the one liberty taken
        found = match(part, text)
        assert found is not None, (part, text)
        names.update(found)
    assert command["exit_code"] == expectation.exit_code
    for stream, templates in (("stdout", expectation.stdout), ("stderr", expectation.stderr)):
        lines = [line for line in command[stream].splitlines() if line]
        assert len(lines) == len(templates)
        for template, line in zip(templates, lines, strict=True):
            found = match(template, line, names)
            assert found is not None, (template, line)
            names = found
    elapsed = command["elapsed_s"]
    match expectation.when:
        case "at once":
            assert elapsed < 0.9
        case "after 1 s":
            assert 0.95 < elapsed < 1.2
        case "at its timeout":
            asked = float(re.search(r"-w (\d+)", command["cmd"])[1])  # type: ignore[index]
            assert abs(elapsed - asked) < 0.1


def match(template: str, text: str, known: dict[str, str] | None = None) -> dict[str, str] | None:
    """The values of a template's names in `text`; None if it does not fit."""
    seen: set[str] = set()

    def group(found: re.Match[str]) -> str:
        name = found[1]
        if known and name in known:
            return re.escape(known[name])
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>[^ ]+?)"

    pattern = re.sub(r"\\\{(\w+)\\\}", group, re.escape(template))
    found = re.fullmatch(pattern, text)
    return None if found is None else {**(known or {}), **found.groupdict()}


def test_expectations_are_complete() -> None:
    names = [item.name for item in EXPECTATIONS]
    assert len(set(names)) == len(names)
    assert {item.tool for item in EXPECTATIONS} == {"nslookup", "nc", "wget"}
    assert {item.when for item in EXPECTATIONS} == {"at once", "after 1 s", "at its timeout"}


@contextlib.asynccontextmanager
async def cluster(mode: Mode) -> AsyncIterator[tuple[ServiceProxy, DnsServer, ClusterAddresses]]:
    own_resolv_conf()
    addresses = ClusterAddresses()
    addresses.prepare()
    source = FakeSource()
    dns = DnsServer(source)
    await dns.start()
    router = ServiceProxy(source, addresses=addresses, mode=mode)
    await router.start()
    yield router, dns, addresses
    await router.stop()
    await dns.stop()
    addresses.close()


def own_resolv_conf() -> None:
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(RESOLV_CONF)
        file.flush()
        syscalls.mount(file.name, "/etc/resolv.conf", flags=syscalls.MS_BIND)


async def applets(argv: Sequence[str]) -> Observed:
    program = APPLETS / f"{argv[0]}.py"
    return await selftest._spawn_here([sys.executable, "-ISE", str(program), *argv[1:]])


def replay(**changes: Callable[[Observed], Observed]) -> selftest.Spawn:
    """Answers every probe from the table itself, changed for the named tools."""

    async def spawn(argv: Sequence[str]) -> Observed:
        return changes.get(argv[0], lambda seen: seen)(await perfect(argv))

    return spawn


async def perfect(argv: Sequence[str]) -> Observed:
    stage = names_of_stage
    for item in EXPECTATIONS:
        if tuple(part.format_map(stage) for part in item.argv) == tuple(argv):
            elapsed = {"at once": 0.01, "after 1 s": 1.02}.get(item.when, item.timeout)
            streams = [
                "".join(f"{line.format_map(stage)}\n\n" for line in lines)
                for lines in (item.stdout, item.stderr)
            ]
            return Observed(
                exit_code=item.exit_code, stdout=streams[0], stderr=streams[1], elapsed=elapsed
            )
    raise AssertionError(argv)


names_of_stage = {
    **{
        f"{name}": f"10.96.0.{240 + i}"
        for i, name in enumerate(("good", "closed", "empty", "deleted"))
    },
    **{
        f"{name}_name": f"{name}.sremut-selftest.svc.cluster.local"
        for name in ("good", "closed", "empty", "deleted")
    },
    "dns": "10.96.0.10",
    "pod": "10.244.255.251",
    "gone_pod": "10.244.255.252",
    "body": "sremut-selftest",
}


@pytest.mark.parametrize("mode", ["forwarder", "nft"])
@in_namespace
async def test_our_own_cluster_and_programs_pass(mode: Mode) -> None:
    if mode == "nft":
        needs.located("nft")
    async with cluster(mode) as (router, dns, addresses):
        report = await selftest.run(router=router, dns=dns, addresses=addresses, spawn=applets)
        assert report.deviations == []
        assert report.ok
        assert [probe.name for probe in report.probes] == [item.name for item in EXPECTATIONS]
        assert report.routing["mode"] == mode
        document = json.loads(json.dumps(report.to_json()))
        assert document["ok"] is True
        assert {probe["source"] for probe in document["probes"]} == {
            item.source for item in EXPECTATIONS
        }
        # No trace is left.
        assert not router.table()
        assert not is_local("10.244.255.251")
        assert (await connecting("10.96.0.240", 80, patience=0.2)).result == "timed out"


@in_namespace
async def test_the_stage_is_as_the_names_say() -> None:
    async with cluster("forwarder") as (router, dns, addresses):
        async with Stage(router=router, dns=dns, addresses=addresses) as stage:
            assert stage.names == names_of_stage
        report = await selftest.run(router=router, dns=dns, addresses=addresses, spawn=replay())
        assert report.ok


@in_namespace
async def test_addresses_that_users_hold_are_left_to_them() -> None:
    async with cluster("forwarder") as (router, dns, addresses):
        source = router._registry
        assert isinstance(source, FakeSource)
        source.put(SERVICES, service("mine", "10.96.0.240"))
        async with Stage(router=router, dns=dns, addresses=addresses) as stage:
            assert stage.names["good"] == "10.96.0.241"


def changed(**fields: object) -> Callable[[Observed], Observed]:
    import dataclasses

    return lambda seen: dataclasses.replace(seen, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tool", "change", "complaint"),
    [
        ("nc", changed(exit_code=0), "exit code 0 instead of 1"),
        ("nc", changed(exit_code=139), "exit code 139 instead of 0"),
        ("wget", changed(stderr=""), "stderr [] instead of"),
        ("nslookup", changed(stdout="Address: 1.2.3.4\n"), "stdout ['Address: 1.2.3.4'] instead"),
        ("nc", changed(elapsed=0.0), "took 0.00 s instead of 1.00 or more (after 1 s)"),
        ("nc", changed(elapsed=1.0), "took 1.00 s (at once), while answers of other"),
    ],
)
@in_namespace
async def test_each_kind_of_deviation_is_told(
    tool: str, change: Callable[[Observed], Observed], complaint: str
) -> None:
    async with cluster("forwarder") as (router, dns, addresses):
        report = await selftest.run(
            router=router, dns=dns, addresses=addresses, spawn=replay(**{tool: change})
        )
        assert not report.ok
        assert any(complaint in text for text in report.deviations)
        assert {probe.argv[0] for probe in report.probes if not probe.ok} == {tool}
        assert report.to_json()["ok"] is False


@in_namespace
async def test_slowness_alone_is_tried_again() -> None:
    calls: dict[tuple[str, ...], int] = {}

    async def slow_first(argv: Sequence[str]) -> Observed:
        key = tuple(argv)
        calls[key] = calls.get(key, 0) + 1
        seen = await perfect(argv)
        # nc alone is late, and only once: as if all else had come before.
        late = 5.0 if argv[0] == "nc" and calls[key] == 1 and seen.elapsed < 0.9 else 0.0
        return changed(elapsed=seen.elapsed + late)(seen)

    async with cluster("forwarder") as (router, dns, addresses):
        report = await selftest.run(router=router, dns=dns, addresses=addresses, spawn=slow_first)
        assert report.ok
        late = {probe.argv: probe.tries for probe in report.probes if probe.argv[0] == "nc"}
        assert all(2 <= tries <= 3 for tries in late.values()), late
        assert all(probe.tries == 1 for probe in report.probes if probe.argv[0] != "nc")


@pytest.mark.parametrize("late", [0.91, 2.0, 12.0])
@in_namespace
async def test_a_slow_machine_is_no_other_machine(late: float) -> None:
    async def slow(argv: Sequence[str]) -> Observed:
        seen = await perfect(argv)
        return changed(elapsed=seen.elapsed + late)(seen)

    async with cluster("forwarder") as (router, dns, addresses):
        report = await selftest.run(router=router, dns=dns, addresses=addresses, spawn=slow)
        assert report.deviations == []


@in_namespace
async def test_programs_that_cannot_run_are_deviations() -> None:
    async def missing(argv: Sequence[str]) -> Observed:
        raise FileNotFoundError(2, "No such file or directory", argv[0])

    async with cluster("forwarder") as (router, dns, addresses):
        report = await selftest.run(router=router, dns=dns, addresses=addresses, spawn=missing)
        assert not report.ok
        assert all("cannot be run" in text for text in report.deviations)


@in_namespace
async def test_machine_s_programs_are_judged() -> None:
    async with (
        cluster("forwarder") as (router, dns, addresses),
        Stage(router=router, dns=dns, addresses=addresses) as stage,
    ):
        always = await selftest.check_tool("nc", "/bin/true", stage=stage)
        assert "closed target port, nc: exit code 0 instead of 1" in always
        absent = await selftest.check_tool("wget", "/nonexistent/wget", stage=stage)
        assert "cannot be run" in absent[0]
        ours = await selftest.check_tool("nc", "nc", stage=stage, spawn=applets, quick=False)
        assert ours == []
        with pytest.raises(ValueError, match="'curl' is not one of nc, nslookup, wget"):
            await selftest.check_tool("curl", "/usr/bin/curl", stage=stage)


@in_namespace
async def test_an_empty_report_is_not_a_pass() -> None:
    report = selftest.SelfTestReport(probes=(), elapsed=0.0, routing={})
    assert not report.ok
    await asyncio.sleep(0)
