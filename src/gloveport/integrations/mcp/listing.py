"""A server's list of tools as tools of a session: which of them, and under which names."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from mcp import types

from ...tools.checks import usable
from ...tools.names import GUEST_GLOBALS, INHERITED, NEVER, RESERVED_PREFIX, identifier
from ...types import SchemaTool
from .results import unwrapped_schema

__all__ = ("Call", "schema_tools", "visible")

_logger = logging.getLogger("gloveport")

_MAX_NAME = 200
_MAX_DESCRIPTION = 20_000

Call = Callable[[types.Tool, Mapping[str, Any]], Awaitable[Any]]


def visible(tools: Iterable[types.Tool]) -> list[types.Tool]:
    """The tools that a model may call, each name once.

    Left out: those for applications only (`_meta.ui.visibility` of the MCP Apps extension without "model"), those that work only
    as tasks, which are not spoken here, and names that no text should hold.
    """
    found: dict[str, types.Tool] = {}
    for tool in tools:
        if not tool.name or len(tool.name) > _MAX_NAME or not tool.name.isprintable():
            _logger.warning("an MCP server has a tool with an unusable name, which is left out: %.100r", tool.name)
        elif _for_models(tool) and not _task_only(tool):
            found.setdefault(tool.name, tool)
    return list(found.values())


def _for_models(tool: types.Tool) -> bool:
    ui: Any = (tool.meta or {}).get("ui")
    visibility: Any = cast("Mapping[str, Any]", ui).get("visibility") if isinstance(ui, Mapping) else None
    return not isinstance(visibility, list) or "model" in visibility


def _task_only(tool: types.Tool) -> bool:
    execution: Any = getattr(tool, "execution", None)
    return getattr(execution, "taskSupport", None) == "required"


def schema_tools(tools: Sequence[types.Tool], prefix: str, call: Call) -> list[SchemaTool]:
    """As tools of a session, in the server's order."""
    names = _names([tool.name for tool in tools], prefix)
    return [_schema_tool(tool, names[tool.name], call) for tool in tools]


def _schema_tool(tool: types.Tool, name: str, call: Call) -> SchemaTool:
    async def function(arguments: Mapping[str, Any]) -> Any:
        return await call(tool, arguments)

    hints = tool.annotations.model_dump(mode="json", exclude_none=True) if tool.annotations else {}
    text = tool.description or tool.title or (tool.annotations.title if tool.annotations else None) or ""
    return SchemaTool(
        name=name,
        description=text[:_MAX_DESCRIPTION],
        input_schema=tool.inputSchema,
        callable=function,
        output_schema=unwrapped_schema(tool.outputSchema) or tool.outputSchema,
        annotations=hints or None,
        validate=usable(tool.inputSchema),  # the server checks as well: one odd schema must not cost the other tools
    )


def _names(names: Sequence[str], prefix: str) -> dict[str, str]:
    """The server's names to those of the tools: the same, behind the prefix, but none that a session could not have.

    Of names that are one in JavaScript, the one that is written so keeps it; the others get a hash of the name behind them, so
    that a tool's name depends on what it is called and not on the order of the list.
    """
    given = {name: f"{prefix}{name}" for name in names}
    for name, text in given.items():
        js_name = identifier(text)
        if js_name in GUEST_GLOBALS or js_name in INHERITED or js_name in NEVER or js_name.startswith(RESERVED_PREFIX):
            given[name] = f"{text}_" if not js_name.startswith(RESERVED_PREFIX) else f"_{text.lstrip('_')}"
    written = Counter(identifier(text) for text in given.values())
    for name, text in given.items():
        if written[identifier(text)] > 1 and identifier(text) != text:
            given[name] = f"{identifier(text)}_{hashlib.sha256(name.encode('utf-8')).hexdigest()[:6]}"
    return given
