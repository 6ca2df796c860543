"""What `http_fetch` sends, gets and refuses to take."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time

import pytest

from gloveport import (
    EgressDeniedError,
    HttpFetchError,
    HttpFetchTimeout,
    NetworkRules,
    ToolArgumentError,
    http_fetch,
    typescript_stubs,
)

from .conftest import head_of, reply, resolving


def test_a_plain_answer(serve, call, make):
    server = serve(reply(b"caf\xc3\xa9", content_type="text/plain", x_internal="1", set_cookie="a=b"))
    answer = call(make(server), server.url("/v1/x?q=1#part"))
    assert answer == {
        "status": 200,
        "ok": True,
        "url": server.url("/v1/x?q=1"),
        "headers": {"content-length": "5", "content-type": "text/plain"},
        "body": "café",
        "truncated": False,
    }
    line, fields = head_of(server.requests[0])
    assert line == "GET /v1/x?q=1 HTTP/1.1"
    assert fields.pop("user-agent").startswith("gloveport/")
    assert fields == {
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
        "host": f"127.0.0.1:{server.port}",
    }


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "304 Not Modified", "204 No Content"])
def test_error_statuses_are_answers(serve, call, make, status):
    server = serve(f"HTTP/1.1 {status}\r\n\r\n".encode())
    answer = call(make(server), server.url())
    assert (answer["status"], answer["ok"], answer["body"]) == (int(status[:3]), status.startswith("2"), "")


@pytest.mark.parametrize(
    ("kind", "body", "content_type", "value"),
    [
        ("text", b"\xe9", "text/plain; charset=ISO-8859-1", "é"),
        ("text", b"\xef\xbb\xbfx", "text/plain", "x"),
        ("text", b"\xff", "text/plain", "\ufffd"),
        ("text", b"x+AGE-", "text/plain; charset=utf-7", "x+AGE-"),
        ("text", b"\\u0041", "text/plain; charset=unicode_escape", "\\u0041"),
        ("bytes", b"\x00\xff", "image/png", b"\x00\xff"),
        ("json", b'{"a": [1, null]}', "application/json", {"a": [1, None]}),
        ("json", b"<p>", "text/html", "<p>"),
        ("json", b"NaN", "application/json", "NaN"),
        ("json", b"[" * 100_000, "application/json", "[" * 100_000),
    ],
)
def test_bodies(serve, call, make, kind, body, content_type, value):
    server = serve(reply(body, content_type=content_type))
    assert call(make(server, response=kind), server.url())["body"] == value


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_is_sent_where_a_rule_names_the_method(serve, call, make):
    server = serve(reply(b"", "201 Created"))
    tool = http_fetch([f"POST 127.0.0.1:{server.port}/orders", f"127.0.0.1:{server.port}"], schemes=["http"])
    init = {"method": "post", "headers": {"Content-Type": "application/json"}, "body": "{}"}
    assert call(tool, server.url("/orders"), init)["status"] == 201
    line, fields = head_of(server.requests[0])
    assert (line, fields["content-type"], fields["content-length"]) == (
        "POST /orders HTTP/1.1",
        "application/json",
        "2",
    )
    assert server.requests[0].endswith(b"\r\n\r\n{}")
    with pytest.raises(EgressDeniedError, match="other methods or paths"):
        call(tool, server.url("/other"), init)
    with pytest.raises(EgressDeniedError, match="must be GET or POST"):
        call(tool, server.url("/orders"), {"method": "PUT", "body": ""})
    assert len(server.requests) == 1


def test_a_body_has_a_limit(serve, call, make):
    server = serve(reply())
    tool = make(server, methods=["POST"], max_request_bytes=10)
    assert call(tool, server.url(), {"body": b"x" * 10})["ok"]
    with pytest.raises(EgressDeniedError, match="larger than 10 bytes"):
        call(tool, server.url(), {"body": "x" * 11})
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "init",
    [
        {"headers": {"X-A": "b\r\nX-C: d"}},
        {"headers": {"X-A": "b\nc"}},
        {"headers": {"X-A": "\x00"}},
        {"headers": {"X-A": "é"}},
        {"headers": {"X-A": ""}},
        {"headers": {"X-A": 1}},
        {"headers": {"X-A": "b", "x-a": "c"}},
        {"headers": {"X-A": "x" * 9000}},
        {"headers": []},
        {"body": "x"},
        {"method": "POST", "body": {}},
        {"method": "POST", "body": "\ud800"},
        {"mode": "cors"},
        [],
    ],
)
def test_arguments_that_cannot_be_sent(serve, call, make, init):
    server = serve(reply())
    tool = make(server, methods=["GET", "POST"], request_headers=["X-A"])
    with pytest.raises(ToolArgumentError) as caught:
        call(tool, server.url(), init)
    assert caught.value.shown
    assert call(tool, server.url(), {"headers": {"X-A": "b c"}})["ok"]
    assert head_of(server.requests[0])[1]["x-a"] == "b c"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "name", ["Host", "Cookie", "Authorization", "X-Other", "Content-Length", "Transfer-Encoding", "X-A\r\n"]
)
def test_only_named_headers_may_be_set(serve, call, make, name):
    server = serve(reply())
    with pytest.raises(EgressDeniedError, match="may be set are: x-a"):
        call(make(server, request_headers=["x-a"]), server.url(), {"headers": {name: "x"}})
    assert server.requests == []


def test_the_url_cannot_change_the_request(serve, call, make):
    server = serve(reply())
    for path in ("/x HTTP/1.1\r\nX-A: b\r\n\r\n", "/x\nX-A: b", "/x\r"):
        with pytest.raises(EgressDeniedError):
            call(make(server), server.url(path))
    assert call(make(server), server.url("/x HTTP/1.0?a b"))["ok"]
    assert head_of(server.requests[0])[0] == "GET /x%20HTTP/1.0?a%20b HTTP/1.1"


@pytest.mark.parametrize(
    ("query", "passes", "fails"),
    [
        ("allow", ["/?a=1&b=2", "/"], []),
        ("deny", ["/", "/?", "/x#?a"], ["/?a", "/?a=1"]),
        (
            ["page", "q"],
            ["/?page=1&q=x", "/?%70age=1&", "/"],
            ["/?page=1&other=2", "/?other", "/?page;x=1", "/?PAGE=1"],
        ),
    ],
)
def test_queries(serve, call, make, query, passes, fails):
    server = serve(reply())
    tool = make(server, query=query)
    for path in passes:
        assert call(tool, server.url(path))["ok"]
    for path in fails:
        with pytest.raises(EgressDeniedError, match="query may"):
            call(tool, server.url(path)) if query != "deny" else refuse_as_query(call, tool, server.url(path))
    assert len(server.requests) == len(passes)


def refuse_as_query(call, tool, url):
    with pytest.raises(EgressDeniedError, match="may not have a query") as caught:
        call(tool, url)
    raise EgressDeniedError("query may") from caught.value


# ── answers that lie ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffffffffff\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx y: z\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: \x00\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + reply(),
        reply(b"\x1f\x8b", content_encoding="gzip"),
    ],
)
def test_what_is_no_answer(serve, call, make, answer):
    server = serve(answer)
    with pytest.raises(HttpFetchError) as caught:
        call(make(server), server.url())
    assert not isinstance(caught.value, HttpFetchTimeout)
    assert b"hello" not in str(caught.value).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 500 smuggled\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 7 + reply(),
        reply(content_encoding="identity"),
    ],
)
def test_what_is_one(serve, call, make, answer):
    server = serve(answer)
    assert call(make(server), server.url())["body"] == "hello"


@pytest.mark.parametrize("size", [50_000, 300_000])
def test_the_head_of_an_answer_has_a_limit(serve, call, make, size):
    server = serve(reply(x_long="x" * size))
    if size < 64 * 1024:
        assert call(make(server), server.url())["body"] == "hello"
    else:
        with pytest.raises(HttpFetchError):
            call(make(server), server.url())


def endless(head, piece):
    """An answer without an end; counts what was taken."""

    def answer(request, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        answer.sent = 0
        try:
            while answer.sent < 64 * 1024 * 1024:
                connection.sendall(piece)
                answer.sent += len(piece)
        except OSError:
            pass

    return answer


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b"x" * 65536),
        (b"content-length: 100000000000\r\n", b"x" * 65536),
        (b"transfer-encoding: chunked\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        (b"transfer-encoding: chunked\r\n", b"fffffff\r\n" + b"x" * 65536),
    ],
)
@pytest.mark.parametrize("overflow", ["truncate", "refuse"])
def test_no_more_is_read_than_may_be_kept(serve, call, make, head, piece, overflow):
    answer = endless(head, piece)
    server = serve(answer)
    tool = make(server, max_response_bytes=1000, overflow=overflow)
    if overflow == "refuse":
        with pytest.raises(HttpFetchError, match="larger than 1000 bytes"):
            call(tool, server.url())
    else:
        got = call(tool, server.url())
        assert (got["truncated"], len(got["body"])) == (True, 1000)
    server.close()
    assert answer.sent < 32 * 1024 * 1024  # the rest is what the system's buffers hold


@pytest.mark.parametrize("overflow", ["truncate", "refuse"])
def test_what_just_fits_is_whole(serve, call, make, overflow):
    server = serve(reply(b"x" * 1000))
    got = call(make(server, max_response_bytes=1000, overflow=overflow), server.url())
    assert (got["truncated"], len(got["body"])) == (False, 1000)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def drip(before, piece):
    """Sends `piece` again and again, far more often than the deadline, until the other side has had enough."""

    def answer(request, connection):
        connection.sendall(before)
        try:
            for _ in range(2000):
                connection.sendall(piece)
                time.sleep(0.005)
        except OSError:
            answer.cut = True

    answer.cut = False
    return answer


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"", b"HTTP/1.1 100 C\r\n\r\n"[:1]),
        (b"HTTP/1.1 200 OK\r\nx: ", b"y"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
)
def test_a_server_that_drips_gains_no_time(serve, call, make, before, piece):
    if not before:
        before, piece = b"HTTP/1.1 2", b"0"
    answer = drip(before, piece)
    server = serve(answer)
    with pytest.raises((HttpFetchTimeout, HttpFetchError)) as caught:
        call(make(server, timeout=0.2), server.url())
    if before != b"HTTP/1.1 2":
        assert isinstance(caught.value, HttpFetchTimeout)
    server.close()
    assert answer.cut


def test_every_part_is_below_one_deadline(serve, call):
    """Look-up, connection and TLS that never end."""
    release = threading.Event()

    def resolver(host, port):
        release.wait(10)
        return ["127.0.0.1"]

    try:
        with pytest.raises(HttpFetchTimeout):
            call(http_fetch(["a.test"], timeout=0.2, resolver=resolver), "https://a.test/")
    finally:
        release.set()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(HttpFetchTimeout):
            call(
                http_fetch([f"127.0.0.1:{silent.getsockname()[1]}"], timeout=0.2),
                f"https://127.0.0.1:{silent.getsockname()[1]}/",
            )


def test_redirects_share_the_deadline(serve, call, make):
    def answer(request, connection):
        time.sleep(0.1)
        return b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n"

    server = serve(answer)
    with pytest.raises(HttpFetchTimeout):
        call(make(server, timeout=0.25, max_redirects=50), server.url())
    assert len(server.requests) < 5


def test_a_cancelled_request_ends(serve, make):
    got, closed = threading.Event(), threading.Event()

    def answer(request, connection):
        got.set()
        if connection.recv(1) == b"":
            closed.set()

    server = serve(answer)

    async def main():
        task = asyncio.create_task(make(server).aio(server.url()))
        await asyncio.to_thread(got.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert closed.wait(10)


# ── names and addresses ──────────────────────────────────────────────────────────────────────────────────────────────


def local(server, *answers, **options):
    """A tool for a name that resolves to loopback, which is open to it."""
    resolver = resolving(*(answers or (["127.0.0.1"],)))
    rules = NetworkRules(allow=[f"a.test:{server.port}"], private=["127.0.0.1"])
    tool = http_fetch(rules=rules, schemes=["http"], resolver=resolver, **options)
    return tool, resolver


def test_a_name_is_resolved_once_and_pinned(serve, call):
    server = serve(reply())
    tool, resolver = local(server, ["127.0.0.1"], ["10.0.0.1"])
    assert call(tool, f"http://a.test:{server.port}/")["ok"]
    assert resolver.asked == ["a.test"]
    assert head_of(server.requests[0])[1]["host"] == f"a.test:{server.port}"
    with pytest.raises(EgressDeniedError, match="private address"):  # what changed is seen
        call(tool, f"http://a.test:{server.port}/")


@pytest.mark.parametrize(
    "answers", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "169.254.169.254"]]
)
def test_one_bad_address_refuses_all(serve, call, answers):
    server = serve(reply())
    tool, _ = local(server, answers)
    with pytest.raises(EgressDeniedError):
        call(tool, f"http://a.test:{server.port}/")
    assert server.requests == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "168.63.129.16", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
)
def test_a_public_name_does_not_lead_inside(serve, call, address):
    server = serve(reply())
    tool = http_fetch([f"a.test:{server.port}"], schemes=["http"], resolver=resolving([address]))
    with pytest.raises(EgressDeniedError, match="^blocked by policy: GET http://a.test:.* address"):
        call(tool, f"http://a.test:{server.port}/")
    assert server.requests == []


def test_a_name_that_is_refused_is_not_resolved(call):
    resolver = resolving(["1.1.1.1"])
    with pytest.raises(EgressDeniedError):
        call(http_fetch(["a.test"], resolver=resolver), "https://c2VjcmV0.evil.test/")
    with pytest.raises(EgressDeniedError):
        call(http_fetch(["a.test/v1"], resolver=resolver), "https://a.test/v2")
    assert resolver.asked == []


def test_the_refusal_is_the_same_for_open_and_closed_ports(serve, call):
    server = serve(reply())
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
    texts = set()
    for port in (server.port, closed):
        tool = http_fetch(["a.test:*"], schemes=["http"], resolver=resolving(["127.0.0.1"]))
        with pytest.raises(EgressDeniedError) as caught:
            call(tool, f"http://a.test:{port}/")
        texts.add(str(caught.value).replace(str(port), "PORT"))
    assert len(texts) == 1


def test_a_name_without_addresses_and_a_port_where_nobody_is(serve, call):
    def unknown(host, port):
        raise socket.gaierror(-2, "internal resolver 10.0.0.53 says no")

    for resolver in (unknown, resolving([])):
        with pytest.raises(HttpFetchError, match=r"^a\.test cannot be resolved$"):
            call(http_fetch(["a.test"], resolver=resolver), "https://a.test/")
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
    with pytest.raises(HttpFetchError, match=f"^cannot connect to 127.0.0.1, port {closed}$"):
        call(http_fetch([f"127.0.0.1:{closed}"], schemes=["http"]), f"http://127.0.0.1:{closed}/")


def test_the_next_address_is_tried(serve, call):
    server = serve(reply())
    rules = NetworkRules(allow=[f"a.test:{server.port}"], private=["127.0.0.0/8"])
    tool = http_fetch(rules=rules, schemes=["http"], resolver=resolving(["127.0.0.2", "127.0.0.1"]))
    assert call(tool, f"http://a.test:{server.port}/")["ok"]


def test_the_environments_proxy_is_not_used(serve, call, make, monkeypatch):
    server, proxy = serve(reply()), serve(reply(b"proxy"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url())
    assert call(make(server), server.url())["body"] == "hello"
    assert proxy.requests == []


def test_cookies_are_not_kept(serve, call, make):
    server = serve(reply(set_cookie="a=b"))
    tool = make(server)
    for _ in range(2):
        call(tool, server.url())
    assert "cookie" not in head_of(server.requests[1])[1]


def test_requests_leave_nothing_behind(serve, call, make):
    server = serve(reply())
    tool = make(server, timeout=0.3)
    silent = drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    call(tool, server.url())
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        call(tool, server.url())
        with pytest.raises(EgressDeniedError):
            call(tool, "http://127.0.0.2/")
    slow = serve(silent)
    with pytest.raises(HttpFetchTimeout):
        call(make(slow, timeout=0.2), slow.url())
    slow.close()
    for thread in server._threads[1:]:
        thread.join(10)
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) <= before


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"allow": []}, ValueError),
        ({"allow": "a.test"}, TypeError),
        ({"schemes": ["ftp"]}, ValueError),
        ({"schemes": []}, ValueError),
        ({"methods": ["CONNECT"]}, ValueError),
        ({"allow": ["TRACE a.test"]}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"timeout": float("inf")}, ValueError),
        ({"max_response_bytes": 0}, ValueError),
        ({"max_redirects": -1}, ValueError),
        ({"max_url_length": True}, TypeError),
        ({"redirects": "always"}, ValueError),
        ({"response": "blob"}, ValueError),
        ({"overflow": "ignore"}, ValueError),
        ({"query": "page"}, ValueError),
        ({"headers": {"Host": "b.test"}}, ValueError),
        ({"headers": {"A": "b\r\nc: d"}}, ValueError),
        ({"allow": ["a.test", "b.test"], "headers": {"Authorization": "Bearer 12345678"}}, ValueError),
        ({"allow": ["*.a.test"], "headers": {"X-API-Key": "12345678"}}, ValueError),
        ({"credentials": {"b.test": "Bearer 12345678"}}, ValueError),
        ({"credentials": {"http://a.test": "Bearer 12345678"}}, ValueError),
        ({"credentials": {"a.test/v1": "Bearer 12345678"}}, ValueError),
        ({"credentials": {"a.test": "short"}}, ValueError),
        ({"credentials": {"a.test": {"Host": "12345678"}}}, ValueError),
        ({"credentials": {"a.test": "Bearer 12345678", "https://a.test": "Bearer 12345678"}}, ValueError),
        ({"request_headers": ["Host"]}, ValueError),
        ({"request_headers": ["Cookie"]}, ValueError),
        ({"request_headers": ["X-Key"], "credentials": {"a.test": {"x-key": "12345678"}}}, ValueError),
        ({"response_headers": ["Set-Cookie"]}, ValueError),
        ({"response_headers": "etag"}, TypeError),
    ],
)
def test_options_are_checked_when_the_tool_is_made(options, error):
    with pytest.raises(error):
        http_fetch(**{"allow": ["a.test"], **options})


def test_a_context_that_checks_nothing_is_refused():
    import ssl

    for name in ("_create_unverified_context", "create_default_context"):
        context = getattr(ssl, name)()
        context.check_hostname = False
        with pytest.raises(ValueError, match="must check certificates"):
            http_fetch(["a.test"], ssl_context=context)


def test_the_model_is_told_what_is_allowed():
    text = typescript_stubs(
        {"get": http_fetch(["a.test/v1/"], query=["page"]), "send": http_fetch(["GET,POST a.test"]).aio}
    )
    assert "declare function get(url: string): Promise<TextResponse>;" in text
    assert "declare function send(url: string, init?: FetchInit): Promise<TextResponse>;" in text
    assert 'method?: "GET" | "POST";' in text
    assert "Allowed: a.test/v1/." in text
    assert "Query parameters: page." in text
