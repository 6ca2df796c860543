"""The tools `run_typescript` and `render_widget`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import Field, TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import SchemaValidatorProt, ToolsetTool
from typing_extensions import TypedDict

from .outcome import Outcome
from .texts import RENDER_WIDGET, RUN_TYPESCRIPT

if TYPE_CHECKING:
    from .capability import TypeScriptSandbox
    from .runs import ModuleRun

__all__ = ("RENDER", "RUN", "ModuleToolset")

RUN: Final = "run_typescript"
RENDER: Final = "render_widget"


# The schemas go to the model, so nothing is said in docstrings.
class ModuleArguments(TypedDict):
    code: Annotated[str, Field(description="A complete JavaScript, TypeScript or TSX module.")]


class WidgetArguments(TypedDict):
    source: Annotated[str, Field(description="A complete TSX module that default-exports a React component.")]


_ARGUMENTS: Final = {RUN: TypeAdapter(ModuleArguments), RENDER: TypeAdapter(WidgetArguments)}
_TEXTS: Final = {RUN: RUN_TYPESCRIPT, RENDER: RENDER_WIDGET}
_LANGUAGES: Final = {RUN: ("code", "typescript"), RENDER: ("source", "tsx")}


class ModuleToolset(AbstractToolset[AgentDepsT]):
    """The tools of one agent run."""

    def __init__(self, capability: TypeScriptSandbox[AgentDepsT], run: ModuleRun) -> None:
        self._capability = capability
        self._run = run

    @property
    def id(self) -> str | None:
        """That of the capability."""
        return self._capability.id

    async def __aexit__(self, *args: Any) -> bool | None:
        """Leave the toolset at the end of a run, however it ends: the worker is ended."""
        await self._run.end()
        return None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """The tools."""
        names = (RUN, RENDER) if self._capability.renders else (RUN,)
        return {name: self._tool(name) for name in names}

    def _tool(self, name: str) -> ToolsetTool[AgentDepsT]:
        argument, language = _LANGUAGES[name]
        schema = _ARGUMENTS[name].json_schema()
        del schema["title"]
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=name,
                description=_TEXTS[name],
                parameters_json_schema={**schema, "additionalProperties": False},
                sequential=True,  # a session runs one module at a time
                metadata={"code_arg_name": argument, "code_arg_language": language},
            ),
            max_retries=self._capability.max_retries,
            args_validator=cast("SchemaValidatorProt", _ARGUMENTS[name].validator),
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Run a module, or render a widget."""
        capability, run = self._capability, self._run
        if capability.on_error == "result":
            run.check_failures(capability.max_retries, name)
        content: list[Any] = []
        if name == RENDER:
            outcome = await self._render(ctx, tool_args["source"])
        else:
            outcome = await self._module(ctx, tool_args["code"], content)
        more = run.count(outcome, capability.max_retries, name)
        if outcome["ok"]:
            return ToolReturn(return_value=outcome["value"], content=content or None, metadata=outcome["metadata"])
        if capability.on_error == "retry":
            raise ModelRetry(outcome["text"])
        raise ToolFailed(outcome["text"] + more)

    async def _module(self, ctx: RunContext[AgentDepsT], code: str, content: list[Any]) -> Outcome:
        capability, run = self._capability, self._run
        if ctx.in_durable_context:
            return await capability.perform_module(ctx, code, run.calls > 0)
        calls = run.tools.calls(ctx)
        outcome = await capability.run(ctx, await run.session(), code, tools=None if calls is None else calls.bridge)
        if calls is not None:
            if calls.ended is not None:
                raise calls.ended
            content.extend(calls.content)
        return outcome

    async def _render(self, ctx: RunContext[AgentDepsT], source: str) -> Outcome:
        capability, run = self._capability, self._run
        if ctx.in_durable_context:
            return await capability.perform_widget(ctx, source)
        return await capability.render(await run.session(), source)
