"""URL and URLSearchParams of the guest: cases of the URL standard (https://url.spec.whatwg.org/)."""

from __future__ import annotations

import json

import pytest

from gloveport import AgentSandbox


@pytest.fixture(scope="module")
def run():
    with AgentSandbox({}, isolation="inline") as session:
        yield session.run


PARSED = [
    ("https://user:pw@example.org:8080/a/../b?x=1#h", None, "https://user:pw@example.org:8080/b?x=1#h"),
    ("../c?d", "http://h/a/b/", "http://h/a/c?d"),
    ("//other/x", "https://h/a", "https://other/x"),
    ("HTTP://EXAMPLE.org:80/%7Efoo/ü", None, "http://example.org/%7Efoo/%C3%BC"),
    ("https://bücher.example/", None, "https://xn--bcher-kva.example/"),
    ("http://0x7f.1/", None, "http://127.0.0.1/"),
    ("http://[::1:0:0]/", None, "http://[::1:0:0]/"),
    ("mailto:a@b.c?subject=x y", None, "mailto:a@b.c?subject=x%20y"),
    ("file:///C:/a/../b", None, "file:///C:/b"),
    ("?q=\ud83d\ude00", "https://h/p", "https://h/p?q=%F0%9F%98%80"),
]


@pytest.mark.parametrize(("text", "base", "href"), PARSED)
def test_parsing(run, text, base, href):
    arguments = json.dumps([text] if base is None else [text, base])
    assert run(f"return new URL(...{arguments}).href") == href


@pytest.mark.parametrize(
    "text", ["", "no scheme", "http://", "http://a b/", "http://h:99999/", "http://[::1/", "https://exa%23mple/"]
)
def test_what_is_no_url_is_a_type_error(run, text):
    code = f"try {{ new URL({json.dumps(text)}); return 'parsed' }} catch (e) {{ return e.constructor === TypeError }}"
    assert run(code) is True
    assert run(f"return [URL.canParse({json.dumps(text)}), URL.parse({json.dumps(text)})]") == [False, None]


def test_parts_can_be_read_and_set(run):
    code = """
    const u = new URL('https://h/a'); u.port = '8443'; u.hash = 'x y'; u.searchParams.append('q', 'a b&c');
      u.host = 'i:1'; u.pathname = 'é';
    return [u.href, u.origin, u.port, u.search, JSON.stringify({u}), `${u}`, u.searchParams === u.searchParams]
    """
    href = "https://i:1/%C3%A9?q=a+b%26c#x%20y"
    assert run(code) == [
        href,
        "https://i:1",
        "1",
        "?q=a+b%26c",
        json.dumps({"u": href}, separators=(",", ":")),
        href,
        True,
    ]


def test_search_params(run):
    code = """
    const p = new URLSearchParams({a: '1', b: 'x&y'}); p.append('a', '2'); p.set('c', 'ü'); p.delete('b'); p.sort();
    return [p.toString(), p.getAll('a'), p.has('a', '2'), p.has('a', '3'), [...p.keys()], p.size,
      new URLSearchParams([['k', 'v+']]).toString(),
      [...new URLSearchParams('?x=%F0%9F%98%80+1&y')]]
    """
    assert run(code) == [
        "a=1&a=2&c=%C3%BC",
        ["1", "2"],
        True,
        False,
        ["a", "a", "c"],
        3,
        "k=v%2B",
        [["x", "😀 1"], ["y", ""]],
    ]


def test_console_shows_them(run):
    with AgentSandbox({}, isolation="inline") as session:
        out = session.execute("console.log(new URL('https://h/a?b=c'), new URLSearchParams('x=1&y=it'))").stdout
    assert "URL {" in out
    assert "href: 'https://h/a?b=c'" in out
    assert "searchParams: URLSearchParams { 'b' => 'c' }" in out
    assert "URLSearchParams { 'x' => '1', 'y' => 'it' }" in out


def test_a_look_alike_is_not_taken_for_one(run):
    """The hidden symbol of a real one can be found; an object with it must not break the console."""
    code = """
    const [hidden] = Object.getOwnPropertySymbols(new URL('https://h/'));
    class Fake { get [hidden]() { return 1 } }
    console.log(new Fake(), Object.defineProperty(new Fake(), hidden, {value: {}}));
    try { URL.prototype.toString.call({[hidden]: 1}); return 'called' } catch (e) { return e.name }
    """
    assert run(code) == "TypeError"
