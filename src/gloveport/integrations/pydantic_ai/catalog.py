"""Which of an agent's tools become functions, and what the model is told of them."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import RunContext, ToolDefinition, ToolSelector, matches_tool_selector
from pydantic_ai.toolsets.abstract import ToolsetTool

from ...policy import Limits
from ...tools.names import identifier
from ...tools.prompt import describe_tools
from ...types import SchemaTool
from .nested import Bridge

__all__ = ("AgentTools", "Catalog", "Descriptions", "is_eligible", "select", "tool_entries")

_CONTROL_KINDS: Final = frozenset({"tool-search", "capability-load"})

_STATE = """\
- One session per conversation: what earlier scripts declared is still there. `restart: true` begins a new one.
- The result is what the code returns. If there was console output, it is `{"result": ..., "stdout": ..., "stderr": ...}`.
- Every function takes one object argument."""


def is_eligible(ctx: RunContext[Any], definition: ToolDefinition) -> bool:
    """Whether a tool may become a function.

    Stay what they are: output tools, the framework's own (tool search, capability loading), tools that are not revealed yet, local
    stand-ins for a provider's native tool, and tools whose argument is itself a program.
    """
    return (
        definition.kind != "output"
        and definition.tool_kind not in _CONTROL_KINDS
        and ctx.is_tool_available(definition)
        and definition.unless_native is None
        and "code_arg_name" not in (definition.metadata or {})
    )


async def select(
    ctx: RunContext[Any], selector: ToolSelector[Any], tools: Mapping[str, ToolsetTool[Any]]
) -> dict[str, ToolsetTool[Any]]:
    """The tools that become functions, by name in a stable order. External ones only when they are asked for."""
    chosen: dict[str, ToolsetTool[Any]] = {}
    for name in sorted(tools):
        definition = tools[name].tool_def
        if not is_eligible(ctx, definition) or (selector == "all" and definition.kind == "external"):
            continue
        if await matches_tool_selector(selector, ctx, definition):
            chosen[name] = tools[name]
    return chosen


def tool_entries(
    names: Sequence[str], definitions: Mapping[str, ToolDefinition], bridge: Bridge | None
) -> list[dict[str, Any]]:
    """The tools as a session takes them. One that is gone keeps its name, which the session is bound to; its calls are refused."""
    return [_entry(name, definitions.get(name), bridge) for name in names]


def _entry(name: str, definition: ToolDefinition | None, bridge: Bridge | None) -> dict[str, Any]:
    function: Callable[..., Any] = functools.partial(bridge.call, name) if bridge is not None else _nothing
    return {
        "name": name,
        "description": "" if definition is None else definition.description or "",
        "input_schema": {"type": "object"} if definition is None else definition.parameters_json_schema,
        "output_schema": None if definition is None else definition.return_schema,
        "callable": function,
        "validate": False,  # Pydantic AI does it, in the tool's own way: it may take `"5"` for a number
        "annotations": None if definition is None else _annotations(definition),
    }


def _annotations(definition: ToolDefinition) -> Mapping[str, Any] | None:
    """What a policy is told of a tool: its metadata, or the annotations in there (as MCP toolsets keep them)."""
    metadata = definition.metadata or {}
    annotations = metadata.get("annotations")
    return cast("Mapping[str, Any]", annotations) if isinstance(annotations, Mapping) else metadata


async def _nothing(_: Mapping[str, Any]) -> None: ...


@dataclasses.dataclass(frozen=True)
class Catalog:
    """The functions of a step."""

    definitions: Mapping[str, ToolDefinition]
    namespace: str | None
    searched: Mapping[str, ToolDefinition] | None = None
    """Those that are found by search instead of being declared; `None`: no tools are searched."""

    @classmethod
    def of(
        cls,
        tools: Mapping[str, ToolsetTool[Any]],
        namespace: str | None,
        searched: Mapping[str, ToolsetTool[Any]] | None = None,
    ) -> Catalog:
        """From the tools that were chosen, and those among them that are to be searched."""
        declared = {name: tool.tool_def for name, tool in tools.items() if not searched or name not in searched}
        found = None if searched is None else {name: tool.tool_def for name, tool in searched.items()}
        return cls(declared, namespace, found)

    def describe(self, limits: Limits) -> str:
        """What the model is told. Raises `UserError` for names that cannot be functions."""
        entries = tool_entries(list(self.definitions), self.definitions, None)
        try:
            found = None if self.searched is None else tool_entries(list(self.searched), self.searched, None)
            text = describe_tools(entries, namespace=self.namespace, limits=limits, tools_catalog=found)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"ToolScript: {error}. Leave the tool out with `tools=`, rename it, or set `namespace`."
            ) from error
        rules, gap, tools = text.partition("\n\n")
        return f"{rules}\n{_STATE}{gap}{tools}"

    def new_names_in(self, code: str, known: Sequence[str]) -> list[str]:
        """The functions that the code mentions and the session, which began with the `known` tools, does not have."""
        words = set(re.findall(r"[\w$]+", code))
        return [name for name in self.definitions if name not in known and identifier(name) in words]


class AgentTools:
    """The searched tools of a run as a source that sessions follow: a session is not bound to which they were when it began."""

    name = "agent"

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._definitions: Mapping[str, ToolDefinition] = {}
        self.version = 0
        self.tools: list[SchemaTool] = []

    def offer(self, definitions: Mapping[str, ToolDefinition]) -> None:
        """The tools of a step."""
        if definitions != self._definitions or not self.version:
            entries = tool_entries(list(definitions), definitions, self._bridge)
            self._definitions, self.tools = definitions, [SchemaTool(**entry) for entry in entries]
            self.version += 1


class Descriptions:
    """The text for the functions of the last step, which are mostly those of the next one too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: tuple[Catalog, str] | None = None

    def of(self, catalog: Catalog) -> str:
        """The text. Any thread may ask."""
        last = self._last
        if last is None or last[0] != catalog:
            last = self._last = (catalog, catalog.describe(self._limits))
        return last[1]
