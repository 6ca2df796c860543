"""A DBOS application whose agent has a machine, and that dies where it is told to: folder, and after which command (`-`: none)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability

from gloveport.pydantic_ai import MachineBackend, MachineSandbox, MachineTools
from gloveport.testing import scripted_model

FOLDER, FATAL = Path(sys.argv[1]), sys.argv[2]
COMMANDS = ["echo one >>log", "echo two >>log; exit 3", "cat log"]
run = MachineBackend.run


async def noted(self, command, **options):
    """Notes which commands were really run, and dies after the fatal one, before anybody heard of it."""
    result = await run(self, command, **options)
    with (FOLDER / "log").open("a") as file:
        file.write(f"{COMMANDS.index(command)}\n")
    if str(COMMANDS.index(command)) == FATAL:
        os._exit(9)
    return result


MachineBackend.run = noted
agent = Agent(
    scripted_model(*[("bash", {"command": command}) for command in COMMANDS]),
    name="machines",
    capabilities=[MachineSandbox(), MachineTools(), DBOSDurability()],
)
DBOS(
    config={
        "name": "machines",
        "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)


@DBOS.workflow(name="main")
async def main_workflow():
    result = await agent.run("go")
    told = [
        json.loads(part.model_response_str())
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind == "tool-return"
    ]
    return [told, result.workspace.ref.id]


async def main():
    DBOS.launch()
    try:
        if await DBOS.get_workflow_status_async("w") is None:
            with SetWorkflowID("w"):
                handle = await DBOS.start_workflow_async(main_workflow)
        else:
            handle = await DBOS.retrieve_workflow_async("w")
        print(json.dumps(await handle.get_result()))
    finally:
        DBOS.destroy()


asyncio.run(main())
