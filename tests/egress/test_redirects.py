"""Redirects: each is decided about like a first request."""

from __future__ import annotations

import pytest

from gloveport import EgressDeniedError, HttpFetchError, NetworkRules, http_fetch

from .conftest import head_of, redirect, reply, resolving


def routes(table):
    """Answers by path; what is not there is `hello`."""

    def answer(request, connection):
        return table.get(request.split(b" ")[1].decode(), reply())

    return answer


def test_they_are_followed_at_the_same_origin(serve, call, make):
    server = serve(routes({"/a": redirect("b?x#y"), "/b?x": redirect("/c", "301 Moved")}))
    answer = call(make(server), server.url("/a"))
    assert (answer["body"], answer["url"]) == ("hello", server.url("/c"))
    assert [head_of(request)[0].split()[1] for request in server.requests] == ["/a", "/b?x", "/c"]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_loops_end(serve, call, make, most):
    server = serve(routes({"/a": redirect("/a")}))
    with pytest.raises(HttpFetchError, match=f"more than {most} redirects"):
        call(make(server, max_redirects=most), server.url("/a"))
    assert len(server.requests) == most + 1


def test_never_gives_the_answer_itself(serve, call, make):
    server = serve(routes({"/a": redirect("https://b.test/")}))
    answer = call(make(server, redirects="never"), server.url("/a"))
    assert (answer["status"], answer["headers"]["location"]) == (302, "https://b.test/")


@pytest.mark.parametrize(("mode", "passes"), [("same-origin", False), ("allow-list", True)])
def test_another_origin(serve, call, make, mode, passes):
    other = serve(reply(b"other"))
    server = serve(routes({"/a": redirect(other.url("/x"))}))
    tool = make(server, f"127.0.0.1:{other.port}", redirects=mode)
    if passes:
        assert call(tool, server.url("/a"))["body"] == "other"
    else:
        with pytest.raises(EgressDeniedError, match=f"another origin, http://127.0.0.1:{other.port}: "):
            call(tool, server.url("/a"))
    assert len(other.requests) == passes
    assert [line.allowed for line in tool.decisions()] == [True, passes]


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{closed}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://localhost/",
        "http://168.63.129.16/",
        "//u:p@127.0.0.1:{port}/",
        "file:///etc/passwd",
        "/\\\\evil.test/",
        "/%2e%2e/x",
        "",
        "/" + "x" * 3000,
    ],
)
def test_a_redirect_does_not_lead_where_a_request_may_not(serve, call, make, location):
    server = serve(lambda request, connection: redirect(location.format(port=server.port, closed=1)))
    with pytest.raises(EgressDeniedError, match="^blocked by policy: .*"):
        call(make(server, "b.test", redirects="allow-list"), server.url())
    assert len(server.requests) == 1


def test_paths_are_decided_about_again(serve, call):
    server = serve(routes({"/v1/a": redirect("/admin"), "/v1/b": redirect("/v1/c")}))
    tool = http_fetch([f"127.0.0.1:{server.port}/v1/"], schemes=["http"])
    assert call(tool, server.url("/v1/b"))["ok"]
    with pytest.raises(EgressDeniedError, match="other methods or paths"):
        call(tool, server.url("/v1/a"))
    assert len(server.requests) == 3


def test_names_are_resolved_again(serve, call):
    server = serve(routes({"/a": redirect("/b")}))
    rules = NetworkRules(allow=[f"a.test:{server.port}"], private=["127.0.0.1"])
    resolver = resolving(["127.0.0.1"], ["192.168.0.1"])
    with pytest.raises(EgressDeniedError, match="private address"):
        call(http_fetch(rules=rules, schemes=["http"], resolver=resolver), f"http://a.test:{server.port}/a")
    assert resolver.asked == ["a.test", "a.test"]
    assert len(server.requests) == 1


def test_https_does_not_become_http(serve, call, authority):
    plain = serve(reply())
    server = serve(redirect(plain.url()), authority.server_context("127.0.0.1"))
    tool = http_fetch(
        [f"127.0.0.1:{server.port}", f"127.0.0.1:{plain.port}"],
        schemes=["https", "http"],
        redirects="allow-list",
        ssl_context=authority.context,
    )
    with pytest.raises(EgressDeniedError, match="from https to http"):
        call(tool, server.url())
    assert plain.requests == []


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 x", "POST", "GET"),
        ("302 x", "POST", "GET"),
        ("303 x", "POST", "GET"),
        ("303 x", "PUT", "GET"),
        ("302 x", "PUT", "PUT"),
        ("307 x", "POST", "POST"),
        ("308 x", "PUT", "PUT"),
    ],
)
def test_methods_and_bodies(serve, call, make, status, method, then):
    server = serve(routes({"/a": redirect("/b", status)}))
    tool = make(server, methods=["GET", "POST", "PUT"])
    call(tool, server.url("/a"), {"method": method, "body": "data", "headers": {"Content-Type": "a/b"}})
    line, fields = head_of(server.requests[1])
    assert line.split()[0] == then
    assert (fields.get("content-type"), server.requests[1].endswith(b"data")) == (
        (None, False) if then == "GET" else ("a/b", True)
    )


def test_a_body_goes_to_another_origin_only_where_its_method_is_allowed(serve, call, make):
    other = serve(reply())
    server = serve(routes({"/a": redirect(other.url("/x"), "307 x")}))
    for rule, passes in ((f"127.0.0.1:{other.port}", False), (f"POST 127.0.0.1:{other.port}/x", True)):
        tool = http_fetch([f"POST 127.0.0.1:{server.port}", rule], schemes=["http"], redirects="allow-list")
        if passes:
            assert call(tool, server.url("/a"), {"method": "POST", "body": "data"})["ok"]
        else:
            with pytest.raises(EgressDeniedError, match="other methods or paths"):
                call(tool, server.url("/a"), {"method": "POST", "body": "data"})
        assert len(other.requests) == passes


def test_the_query_rule_holds_for_redirects(serve, call, make):
    server = serve(routes({"/a": redirect("/b?leak=1")}))
    with pytest.raises(EgressDeniedError, match="query"):
        call(make(server, query="deny"), server.url("/a"))
    assert len(server.requests) == 1


def test_two_locations_are_none(serve, call, make):
    server = serve(b"HTTP/1.1 302 x\r\nlocation: /a\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(HttpFetchError, match="several places"):
        call(make(server), server.url())
