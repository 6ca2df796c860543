"""What an MCP server answers, as the value that the guest's code gets: the value, not the envelope around it.

Seen with mcp 1.24 to 1.30, protocol 2025-11-25.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, cast

from mcp import types

from ...errors import McpServerError, McpToolError

__all__ = ("adapt", "unwrapped_schema")

_WRAPPED = "result"


def adapt(result: types.CallToolResult, *, unwrap: bool) -> Any:
    """The value of a result. Raises `McpToolError` for `isError`, with the server's text.

    Structured content as it is. Without it: a single text, parsed if it is a JSON object or array; several texts joined by
    newlines; nothing: `None`; anything else: a list of described objects. `unwrap` takes the one `result` out of structured content
    that is an object only because the protocol wants one. Content that is not meant for the model (its `audience`) is left out.
    """
    blocks = [block for block in result.content if _for_model(block)]
    if result.isError:
        texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
        raise McpToolError("\n".join(texts) or "the tool reported an error without a text")
    structured = result.structuredContent
    if structured is not None:
        return structured[_WRAPPED] if unwrap and list(structured) == [_WRAPPED] else structured
    if all(isinstance(block, types.TextContent) for block in blocks):
        texts = [block.text for block in cast("list[types.TextContent]", blocks)]
        return _parsed(texts[0]) if len(texts) == 1 else "\n".join(texts) if texts else None
    return [_described(block) for block in blocks]


def _for_model(block: types.ContentBlock) -> bool:
    audience = block.annotations.audience if block.annotations else None
    return not audience or "assistant" in audience


def _parsed(text: str) -> Any:
    """A JSON object or array; any other text stays one, also if it looks like a number."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _described(block: types.ContentBlock) -> dict[str, Any]:
    if isinstance(block, types.TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, (types.ImageContent, types.AudioContent)):
        return {"type": block.type, "mime_type": block.mimeType, "data": _bytes(block.data)}
    if isinstance(block, types.ResourceLink):
        about = {
            "name": block.name,
            "title": block.title,
            "description": block.description,
            "mime_type": block.mimeType,
            "size": block.size,
        }
        return {"type": block.type, "uri": str(block.uri), **{k: v for k, v in about.items() if v is not None}}
    resource = block.resource
    described: dict[str, Any] = {"type": block.type, "uri": str(resource.uri), "mime_type": resource.mimeType}
    if isinstance(resource, types.TextResourceContents):
        return {**described, "text": resource.text}
    return {**described, "data": _bytes(resource.blob)}


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise McpServerError("the MCP server sent binary content that is not base64") from error


def unwrapped_schema(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The schema of what a server wrapped into `{"result": …}`, or `None` when it wrapped nothing.

    Structured content is always an object, so SDKs wrap lists and plain values. FastMCP 2 marks it (`x-fastmcp-wrap-result`);
    FastMCP of the official SDK calls the schema `…Output` and gives it that one property.
    """
    if schema is None:
        return None
    properties: Any = schema.get("properties")
    if not isinstance(properties, Mapping) or list(cast("Mapping[str, Any]", properties)) != [_WRAPPED]:
        return None
    value = cast("Mapping[str, Any]", properties)[_WRAPPED]
    if not isinstance(value, Mapping):
        return None
    inner = cast("Mapping[str, Any]", value)
    required: Any = schema.get("required")
    marked = schema.get("x-fastmcp-wrap-result") is True
    named = str(schema.get("title", "")).endswith("Output") and required == [_WRAPPED]
    if not marked and not (named and inner.get("type") != "object" and "$ref" not in inner):
        return None
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {**inner, **shared}
