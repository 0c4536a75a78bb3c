"""What nslookup and nc say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_kube import executed
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.cluster.port import Failed
from pytest_sremut.contract.probes import exec_facts, lookup_answers, tool_trouble

GOLDEN = Path(__file__).parents[4] / "shared" / "k8s-golden" / "v1.36.2" / "03-service"

BUSYBOX = (
    "Server:\t\t10.43.0.10\nAddress:\t10.43.0.10:53\n\nName:\tweb.ns.svc\nAddress: 10.43.1.2\n\n"
)
BUSYBOX_OLD = (
    "Server:    10.96.0.10\nAddress 1: 10.96.0.10 kube-dns.kube-system.svc.cluster.local\n\n"
    "Name:      web.ns.svc\nAddress 1: 10.43.1.2 web.ns.svc.cluster.local\n"
)
BIND = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10#53\n\nName:\tweb.ns.svc\nAddress: 10.43.1.2\n"
NXDOMAIN = "Server:\t\t10.43.0.10\nAddress:\t10.43.0.10:53\n\n** server can't find x: NXDOMAIN\n\n"


@pytest.mark.parametrize("text", [BUSYBOX, BUSYBOX_OLD, BIND])
def test_the_answer_is_found(text: str) -> None:
    assert lookup_answers(text) == {"10.43.1.2"}


@pytest.mark.parametrize(
    "text", [NXDOMAIN, "", "Address: 10.1.1.1\n", "Name:\tx\nAddress: fd00::1\n"]
)
def test_the_servers_address_and_other_families_are_no_answer(text: str) -> None:
    assert lookup_answers(text) == frozenset()


def test_a_second_server_block_ends_the_answers() -> None:
    assert lookup_answers(BUSYBOX + NXDOMAIN) == {"10.43.1.2"}


def test_several_answers() -> None:
    assert lookup_answers(BUSYBOX + "Name:\tx\nAddress: 10.1.1.1\n") == {"10.43.1.2", "10.1.1.1"}


@given(st.text(alphabet="NameAdres:Srv 0123456789.\t\n1#", max_size=200) | st.text(max_size=200))
def test_any_output_is_read(text: str) -> None:
    for answer in lookup_answers(text):
        assert answer in text
        assert len(answer.split(".")) == 4


def test_tools_that_did_not_run() -> None:
    assert tool_trouble(executed(["nc"], exit_code=127))
    assert tool_trouble(executed(["wget"], exit_code=139))
    assert tool_trouble(executed(["nc"], exit_code=1, stderr="nc: invalid option -- 'z'"))
    assert tool_trouble(executed(["nc"], exit_code=1, stderr="nc: unrecognized option: z"))
    assert tool_trouble(Failed(what="exec", status=0, reason="Refused", message="x"))


def test_tools_that_answered() -> None:
    assert tool_trouble(executed(["nc"])) == ""
    assert tool_trouble(executed(["nc"], exit_code=1, stderr="nc: bad address 'x'")) == ""
    assert tool_trouble(executed(["nc"], timed_out=True)) == ""
    # An exit of 0 is an answer, whatever a tool grumbles meanwhile.
    assert tool_trouble(executed(["nc"], stderr="unknown option ignored")) == ""


def test_facts_are_json_ready() -> None:
    failed = Failed(what="exec", status=500, reason="x", message="y")
    json.dumps([exec_facts(executed(["nc"])), exec_facts(failed)])


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded probes are not here")
def test_recorded_lookups() -> None:
    """Every recorded nslookup of a full name: it resolves exactly where it exited with 0."""
    seen = 0
    for path in sorted(GOLDEN.glob("*.probe.json")):
        for command in json.loads(path.read_text())["commands"]:
            if command["cmd"].startswith("nslookup") and command["cmd"].endswith("cluster.local"):
                seen += 1
                answers = lookup_answers(command["stdout"])
                assert bool(answers) is (command["exit_code"] == 0), command
                assert "10.43.0.10" not in answers
    assert seen > 10
