"""TLS proves the name that was checked."""

from __future__ import annotations

import pytest

from gloveport import HttpFetchError, NetworkRules, http_fetch

from .conftest import head_of, reply, resolving


def tool_for(server, authority, *names, **options):
    rules = NetworkRules(allow=[f"{name}:{server.port}" for name in names], private=["127.0.0.1"])
    return http_fetch(rules=rules, resolver=resolving(["127.0.0.1"]), **{"ssl_context": authority.context, **options})


def test_the_name_is_asked_for_and_proved(serve, call, authority):
    context = authority.server_context("good.test")
    asked = []
    context.sni_callback = lambda connection, name, _: asked.append(name)
    server = serve(reply(), context)
    assert call(tool_for(server, authority, "good.test"), server.url(host="good.test"))["body"] == "hello"
    assert asked == ["good.test"]
    assert head_of(server.requests[0])[1]["host"] == f"good.test:{server.port}"


def test_whoever_cannot_prove_the_name_gets_no_request(serve, call, authority):
    server = serve(reply(), authority.server_context("good.test"))
    expired = serve(reply(), authority.server_context("old.test", days=-1))
    unknown = {"ssl_context": None}
    for tool, url in (
        (tool_for(server, authority, "other.test"), server.url(host="other.test")),
        (tool_for(server, authority, "127.0.0.1"), server.url()),
        (tool_for(expired, authority, "old.test"), expired.url(host="old.test")),
        (tool_for(server, authority, "good.test", **unknown), server.url(host="good.test")),
    ):
        with pytest.raises(HttpFetchError, match="certificate is not valid"):
            call(tool, url)
    assert server.requests == expired.requests == []


def test_an_address_can_prove_itself(serve, call, authority):
    server = serve(reply(), authority.server_context("127.0.0.1"))
    assert call(tool_for(server, authority, "127.0.0.1"), server.url())["ok"]


def test_what_does_not_speak_tls(serve, call, authority):
    server = serve(lambda request, connection: b"HTTP/1.1 200 OK\r\n\r\n")
    with pytest.raises(HttpFetchError, match="does not speak TLS|connection broke"):
        call(tool_for(server, authority, "good.test"), f"https://good.test:{server.port}/")
