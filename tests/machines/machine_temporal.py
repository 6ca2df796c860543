"""An agent that has a machine, in a Temporal workflow: the server's program.

Prints what the model was told, the machine's reference, which activities the history has; and fails when the history does not replay.
"""

from __future__ import annotations

import asyncio
import json
import sys

from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability

    from gloveport.pydantic_ai import MachineSandbox, MachineTools
    from gloveport.testing import scripted_model

COMMANDS = ["echo one >>log", "echo two >>log; exit 3", "cat log"]
agent = Agent(
    scripted_model(*[("bash", {"command": command}) for command in COMMANDS]),
    name="machines",
    capabilities=[MachineSandbox(), MachineTools(), TemporalDurability()],
)


@workflow.defn
class Machines(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [agent]

    @workflow.run
    async def run(self, prompt: str) -> list:
        result = await agent.run(prompt)
        told = [
            json.loads(part.model_response_str())
            for message in result.all_messages()
            for part in message.parts
            if part.part_kind == "tool-return"
        ]
        return [told, result.workspace.ref.id]


async def main():
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=sys.argv[1], dev_server_log_level="error", plugins=[PydanticAIPlugin()]
    )
    async with server as environment:
        client = environment.client
        async with Worker(client, task_queue="machines", workflows=[Machines]):
            handle = await client.start_workflow(Machines.run, "go", id="machines", task_queue="machines")
            told = await asyncio.wait_for(handle.result(), 60)
        history = await handle.fetch_history()
    await Replayer(workflows=[Machines], plugins=[PydanticAIPlugin()]).replay_workflow(history)
    activities = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    print(json.dumps([*told, activities]))


if __name__ == "__main__":  # Temporal imports this module once more, in its own sandbox
    asyncio.run(main())
