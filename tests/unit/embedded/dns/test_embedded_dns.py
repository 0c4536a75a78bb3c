"""Cluster DNS: names as CoreDNS knows them, and no packet that hurts."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest
from dnslib import QTYPE, DNSHeader, DNSQuestion, DNSRecord
from embedded_netns import (
    NAMESPACES,
    SERVICES,
    SLICES,
    FakeSource,
    endpoint,
    namespace,
    piece,
    service,
)
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.dns.server import TTL, DnsServer

D = "demo.svc.cluster.local"


def cluster() -> FakeSource:
    source = FakeSource()
    source.put(NAMESPACES, namespace("demo"))
    source.put(SERVICES, service("web", "10.96.1.1", ((80, "http"), (81, "admin"))))
    source.put(SLICES, piece("web", ["10.244.0.7"], ((8080, "http"), (8081, "admin"))))
    source.put(SERVICES, service("db", "None", ((5432, "sql"),)))
    source.put(
        SLICES,
        piece(
            "db",
            [
                {**endpoint("10.244.0.1"), "hostname": "db-0"},
                "10.244.0.2",
                endpoint("10.244.0.3", ready=False),
            ],
            ((5432, "sql"),),
        ),
    )
    source.put(SERVICES, service("nobody", "None"))
    source.put(SERVICES, service("idle", "10.96.1.2"))
    external = {"type": "ExternalName", "externalName": f"Web.{D}."}
    source.put(SERVICES, service("inside", "", **external))
    source.put(SERVICES, service("outside", "", type="ExternalName", externalName="x.example"))
    source.put(SERVICES, service("nowhere", "", type="ExternalName", externalName=f"no.{D}"))
    source.put(SERVICES, service("loop-a", "", type="ExternalName", externalName=f"loop-b.{D}"))
    source.put(SERVICES, service("loop-b", "", type="ExternalName", externalName=f"loop-a.{D}"))
    return source


def ask(server: DnsServer, name: str, kind: str = "A") -> DNSRecord:
    reply = server.answer(DNSRecord.question(name, kind).pack())
    assert reply is not None
    return DNSRecord.parse(reply)


def seen(server: DnsServer, name: str, kind: str = "A") -> tuple[int, list[tuple[str, str, str]]]:
    reply = ask(server, name, kind)
    records = [
        (str(record.rname).rstrip("."), QTYPE[record.rtype], str(record.rdata))
        for record in reply.rr
    ]
    return reply.header.rcode, records


NOERROR, FORMERR, NXDOMAIN, NOTIMP, REFUSED = 0, 1, 3, 4, 5


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        (f"web.{D}", "A", ["10.96.1.1"]),
        (f"WEB.{D}", "A", ["10.96.1.1"]),
        (f"idle.{D}", "A", ["10.96.1.2"]),
        (f"db.{D}", "A", ["10.244.0.1", "10.244.0.2"]),
        (f"db-0.db.{D}", "A", ["10.244.0.1"]),
        (f"10-244-0-2.db.{D}", "A", ["10.244.0.2"]),
        (f"10-244-0-7.web.{D}", "A", ["10.244.0.7"]),
        (f"_http._tcp.web.{D}", "SRV", [f"0 100 80 web.{D}."]),
        (
            f"_sql._tcp.db.{D}",
            "SRV",
            [f"0 100 5432 db-0.db.{D}.", f"0 100 5432 10-244-0-2.db.{D}."],
        ),
        (f"web.{D}", "SRV", [f"0 100 80 web.{D}.", f"0 100 81 web.{D}."]),
        ("1.1.96.10.in-addr.arpa", "PTR", [f"web.{D}."]),
        (f"inside.{D}", "A", [f"web.{D}.", "10.96.1.1"]),
        (f"inside.{D}", "CNAME", [f"web.{D}."]),
        (f"outside.{D}", "A", ["x.example."]),
        ("10-1-2-3.demo.pod.cluster.local", "A", ["10.1.2.3"]),
    ],
)
def test_records(name: str, kind: str, values: list[str]) -> None:
    code, records = seen(DnsServer(cluster()), name, kind)
    assert code == NOERROR
    assert [value for _, _, value in records] == values
    assert records[0][0] == name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"web.{D}", "AAAA"),
        (f"web.{D}", "TXT"),
        (f"db.{D}", "AAAA"),
        (f"inside.{D}", "AAAA"),
        (f"nowhere.{D}", "A"),
        (f"loop-a.{D}", "A"),
        (D, "A"),
        ("svc.cluster.local", "A"),
        ("cluster.local", "A"),
        (f"_tcp.web.{D}", "A"),
        ("demo.pod.cluster.local", "A"),
    ],
)
def test_existing_names_without_such_records_have_no_data(name: str, kind: str) -> None:
    reply = ask(DnsServer(cluster()), name, kind)
    assert (reply.header.rcode, reply.rr) == (NOERROR, [])
    assert [QTYPE[record.rtype] for record in reply.auth] == ["SOA"]


@pytest.mark.parametrize("kind", ["A", "AAAA", "SRV"])
@pytest.mark.parametrize(
    "name",
    [
        f"missing.{D}",
        f"nobody.{D}",  # headless without ready endpoints, as recorded
        f"10-244-0-3.db.{D}",
        f"_nope._tcp.web.{D}",
        f"x.y.web.{D}",
        "web.other.svc.cluster.local",
        "web.svc.cluster.local",
        "web.cluster.local",
        "web",
        "1-2-3.demo.pod.cluster.local",
        "1-2-3-4.other.pod.cluster.local",
        "example.org",
        "kubernetes.io",
        "4.0.42.10.in-addr.arpa",
    ],
)
def test_other_names_do_not_exist(name: str, kind: str) -> None:
    code, records = seen(DnsServer(cluster()), name, kind)
    assert (code, records) == (NXDOMAIN, [])


def test_answers_are_authoritative_with_the_recorded_lifetime() -> None:
    reply = ask(DnsServer(cluster()), f"web.{D}")
    assert reply.header.aa
    assert [record.ttl for record in reply.rr] == [TTL] == [5]
    (authority,) = ask(DnsServer(cluster()), f"missing.{D}").auth
    assert authority.ttl == TTL
    assert authority.rdata.times[4] == TTL


def test_service_records_bring_their_addresses() -> None:
    reply = ask(DnsServer(cluster()), f"_sql._tcp.db.{D}", "SRV")
    assert [str(record.rdata) for record in reply.ar] == ["10.244.0.1", "10.244.0.2"]


def test_start_of_authority_of_the_domain() -> None:
    ((name, kind, _),) = seen(DnsServer(cluster()), "cluster.local", "SOA")[1]
    assert (name, kind) == ("cluster.local", "SOA")


def test_changes_are_seen_at_once() -> None:
    source = cluster()

    async def scenario() -> None:
        server = DnsServer(source, address="127.0.0.1", port=0)
        await server.start()
        assert seen(server, f"web.{D}")[0] == NOERROR
        source.drop(SERVICES, "demo", "web")
        assert seen(server, f"web.{D}")[0] == NXDOMAIN
        source.put(SERVICES, service("web", "10.96.9.9"))
        assert seen(server, f"web.{D}")[1][0][2] == "10.96.9.9"
        source.put(SLICES, piece("nobody", ["10.244.0.9"]))
        assert seen(server, f"nobody.{D}")[1][0][2] == "10.244.0.9"
        await server.stop()
        await server.stop()
        assert not source.callbacks

    asyncio.run(scenario())


def test_hidden_names_come_and_go() -> None:
    server = DnsServer(cluster())
    hidden = service("probe", "10.96.0.240")
    hidden["metadata"]["namespace"] = "secret"
    server.hide([hidden], [], ["secret"])
    assert seen(server, "probe.secret.svc.cluster.local")[0] == NOERROR
    server.hide([], [])
    assert seen(server, "probe.secret.svc.cluster.local")[0] == NXDOMAIN


def test_another_domain() -> None:
    server = DnsServer(cluster(), domain="Example.Test.")
    assert seen(server, "web.demo.svc.example.test")[0] == NOERROR
    assert seen(server, f"web.{D}")[0] == NXDOMAIN


@pytest.mark.parametrize("address", ["999.1.1.1", "x", "", "fd00::1"])
def test_addresses_that_are_none_are_left_out(address: str) -> None:
    source = cluster()
    source.put(SLICES, piece("db", [address, "10.244.0.5"], ((5432, "sql"),)))
    assert [value for *_, value in seen(DnsServer(source), f"db.{D}")[1]] == ["10.244.0.5"]


def many() -> FakeSource:
    source = cluster()
    addresses = [f"10.244.1.{number}" for number in range(1, 201)]
    source.put(SLICES, piece("db", addresses, ((5432, "sql"),)))
    return source


def test_answers_that_do_not_fit_are_truncated_over_udp_only() -> None:
    server = DnsServer(many())
    packet = DNSRecord.question(f"db.{D}").pack()
    short = server.answer(packet)
    assert short is not None
    assert len(short) <= 512
    assert DNSRecord.parse(short).header.tc
    whole = server.answer(packet, over_udp=False)
    assert whole is not None
    assert len(DNSRecord.parse(whole).rr) == 200


def test_sizes_are_negotiated() -> None:
    from dnslib import EDNS0

    source = cluster()
    addresses = [f"10.244.1.{number}" for number in range(1, 41)]
    source.put(SLICES, piece("db", addresses, ((5432, "sql"),)))
    question = DNSRecord.question(f"db.{D}")
    question.add_ar(EDNS0(udp_len=4096))
    reply = DnsServer(source).answer(question.pack())
    assert reply is not None
    assert len(DNSRecord.parse(reply).rr) == 40
    assert any(record.rtype == 41 for record in DNSRecord.parse(reply).ar)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"opcode": 2}, NOTIMP),
        ({"questions": 0}, FORMERR),
        ({"questions": 2}, FORMERR),
        ({"qclass": 3}, REFUSED),
    ],
)
def test_what_is_not_served_is_said(change: dict[str, int], code: int) -> None:
    record = DNSRecord(DNSHeader(id=77, opcode=change.get("opcode", 0)))
    for _ in range(change.get("questions", 1)):
        record.add_question(DNSQuestion(f"web.{D}", qclass=change.get("qclass", 1)))
    reply = DnsServer(cluster()).answer(record.pack())
    assert reply is not None
    assert (int.from_bytes(reply[:2], "big"), reply[3] & 0xF) == (77, code)


def test_responses_and_stubs_get_no_answer() -> None:
    server = DnsServer(cluster())
    assert server.answer(b"") is None
    assert server.answer(b"\0" * 11) is None
    reply = server.answer(DNSRecord.question(f"web.{D}").pack())
    assert reply is not None
    assert server.answer(reply) is None


GOOD = DNSRecord.question(f"web.{D}").pack()
SERVER = DnsServer(cluster())


@given(st.binary(max_size=600))
def test_any_bytes_are_answered_or_left(packet: bytes) -> None:
    check(packet)


@given(st.binary(min_size=0, max_size=80), st.integers(0, 15))
def test_any_body_behind_a_sound_header(body: bytes, counts: int) -> None:
    header = b"\x12\x34\x01\x00" + b"".join(
        (1 if counts >> place & 1 else 0).to_bytes(2, "big") for place in range(4)
    )
    check(header + body)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_damage_of_a_sound_question(place: int, value: int) -> None:
    check(GOOD[:place] + bytes([value]) + GOOD[place + 1 :])


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), max_size=6),
    st.sampled_from(["A", "AAAA", "SRV", "PTR", "ANY", "SOA"]),
)
def test_any_name(labels: list[str], kind: str) -> None:
    raw = b"".join(
        bytes([len(text[:20].encode()[:63])]) + text[:20].encode()[:63] for text in labels
    )
    question = raw + b"\0" + getattr(QTYPE, kind).to_bytes(2, "big") + b"\0\x01"
    check(b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0" + question)


def check(packet: bytes) -> None:
    for over_udp in (True, False):
        reply = SERVER.answer(packet, over_udp=over_udp)
        if reply is not None:
            assert reply[:2] == packet[:2]
            assert reply[2] & 0x80
            DNSRecord.parse(reply)


def test_over_the_wire() -> None:
    async def scenario() -> None:
        server = DnsServer(many(), address="127.0.0.1", port=0)
        await server.start()
        loop = asyncio.get_running_loop()
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(("127.0.0.1", server.port))
            for rubbish in (b"", b"x", b"\xff" * 40):
                client.send(rubbish)
            client.send(GOOD)
            reply = await asyncio.wait_for(loop.sock_recv(client, 4096), 10)
            if reply[:2] != GOOD[:2]:  # the FORMERR to one of the above
                reply = await asyncio.wait_for(loop.sock_recv(client, 4096), 10)
            assert str(DNSRecord.parse(reply).rr[0].rdata) == "10.96.1.1"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        question = DNSRecord.question(f"db.{D}").pack()
        for _ in range(2):
            writer.write(len(question).to_bytes(2, "big") + question)
            size = int.from_bytes(await reader.readexactly(2), "big")
            assert len(DNSRecord.parse(await reader.readexactly(size)).rr) == 200
        idle_reader, idle = await asyncio.open_connection("127.0.0.1", server.port)
        idle.write(b"\0")
        await server.stop()
        with suppress(ConnectionResetError):
            assert await idle_reader.read() == b""
        for item in (writer, idle):
            item.close()

    asyncio.run(scenario())


def test_port_that_is_taken_is_an_error() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = DnsServer(cluster(), address="127.0.0.1", port=taken.getsockname()[1])
            with pytest.raises(OSError, match="address already in use"):
                await server.start()

    asyncio.run(scenario())
