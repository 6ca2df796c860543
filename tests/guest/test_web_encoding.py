"""TextEncoder, TextDecoder, atob and btoa (https://encoding.spec.whatwg.org/)."""

from __future__ import annotations

import codecs
import json

import pytest

from gloveport import AgentSandbox


@pytest.fixture(scope="module")
def run():
    with AgentSandbox({}, isolation="inline") as session:
        yield session.run


def decoded(run, data: bytes, label="utf-8", options="{}", chunks=None):
    parts = chunks or [len(data)]
    code = f"""
    const d = new TextDecoder({json.dumps(label)}, {options}), bytes = new Uint8Array({list(data)}); let at = 0,
      out = '';
    for (const n of {parts}) {{ out += d.decode(bytes.subarray(at, at + n), {{stream: true}}); at += n }}
    return out + d.decode()
    """
    return run(code)


TEXTS = ["", "plain", "héllo €", "😀 a 𝒳", "\u0000\u007f\u0080\u07ff\u0800\uffff", "日本語" * 50]


@pytest.mark.parametrize("text", TEXTS)
def test_utf8_round_trip(run, text):
    assert bytes(run(f"return new TextEncoder().encode({json.dumps(text)})")) == text.encode()
    assert decoded(run, text.encode()) == text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("label", ["utf-8", "utf-16le", "utf-16be"])
def test_any_cut_of_a_stream_gives_the_same_text(run, text, label):
    data = text.encode(label)
    for size in (1, 2, 3, 5):
        assert decoded(run, data, label, chunks=[size] * (len(data) // size + 1)) == text


BROKEN = [
    b"a\xff",
    b"\xc0\x80",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x28\xa1",
    b"\x80\x80z",
]


@pytest.mark.parametrize("data", BROKEN)
def test_ill_formed_utf8_is_replaced_as_python_does_it(run, data):
    assert decoded(run, data) == data.decode(errors="replace")
    assert decoded(run, data, chunks=[1] * len(data)) == data.decode(errors="replace")
    code = f"""
    try {{ return new TextDecoder('utf-8',
      {{fatal: true}}).decode(new Uint8Array({list(data)})) }} catch (e) {{ return [e.name] }}
    """
    assert run(code) == ["TypeError"]


def test_fatal_lets_good_text_pass(run):
    assert decoded(run, "ok €".encode(), options="{fatal: true}", chunks=[4, 2]) == "ok €"


BROKEN_16 = [
    (b"\x00\xd8a\x00", "utf-16le"),
    (b"\x00", "utf-16le"),
    (b"\xdc\x00", "utf-16be"),
    (b"\x00a\x00", "utf-16be"),
]


@pytest.mark.parametrize(("data", "label"), BROKEN_16)
def test_ill_formed_utf16(run, data, label):
    assert decoded(run, data, label) == codecs.decode(data, label, "replace")
    code = f"""
    try {{ return new TextDecoder('{label}',
      {{fatal: true}}).decode(new Uint8Array({list(data)})) }} catch (e) {{ return [e.name] }}
    """
    assert run(code) == ["TypeError"]


def test_latin1_is_windows_1252(run):
    data = bytes(range(256))
    expected = "".join(bytes([b]).decode("cp1252") if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(b) for b in data)
    assert decoded(run, data, "Latin1") == expected
    assert run("return new TextDecoder(' ISO-8859-1\\n').encoding") == "windows-1252"


def test_byte_order_marks(run):
    data = b"\xef\xbb\xbfa"
    assert decoded(run, data) == "a"
    assert decoded(run, data, chunks=[1, 1, 1, 1]) == "a"
    assert decoded(run, data + data) == "a\ufeffa"
    assert decoded(run, data, options="{ignoreBOM: true}") == "\ufeffa"
    assert decoded(run, b"\xff\xfea\x00", "utf-16le") == "a"


def test_unknown_labels_and_inputs(run):
    code = """
    return [() => new TextDecoder('shift-jis'), () => new TextDecoder().decode('text'),
      () => TextDecoder()].map(f => { try { f(); return 'ok' } catch (e) { return e.name } })
    """
    assert run(code) == ["RangeError", "TypeError", "TypeError"]


def test_encoder_details(run):
    code = """
    const e = new TextEncoder(), to = new Uint8Array(5);
    return [[...e.encode('\\ud800x')], e.encodeInto('€€€', to), [...to], e.encode().length, e.encoding]
    """
    assert run(code) == [[0xEF, 0xBF, 0xBD, 0x78], {"read": 1, "written": 3}, [0xE2, 0x82, 0xAC, 0, 0], 0, "utf-8"]


def test_views_with_an_offset(run):
    code = """
    const buffer = new TextEncoder().encode('0123456789').buffer;
    return [new Uint8Array(buffer, 2, 3), new DataView(buffer, 4, 2), new Uint16Array(buffer, 2, 1),
      buffer].map(v => new TextDecoder().decode(v))
    """
    assert run(code) == ["234", "45", "23", "0123456789"]


def test_base64(run):
    assert run("return [btoa('hi\\xff'), atob(' aGn/ '), atob('aA')]") == ["aGn/", "hi\xff", "h"]
    code = """
    return [() => btoa('€'), () => atob('a'), () => atob('*'),
      () => atob('aGk=')].map(f => { try { return f() } catch (e) { return [e.name, e instanceof DOMException,
      e.code] } })
    """
    error = ["InvalidCharacterError", True, 5]
    assert run(code) == [error, error, error, "hi"]
