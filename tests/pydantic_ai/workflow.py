"""A process of a DBOS application that dies where it is told to: folder, scenario, and where to die (`-`: nowhere).

Started again, it recovers what it left. Everything that really happened is in the file `log`, a line each, whichever process did it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, ModelResponse, RunContext, ToolDenied
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset
from pydantic_ai.usage import UsageLimits
from scripted import returns, scripted

from gloveport.pydantic_ai import ToolScript
from gloveport.stores import Record, SQLiteStore

FOLDER, SCENARIO, FATAL = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
SCRIPTS: dict[str, list[Any]] = {
    "plain": [
        "let n = 1; await note({text: 'a'}); return n",
        "n += 1; await note({text: 'b'}); return n",
        "return typeof n",
    ],
    "after": [
        "let n = 1; await note({text: 'a'}); return n",
        "await note({text: 'b'})",
        "n += 1; await note({text: 'c'}); return n",
        "return n",
    ],
    "approval": [
        "const sent = await send({to: 'ada'}); await note({text: 'after'}); return sent",
        "return typeof sent",
    ],
    "inline": ["return [await send({to: 'ada'}), await send({to: 'bob'})]", "return 1"],
    "denied": ["try { await send({to: 'ada'}) } catch (error) { return error.message }", "return 1"],
    "limit": ["for (const text of 'abc') await note({text})", "return 1"],
    "failing": ["await note({text: 'a'}); throw new Error('no')", "return 1"],
    "budget": [
        "await note({text: 'a'}); await note({text: 'b'})",
        "return 1",
        {"code": "return 1", "restart": True},
        "await note({text: 'c'})",
    ],
    "inside": ["return [await where(), await later()]", "return await where()"],
}


def log(line: str) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(line + "\n")
    if line == FATAL:
        os._exit(9)


class DyingStore(SQLiteStore):
    """Says what it wrote, and is in time to die before the engine knows."""

    def put(self, record: Record, **options: Any) -> int:
        version = super().put(record, **options)
        log(f"put {version}")
        return version


async def note(text: str) -> None:
    log(f"note {text}")


async def send(to: str) -> str:
    log(f"send {to}")
    return f"sent to {to}"


async def where() -> list[Any]:
    return [DBOS.workflow_id, DBOS.step_id]


def late(ctx: RunContext[Any]) -> FunctionToolset[Any]:
    return FunctionToolset[Any]([Tool(where, name="later")])


def tool_agent() -> Agent[Any, Any]:
    budgets = {"note": 2} if SCENARIO == "budget" else {}
    script = ToolScript[Any](store=DyingStore(FOLDER / "sessions.sqlite"), key=b"k" * 32, tool_budgets=budgets)
    capabilities: list[Any] = [script, DBOSDurability()]
    if SCENARIO == "inline":
        capabilities.append(HandleDeferredToolCalls(approve_all))
    return Agent(
        logged(scripted(*SCRIPTS[SCENARIO])),
        name="scripts",
        tools=[note, where, Tool(send, requires_approval=True)],
        toolsets=[DynamicToolset(late, id="late")],
        capabilities=capabilities,
        output_type=[str, DeferredToolRequests],
    )


def logged(model: FunctionModel) -> FunctionModel:
    asked: Any = model.function

    async def answer(messages: Any, info: Any) -> ModelResponse:
        log(f"model {sum(isinstance(message, ModelResponse) for message in messages)}")
        return asked(messages, info)

    return FunctionModel(answer)


async def approve_all(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    return requests.build_results(approve_all=True)


def main() -> None:
    DBOS(
        config={
            "name": "scripts",
            "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
            "application_version": "1",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )
    agent = tool_agent()

    @DBOS.workflow()
    async def ask() -> dict[str, Any]:
        limits = UsageLimits(tool_calls_limit=3 if SCENARIO == "limit" else None)
        try:
            result = await agent.run("go", usage_limits=limits)
        except UsageLimitExceeded:
            return {"error": "UsageLimitExceeded"}
        told = {
            "contents": [[part.outcome, part.content] for part in returns(result)],
            "tool_calls": result.usage.tool_calls,
        }
        if not isinstance(result.output, DeferredToolRequests):
            return told
        given = ToolDenied("not today") if SCENARIO == "denied" else True
        answers = result.output.build_results(approvals={call.tool_call_id: given for call in result.output.approvals})
        log("answered")
        again = await agent.run(conversation=result.conversation, deferred_tool_results=answers)
        return {"contents": [[part.outcome, part.content] for part in returns(again)]}

    async def act() -> None:
        DBOS.launch()
        handle: Any = None
        if await DBOS.get_workflow_status_async("w") is None:
            with SetWorkflowID("w"):
                handle = await DBOS.start_workflow_async(ask)
        else:
            handle = await DBOS.retrieve_workflow_async("w")
        told = await handle.get_result()
        steps = [step["function_name"] for step in await DBOS.list_workflow_steps_async("w")]
        print(json.dumps({**told, "steps": steps}))
        DBOS.destroy()

    asyncio.run(act())


main()
