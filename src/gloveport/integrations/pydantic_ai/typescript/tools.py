"""The agent's tools as functions of a module."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import AgentDepsT, RunContext, ToolSelector
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from ....errors import PauseRequested, ToolError
from ....tools.bridge import ToolBridge
from ....tools.prompt import describe_tools
from ....tools.spec import build_specs
from ....types import SchemaTool
from ..catalog import select, tool_entries
from ..nested import EndRun, NestedCalls
from .texts import tools_text

__all__ = ("ModuleTools", "Surroundings")


class ModuleTools:
    """The tools of the run's present step that a module may call, and the calls of one module."""

    def __init__(self, tool_timeout: float | None) -> None:
        self._timeout = tool_timeout
        self._toolset: AbstractToolset[Any] | None = None
        self._all: Mapping[str, ToolsetTool[Any]] = {}
        self._chosen: Mapping[str, ToolsetTool[Any]] = {}
        self._text: tuple[list[Any], str] = ([], "")

    def offer(
        self,
        toolset: AbstractToolset[Any],
        tools: Mapping[str, ToolsetTool[Any]],
        chosen: Mapping[str, ToolsetTool[Any]],
    ) -> None:
        """The tools of a step."""
        self._toolset, self._all, self._chosen = toolset, tools, chosen

    def describe(self) -> str:
        """What the model is told of them. Raises `UserError` for names that cannot be functions."""
        definitions = {name: tool.tool_def for name, tool in self._chosen.items()}
        known = list(definitions.values())
        if self._text[0] != known:
            try:
                whole = describe_tools(tool_entries(list(definitions), definitions, None), namespace="tools")
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"TypeScriptSandbox: {error}. Leave the tool out with `tools=`, or rename it."
                ) from error
            self._text = (known, tools_text(whole.partition("\n\n")[2]))
        return self._text[1]

    def calls(self, ctx: RunContext[Any]) -> Calls | None:
        """The calls of one module; `None`: it has no tools."""
        if self._toolset is None or not self._chosen:
            return None
        if ctx.tool_manager is None:
            raise UserError("TypeScriptSandbox: `tools` needs the tool manager of an agent run.")
        root = ctx.tool_manager.root_capability
        manager = ToolManager(toolset=self._toolset, root_capability=root, ctx=ctx, tools=dict(self._all))
        return Calls(NestedCalls(manager, ctx, tool_timeout=self._timeout), self._chosen)


class Calls:
    """The calls of one module, performed by Pydantic AI's own `ToolManager`."""

    def __init__(self, nested: NestedCalls, chosen: Mapping[str, ToolsetTool[Any]]) -> None:
        self._nested = nested
        self._chosen = chosen
        self.ended: Exception | None = None
        """What ends the agent run: said by a tool, past the module, which could catch an error."""

    @property
    def bridge(self) -> ToolBridge:
        """The tools as a session takes them. What `ToolError`s say is meant for the model."""
        definitions = {name: tool.tool_def for name, tool in self._chosen.items()}
        entries = tool_entries(list(definitions), definitions, None)
        for entry in entries:
            entry["callable"] = functools.partial(self._call, entry["name"])
        tools = [SchemaTool(**entry) for entry in entries]
        return ToolBridge(build_specs(tools), namespace="tools", expose=(ToolError,))

    @property
    def content(self) -> list[Any]:
        """What tools gave for the model beside their results."""
        return self._nested.content

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if self.ended is not None:
            raise ToolError("the agent run is over")
        try:
            return await self._nested.call(name, arguments)
        except PauseRequested:
            raise ToolError(
                f"`{name}` waits for an answer from outside, which a module cannot do: call it as a tool of its own"
            ) from None
        except EndRun as end:
            self.ended = end.error
            raise ToolError("the agent run is over") from None


@dataclasses.dataclass
class Surroundings(WrapperToolset[AgentDepsT]):
    """The agent's tools with `run_typescript` among them, whose description says which of the others a module can call."""

    module_tools: ModuleTools
    selector: ToolSelector[Any]
    tool_name: str

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """The tools of a step."""
        tools = await self.wrapped.get_tools(ctx)
        chosen = await select(ctx, self.selector, tools)
        self.module_tools.offer(self.wrapped, tools, cast("Mapping[str, ToolsetTool[Any]]", chosen))
        runner = tools.get(self.tool_name)
        if runner is None or not chosen:
            return tools
        definition = runner.tool_def
        text = f"{definition.description}\n{self.module_tools.describe()}"
        described = dataclasses.replace(definition, description=text)
        return {**tools, self.tool_name: dataclasses.replace(runner, tool_def=described)}
