"""An agent with `TypeScriptSandbox` in a Temporal workflow: folder of the server's program, and the codes that its model writes.

Prints what the model was told, which activities the history has, and whether the history replays.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

with workflow.unsafe.imports_passed_through():
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parent))
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
    from scripted import contents, outcomes, scripted

    from gloveport.pydantic_ai import TypeScriptSandbox

CODES = json.loads(sys.argv[2])
agent = Agent(
    scripted(*CODES, tool="run_typescript"),
    name="modules",
    capabilities=[TypeScriptSandbox(timeout=5), TemporalDurability()],
)


@workflow.defn
class Modules(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [agent]

    @workflow.run
    async def run(self, prompt: str) -> list[Any]:
        result = await agent.run(prompt)
        return [outcomes(result), contents(result)]


async def main() -> None:
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=sys.argv[1], dev_server_log_level="error", plugins=[PydanticAIPlugin()]
    )
    async with server as environment:
        client = environment.client
        async with Worker(client, task_queue="modules", workflows=[Modules]):
            handle = await client.start_workflow(Modules.run, "go", id="modules", task_queue="modules")
            told: Any = await asyncio.wait_for(handle.result(), 60)
        history = await handle.fetch_history()
    replayed: WorkflowHistory = history
    await Replayer(workflows=[Modules], plugins=[PydanticAIPlugin()]).replay_workflow(replayed)
    activities = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    print(json.dumps({"outcomes": told[0], "contents": told[1], "activities": activities}))


if __name__ == "__main__":  # Temporal imports this module once more, in its own sandbox
    asyncio.run(main())
