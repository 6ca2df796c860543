"""What the guest gets of a server's answer."""

from __future__ import annotations

import pytest
from mcp import types

from gloveport.errors import McpServerError, McpToolError
from gloveport.integrations.mcp.results import adapt, unwrapped_schema


def text(value, **more):
    return types.TextContent(type="text", text=value, **more)


def result(*content, **more):
    return types.CallToolResult(content=list(content), **more)


FOR_PEOPLE = types.Annotations(audience=["user"])


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (result(text("[1, 2, 3]")), [1, 2, 3]),
        (result(text(' {"a": 1}')), {"a": 1}),
        (result(text("[1, 2")), "[1, 2"),
        (result(text("42")), "42"),
        (result(text("true")), "true"),
        (result(text("")), ""),
        (result(text("[" * 100_000)), "[" * 100_000),
        (result(text("a"), text("b")), "a\nb"),
        (result(), None),
        (result(text("a"), structuredContent={"b": 1}), {"b": 1}),
        (result(text("a"), structuredContent={}), {}),
        (result(text("a"), text("secret", annotations=FOR_PEOPLE)), "a"),
        (result(text("secret", annotations=FOR_PEOPLE)), None),
        (
            result(text("a"), types.AudioContent(type="audio", data="AQI=", mimeType="audio/wav")),
            [{"type": "text", "text": "a"}, {"type": "audio", "mime_type": "audio/wav", "data": b"\x01\x02"}],
        ),
        (
            result(types.EmbeddedResource(type="resource", resource=types.BlobResourceContents(uri="m://1", blob="AQ=="))),
            [{"type": "resource", "uri": "m://1", "mime_type": None, "data": b"\x01"}],
        ),
    ],
)  # fmt: skip
def test_the_value_and_not_the_envelope(answer, value):
    assert adapt(answer, unwrap=False) == value


def test_errors_are_raised_with_the_servers_text():
    with pytest.raises(McpToolError, match="^quota used up\nfor today$") as raised:
        adapt(result(text("quota used up"), text("for today"), structuredContent={"a": 1}, isError=True), unwrap=False)
    assert raised.value.shown
    with pytest.raises(McpToolError, match="without a text"):
        adapt(result(text("for people", annotations=FOR_PEOPLE), isError=True), unwrap=False)


def test_what_is_not_base64_is_the_servers_fault():
    with pytest.raises(McpServerError, match="not base64"):
        adapt(result(types.ImageContent(type="image", data="%%%", mimeType="image/png")), unwrap=False)


def test_wrapped_values_are_taken_out():
    assert adapt(result(structuredContent={"result": [1]}), unwrap=True) == [1]
    assert adapt(result(structuredContent={"result": [1], "more": 2}), unwrap=True) == {"result": [1], "more": 2}
    assert adapt(result(structuredContent={"result": [1]}), unwrap=False) == {"result": [1]}


LIST = {"type": "array", "items": {"$ref": "#/$defs/Item"}}
WRAPPED = {
    "type": "object",
    "properties": {"result": LIST},
    "required": ["result"],
    "title": "fOutput",
    "$defs": {"Item": {}},
}


@pytest.mark.parametrize(
    ("schema", "inner"),
    [
        (WRAPPED, {**LIST, "$defs": {"Item": {}}}),
        ({"properties": {"result": {"type": "object"}}, "x-fastmcp-wrap-result": True}, {"type": "object"}),
        ({**WRAPPED, "title": "Report"}, None),
        ({**WRAPPED, "required": []}, None),
        ({**WRAPPED, "properties": {"result": LIST, "more": {}}}, None),
        ({**WRAPPED, "properties": {"result": {"type": "object"}}}, None),
        ({**WRAPPED, "properties": {"result": True}}, None),
        ({**WRAPPED, "properties": []}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_counts_as_wrapped(schema, inner):
    assert unwrapped_schema(schema) == inner
