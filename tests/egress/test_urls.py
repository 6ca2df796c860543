"""A URL has one reading, or is refused."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gloveport import AgentSandbox, EgressDeniedError
from gloveport.egress import Url

READ = [
    ("https://api.example.com", "https://api.example.com/"),
    ("HTTPS://API.Example.COM./v1?x=1#part", "https://api.example.com/v1?x=1"),
    ("https://api.example.com:443/", "https://api.example.com/"),
    ("http://api.example.com:443/", "http://api.example.com:443/"),
    ("https://[2606:4700:0:0::6810:1]:8443/", "https://[2606:4700::6810:1]:8443/"),
    ("https://a.test/%7euser/%e2%82%ac", "https://a.test/~user/%E2%82%AC"),
    ("https://a.test/caf\u00e9 au lait?q=\u20ac uro", "https://a.test/caf%C3%A9%20au%20lait?q=%E2%82%AC%20uro"),
    ("https://a.test/x?u=https://b.test/../\\", "https://a.test/x?u=https://b.test/../%5C"),
    ("https://xn--bcher-kva.test/", "https://xn--bcher-kva.test/"),
    ("https://a.test/.well-known/..x/x..", "https://a.test/.well-known/..x/x.."),
    ("https://a.test//b", "https://a.test//b"),
]
REFUSED = [
    "",
    " https://a.test/",
    "https://a.test/\u2003",
    "a.test/x",
    "//a.test/x",
    "https:/a.test/",
    "https:a.test/",
    "https:///a.test/",
    "https://",
    "ftp://a.test/",
    "file:///etc/passwd",
    "javascript:1",
    "https://user@a.test/",
    "https://a.test@b.test/",
    "https://user:password@a.test/",
    "https://a.test%40b.test/",
    "https://a.test:/",
    "https://a.test:0/",
    "https://a.test:080/",
    "https://a.test:65536/",
    "https://a.test:80:80/",
    "https://a.test\\@b.test/",
    "https://a.test/x\\y",
    "https:\\\\a.test/",
    "https://a.test/x\r\nHost: b.test",
    "https://a.te\tst/",
    "https://a.test/\x00",
    "https://a.test/\x7f",
    "https://a.test/\x85",
    "https://a.test/\ud800",
    "https://a.test/?q=\udfff",
    "https://a.test/../x",
    "https://a.test/v1/..",
    "https://a.test/v1/./x",
    "https://a.test/v1/%2e%2e/x",
    "https://a.test/v1/.%2E/x",
    "https://a.test/v1/%252e%252e/x",
    "https://a.test/v1/%25252E./x",
    "https://a.test/v1/..;/x",
    "https://a.test/v1/..;a=b/x",
    "https://a.test/v1%2fx",
    "https://a.test/v1%252Fx",
    "https://a.test/v1%5cx",
    "https://a.test/v1%00",
    "https://a.test/v1%0d%0aHost:x",
    "https://a.test/%c0%ae%c0%ae/x",
    "https://a.test/%zz",
    "https://a.test/%4",
    "https://b\u00fccher.test/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://a.test\u3002b.test/",
    "https://a.test\u2100b.test/",
    "https://a.test\uff0fb.test/",
    "https://a..test/",
    "https://.a.test/",
    "https://a.test../",
    "https://./",
    "https://-a.test/",
    "https://a-.test/",
    f"https://{'a' * 64}.test/",
    f"https://{'a.' * 127}test/",
    "https://a b.test/",
    "https://a,b.test/",
    "https://*.test/",
    "https://%61.test/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.01/",
    "https://127.0.0.1./",
    "https://127.0.0.256/",
    "https://1.2.3.4.5/",
    "https://a.test.1/",
    "https://a.0x1/",
    "https://[::1/",
    "https://::1/",
    "https://[::1%25lo]/",
    "https://[fe80::1%eth0]/",
    "https://[127.0.0.1]/",
    "https://[a.test]/",
    "https://[1:2:3]/",
    "https://[v1.x]/",
    "https://[]/",
    "https://[::1]x/",
]


@pytest.mark.parametrize(("text", "read"), READ)
def test_one_spelling(text, read):
    url = Url.parse(text)
    assert str(url) == read
    assert Url.parse(read) == url


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_several_readings_is_refused(text):
    with pytest.raises(EgressDeniedError, match="^blocked by policy: "):
        Url.parse(text)


def test_the_model_is_told_what_is_wrong():
    for text, reason in (
        ("https://a.test@b.test/", "user name or password"),
        ("ftp://a.test/", "must be http or https"),
    ):
        with pytest.raises(EgressDeniedError, match=reason):
            Url.parse(text)


def test_lengths_count_before_and_after_encoding():
    assert len(str(Url.parse("https://a.test/" + "x" * 85, max_length=100))) == 100
    for text in ("https://a.test/" + "x" * 86, "https://a.test/" + "\u20ac" * 20):
        with pytest.raises(EgressDeniedError, match="longer than 100"):
            Url.parse(text, max_length=100)


@pytest.mark.parametrize(
    ("location", "read"),
    [
        ("/x", "https://a.test/x"),
        ("y?z", "https://a.test/v1/y?z"),
        ("../x", "https://a.test/x"),
        ("//b.test/x", "https://b.test/x"),
        ("http://a.test/", "http://a.test/"),
        ("?q", "https://a.test/v1/w?q"),
    ],
)
def test_where_a_redirect_leads(location, read):
    url = Url.parse("https://a.test/v1/w")
    assert str(url.join(location, schemes=("http", "https"), max_length=200)) == read


@pytest.mark.parametrize(
    "location",
    [
        "/\\b.test",
        "\\\\b.test/",
        "/x\r\ny",
        "//u@b.test",
        "/%2e%2e/",
        "file:///x",
        "https://127.1/",
        "///b.test",
        "//[",
        " ",
    ],
)
def test_a_redirect_is_read_by_the_same_rules(location):
    with pytest.raises(EgressDeniedError):
        Url.parse("https://a.test/v1/w").join(location, schemes=("http", "https"), max_length=200)


PIECES = st.sampled_from(
    [
        "a.test",
        "b.test",
        "127.0.0.1",
        "0x7f",
        "[::1]",
        "@",
        ":",
        "/",
        "\\",
        "?",
        "#",
        "%",
        "%2f",
        "%40",
        "..",
        ".",
        "80",
        "\t",
        "\n",
    ]
    + [" ", "\uff0f", "\u3002", "\xad", "xn--", "é", ";", "&", "[", "]", "-", "_", "1", "https://", "*"]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(PIECES, max_size=8).map(lambda parts: "https://" + "".join(parts)),
    st.text(),
)


@given(TEXTS)
@example("https://a.test#@b.test/")
@example("https://a.test?@b.test/")
def test_another_parser_reads_the_same_host(text):
    try:
        url = Url.parse(text)
    except EgressDeniedError:
        return
    for spelling in (text, str(url)):
        other = urlsplit(spelling)
        host = (other.hostname or "").removesuffix(".")
        assert (other.scheme, str(ipaddress.ip_address(host)) if ":" in host else host) == (url.scheme, url.host)
        assert (other.port or {"http": 80, "https": 443}[other.scheme]) == url.port
    assert str(url).isascii()
    assert not set(map(ord, str(url))) & {*range(33), 127}
    assert Url.parse(str(url)) == url


def test_a_browsers_parser_reads_the_same_host():
    """The guest's `URL` is an implementation of the WHATWG standard."""
    found = []

    @given(TEXTS)
    def collect(text):
        try:
            found.append((text, Url.parse(text)))
        except EgressDeniedError:
            pass

    collect()
    found += [(text, Url.parse(text)) for text, _ in READ]
    with AgentSandbox({"texts": lambda: [[text, str(url)] for text, url in found]}, isolation="inline") as session:
        seen = session.run("""
            const parts = text => { const u = new URL(text); return [u.protocol, u.hostname, u.port, u.href] };
            return (await texts()).map(both => both.map(parts));
        """)
    for (_, url), both in zip(found, seen, strict=True):
        host = f"[{url.host}]" if ":" in url.host else url.host
        assert both[1][3] == str(url)  # what is sent is what a browser would send
        for protocol, hostname, port, _ in both:
            assert (protocol, hostname.removesuffix(".")) == (f"{url.scheme}:", host)
            assert port == ("" if (url.scheme, url.port) in (("http", 80), ("https", 443)) else str(url.port))
