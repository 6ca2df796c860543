"""Credentials: sent to their origin, seen by nobody else."""

from __future__ import annotations

import base64

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, HttpFetchError, http_fetch

from .conftest import head_of, redirect, reply

SECRET = "s3cr3t/token+of=mine"


def of(server, value=f"Bearer {SECRET}"):
    return {f"http://127.0.0.1:{server.port}": value}


def test_they_are_sent_to_their_origin_and_nobody_else(serve, call, make):
    server, other = serve(reply()), serve(reply())
    tool = make(server, f"127.0.0.1:{other.port}", credentials=of(server, {"X-Key": SECRET, "X-User": "somebody"}))
    call(tool, server.url())
    call(tool, other.url())
    assert head_of(server.requests[0])[1]["x-key"] == SECRET
    assert not {"x-key", "x-user"} & set(head_of(other.requests[0])[1])


@pytest.mark.parametrize("option", ["credentials", "headers"])
def test_they_do_not_follow_a_redirect_to_another_origin(serve, call, make, option):
    def back(request, connection):
        return redirect(server.url("/end"))

    other = serve(back)
    there = redirect(other.url())
    server = serve(lambda request, connection: reply() if b" /end " in request or b" /b " in request else there)
    given = {"headers": {"X-Key": SECRET}} if option == "headers" else {"credentials": of(server, {"X-Key": SECRET})}
    tool = make(server, f"127.0.0.1:{other.port}", redirects="allow-list", **given)
    assert call(tool, server.url("/a"))["url"] == server.url("/end")
    first, last = (head_of(request)[1] for request in server.requests)
    assert first["x-key"] == SECRET
    assert "x-key" not in head_of(other.requests[0])[1]
    assert "x-key" not in last  # whoever redirected chose that request


def test_one_that_is_redirected_within_its_origin_keeps_them(serve, call, make):
    server = serve(lambda request, connection: redirect("/b") if b" /a " in request else reply())
    call(make(server, credentials=of(server)), server.url("/a"))
    assert [head_of(request)[1]["authorization"] for request in server.requests] == [f"Bearer {SECRET}"] * 2


def quoted(text):
    return text.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")


BASIC = base64.b64encode(f"user:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    ("credential", "echo"),
    [
        (f"Bearer {SECRET}", f"you sent Bearer {SECRET}"),
        (f"Bearer {SECRET}", SECRET),
        (f"Bearer {SECRET}", quoted(SECRET)),
        (f"Bearer {SECRET}", base64.b64encode(SECRET.encode()).decode()),
        (f"Basic {BASIC}", BASIC),
        (f"Basic {BASIC}", f"user:{SECRET}"),
        (f"Basic {BASIC}", SECRET),
        ({"X-Key": 'quote"and\\slash'}, '{"key": "quote\\"and\\\\slash"}'),
    ],
)
@pytest.mark.parametrize("place", ["body", "header", "location", "cut", "late"])
def test_an_answer_that_repeats_one_is_withheld(serve, call, make, credential, echo, place):
    answers = {
        "body": reply(b"x" * 500 + echo.encode()),
        "header": reply(etag=echo),
        "location": redirect(f"/?{echo}"),
        "cut": reply(b"x" * (1003 - len(echo)) + echo.encode() + b"x" * 5000),
        "late": reply(b"x" * 2000 + echo.encode()),
    }
    server = serve(answers[place])
    tool = make(server, credentials=of(server, credential), max_response_bytes=1000)
    if place == "late":  # it is beyond what the guest gets
        assert call(tool, server.url())["truncated"]
        return
    with pytest.raises(HttpFetchError, match="^the answer repeats a credential") as caught:
        call(tool, server.url())
    assert echo not in str(caught.value)


def test_other_spellings_that_are_decoded_for_the_guest_are_found_too(serve, call, make):
    utf_16 = serve(reply(SECRET.encode("utf-16-le"), content_type="text/plain; charset=utf-16le"))
    escaped = serve(reply(('"' + "".join(f"\\u{ord(c):04x}" for c in SECRET) + '"').encode()))
    for server, kind in ((utf_16, "text"), (escaped, "json")):
        with pytest.raises(HttpFetchError, match="repeats a credential"):
            call(make(server, credentials=of(server), response=kind), server.url())


def test_a_secret_among_the_headers_is_one_too(serve, call, make):
    server = serve(reply(SECRET.encode()))
    with pytest.raises(HttpFetchError, match="repeats a credential"):
        call(make(server, headers={"Authorization": f"Bearer {SECRET}"}), server.url())


def test_an_answer_that_does_not_repeat_it_passes(serve, call, make):
    server = serve(reply(SECRET[:-1].encode()))
    assert call(make(server, credentials=of(server)), server.url())["body"] == SECRET[:-1]


PROBE = """
const seen = [];
for (const path of ['/ok', '/echo', '/away', '/missing']) {
  try { seen.push(await fetch_url(base + path)) } catch (e) { seen.push(e.name + ': ' + e.message + e.stack) }
}
try { seen.push(await fetch_url(base + '/ok', {headers: {Authorization: 'x'}})) } catch (e) { seen.push(String(e)) }
console.log(seen, fetch_url, String(fetch_url), Object.getOwnPropertyNames(globalThis));
return JSON.stringify([seen, Object.entries(fetch_url)]);
"""


def check_session(result, prompt, dump, server, other):
    assert head_of(server.requests[0])[1]["authorization"] == f"Bearer {SECRET}"
    assert result.ok, result
    assert "hello" in result.result
    assert "the answer repeats a credential" in result.result  # readable, though errors are redacted
    assert "blocked by policy: the server redirects to another origin" in result.result
    for text in (result.result, result.stdout, result.stderr, prompt):
        assert SECRET not in text
        assert base64.b64encode(SECRET.encode()).decode()[:-4] not in text
    assert SECRET.encode() not in dump
    assert other.requests == []


def servers(serve):
    other = serve(reply())

    def answer(request, connection):
        path = request.split(b" ")[1]
        return {b"/echo": reply(request), b"/away": redirect(other.url()), b"/missing": reply(b"", "404 x")}.get(
            path, reply()
        )

    server = serve(answer)
    tool = http_fetch([f"127.0.0.1:{server.port}"], schemes=["http"], credentials=of(server))
    return server, other, tool


def test_a_session_never_sees_them(serve, either):
    server, other, tool = servers(serve)
    for function in (tool, tool.aio):
        with AgentSandbox({"fetch_url": function}, **either) as session:
            result = session.execute(f"const base = '{server.url('')}';" + PROBE)
            check_session(result, session.describe_tools(), session.dump(b"k" * 16), server, other)


@pytest.mark.anyio
async def test_a_session_on_asyncio_never_sees_them(serve, worker):
    server, other, tool = servers(serve)
    for function in (tool, tool.aio):
        async with AsyncAgentSandbox({"fetch_url": function}, **worker) as session:
            result = await session.execute(f"const base = '{server.url('')}';" + PROBE)
            check_session(result, session.describe_tools(), await session.dump(b"k" * 16), server, other)
