"""The toolset of a run: the chosen tools behind the script tool, the others as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import AgentDepsT, RunContext, ToolApproved, ToolDefinition, ToolSelector
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import SchemaValidatorProt, ToolsetTool

from . import history
from .catalog import Catalog, Descriptions, select
from .durable import WAITS, Attempt, Outcome, outcome_of, raise_or_return
from .kind import ARGUMENTS, RUN_SCRIPT, SCHEMA
from .nested import AskingToolset
from .runs import RunState
from .script import Script
from .verdicts import Verdict

__all__ = ("Choice", "ScriptToolset")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """Which tools, and what is beside them."""

    tools: ToolSelector[Any]
    tools_catalog: ToolSelector[Any] | None
    keep_tools: bool
    max_retries: int
    deferred_id: str | None
    """The capability's id, if it has to be loaded by the model first."""
    descriptions: Descriptions


@dataclasses.dataclass(kw_only=True)
class _ScriptTool(ToolsetTool[AgentDepsT]):
    """The script tool of a step, with what it was described from."""

    catalog: Catalog
    wrapped_tools: Mapping[str, ToolsetTool[AgentDepsT]]


@dataclasses.dataclass
class ScriptToolset(WrapperToolset[AgentDepsT]):
    """Made anew for every run."""

    run: RunState
    choice: Choice

    async def __aexit__(self, *args: Any) -> bool | None:
        """Leave the toolset at the end of a run, however it ends: the worker is released."""
        try:
            return await self.wrapped.__aexit__(*args)
        finally:
            await self.run.end()

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """The tools of a step."""
        tools = await self.wrapped.get_tools(ctx)
        choice = self.choice
        if choice.deferred_id is not None and choice.deferred_id not in ctx.active_capability_ids:
            return tools
        chosen = await select(ctx, choice.tools, tools)
        self._check(tools)
        shown = tools if choice.keep_tools else {name: tool for name, tool in tools.items() if name not in chosen}
        searched = None if choice.tools_catalog is None else await select(ctx, choice.tools_catalog, chosen)
        catalog = Catalog.of(chosen, self.run.settings.namespace, searched)
        return {**shown, self.run.tool: self._script_tool(catalog, tools)}

    def _check(self, tools: Mapping[str, ToolsetTool[AgentDepsT]]) -> None:
        if self.run.tool in tools:
            raise UserError(
                f"The agent has a tool named {self.run.tool!r} already: give ToolScript another `tool_name`."
            )
        limits = self.run.settings.limits
        for option, budgets in (("tool_budgets", limits.tool_budgets), ("run_budgets", limits.run_budgets)):
            unknown = sorted(set(budgets) - set(tools))
            if unknown:
                raise UserError(f"ToolScript: `{option}` names {unknown[0]!r}, which is not a tool of the agent.")

    def _script_tool(self, catalog: Catalog, tools: Mapping[str, ToolsetTool[AgentDepsT]]) -> _ScriptTool[AgentDepsT]:
        return _ScriptTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=self.run.tool,
                description=self.choice.descriptions.of(catalog),
                parameters_json_schema=SCHEMA,
                sequential=True,  # a conversation has one session
                metadata={"code_arg_name": "code", "code_arg_language": "typescript"},
                tool_kind=RUN_SCRIPT.id,
            ),
            max_retries=self.choice.max_retries,
            args_validator=cast("SchemaValidatorProt", ARGUMENTS.validator),
            catalog=catalog,
            wrapped_tools=tools,
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Run a script, or call another tool."""
        if not isinstance(tool, _ScriptTool):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        verdict = self.run.verdicts.pop(ctx.tool_call_id or "", None)
        if verdict is None and ctx.tool_call_approved:
            verdict = Verdict(ToolApproved())
        if ctx.in_durable_context:
            return await self._operation(tool, tool_args, ctx, verdict)
        with self.run.script():
            return await self._run_script(self._script(tool, ctx), tool_args, verdict)

    def _script(
        self, tool: _ScriptTool[AgentDepsT], ctx: RunContext[AgentDepsT], attempt: Attempt | None = None
    ) -> Script:
        if ctx.tool_manager is None:
            raise UserError("ToolScript needs the tool manager of an agent run.")
        manager = ToolManager(
            toolset=AskingToolset(self.wrapped),
            root_capability=ctx.tool_manager.root_capability,
            ctx=ctx,
            tools=dict(tool.wrapped_tools),
        )
        return Script(self.run, ctx, tool.catalog, manager, attempt)

    async def _run_script(self, script: Script, arguments: Mapping[str, Any], verdict: Verdict | None) -> Any:
        if verdict is not None:
            answered = await script.answer(verdict)
            if answered is not None:
                return answered
        self.run.check_failures()
        return await script.start(arguments["code"], restart=arguments.get("restart", False))

    # ── inside of a durable workflow ─────────────────────────────────────────────────────────────────────────────────

    async def _operation(
        self,
        tool: _ScriptTool[AgentDepsT],
        arguments: Mapping[str, Any],
        ctx: RunContext[AgentDepsT],
        verdict: Verdict | None,
    ) -> Any:
        """Have the engine run the script, or give what it recorded of it. All else here is the workflow's own code: no I/O."""
        raised: list[Exception] = []
        attempt = Attempt.of(ctx)

        async def perform(inside: RunContext[Any]) -> Outcome:
            with self.run.script():
                script = self._script(tool, inside, attempt)
                earlier = await script.earlier()
                if earlier is not None:
                    return earlier
                try:
                    end = await self._run_script(script, arguments, verdict)
                except Exception as error:
                    outcome = outcome_of(error, self.run.failures)
                    raised.append(error)
                    return outcome
                return outcome_of(end, self.run.failures)

        outcome = await self.run.operate(ctx, perform)
        self.run.failures = outcome["failures"]
        if outcome["kind"] in WAITS:
            history.mark(ctx, ctx.tool_call_id or "", outcome["value"]["pause"])
        if raised:
            raise raised[0]
        return raise_or_return(outcome)
