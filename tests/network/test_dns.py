"""The name server of a jail's network, on packets that a guest may make up."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.egress.gateway.dns import answer, shortened
from gloveport.egress.gateway.names import Names


def query(name, kind=1, *, flags=0x100, count=1, of=1, labels=None):
    labels = [label.encode() for label in name.split(".")] if labels is None else labels
    packed = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return struct.pack("!HHHHHH", 0x1234, flags, count, 0, 0, 0) + packed + struct.pack("!HH", kind, of)


def asked(packet, names=None, why=lambda host, port: None):
    """Code, answers and the end of an answer."""
    said = answer(packet, names or Names(100), why)
    identity, flags, _, answers, _, _ = struct.unpack_from("!HHHHHH", said)
    assert identity == 0x1234
    assert flags & 0x8000
    return flags & 0xF, answers, said


def test_every_name_has_an_address_of_its_own():
    names = Names(100)
    code, count, said = asked(query("a.example.com"), names)
    assert (code, count) == (0, 1)
    assert said.endswith(b"\xc6\x12\x00\x01")
    assert asked(query("b.example.com"), names)[2].endswith(b"\xc6\x12\x00\x02")
    assert asked(query("A.EXAMPLE.COM"), names)[2].endswith(b"\xc6\x12\x00\x01")
    assert names.host(names.address("b.example.com")) == "b.example.com"


def test_no_other_records():
    for kind in (28, 15, 16, 33, 65, 255):
        assert asked(query("a.example.com", kind))[:2] == (0, 0)


def test_a_name_beyond_the_last_gets_nothing_and_none_is_taken_away():
    names = Names(2)
    first = [asked(query(f"n{n}.test"), names)[:2] for n in range(4)]
    assert first == [(0, 1), (0, 1), (2, 0), (2, 0)]
    assert names.host(names.address("n0.test")) == "n0.test"


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (query("127.0.0.1"), 3),
        (query("0x7f.1"), 3),
        (query("", labels=[b"a.b", b"test"]), 3),
        (query("", labels=[b"a\0b", b"test"]), 3),
        (query("", labels=["ä".encode("latin-1"), b"test"]), 3),
        (query("", labels=[]), 3),
        (query("a.test", count=2), 1),
        (query("a.test", count=0), 1),
        (query("a.test", of=3), 1),
        (query("a.test", flags=0x2900), 4),
        (query("a.test")[:-1], 1),
        (query("a.test")[:15], 1),
        (query("")[:12] + b"\xc0\x0c\0\x01\0\x01", 1),
        (query("", labels=[b"a" * 63] * 5), 1),
    ],
)
def test_questions_that_have_no_answer(packet, code):
    assert asked(packet)[:2] == (code, 0)


def test_what_deserves_no_answer():
    names = Names(1)
    assert answer(b"", names, lambda *_: None) is None
    assert answer(bytes(11), names, lambda *_: None) is None
    assert (
        answer(query("a.test", flags=0x8100), names, lambda *_: None) is None
    )  # an answer: else two could go on for ever


def test_why():
    seen = []

    def why(host, port):
        seen.append((host, port))
        return "because " + "x" * 300

    code, count, said = asked(query("443.a.example.com.why.gloveport.internal", 16), why=why)
    assert (code, count) == (0, 1)
    assert b"because xxx" in said
    asked(query("80.2606-4700--1.why.gloveport.internal", 16), why=why)
    asked(query("80.a-b.test.why.gloveport.internal", 16), why=why)
    assert seen == [("a.example.com", 443), ("2606:4700::1", 80), ("a-b.test", 80)]
    for name in ("x.a.test", "99999999.a.test", "a.test", "²2.a.test"):
        assert (
            asked(
                query("", 16, labels=[*(p.encode() for p in name.split(".")), b"why", b"gloveport", b"internal"]),
                why=why,
            )[1]
            == 0
        )


def test_a_datagram_has_512_bytes():
    packet = query("a." * 60 + "test")
    long = asked(packet, why=None)[2] + bytes(400)
    short = shortened(long)
    assert len(short) == 12
    assert struct.unpack_from("!H", short, 2)[0] & 0x200
    assert shortened(long[:512]) == long[:512]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_nothing_is_ever_raised(data):
    names = Names(10)
    for packet in (data, query("a.test")[:12] + data, query("a.test", flags=0)[:13] + data):
        answer(packet, names, lambda host, port: "why")
