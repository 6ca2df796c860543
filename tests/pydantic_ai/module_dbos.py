"""A DBOS application that runs modules, and dies where it is told to: folder, codes, and in which module's run to die (`-`: none)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from scripted import contents, outcomes, scripted

from gloveport import TypeScriptSandboxSession
from gloveport.pydantic_ai import TypeScriptSandbox

FOLDER, CODES, FATAL = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
run_module = TypeScriptSandboxSession.run_module


async def noted(self: TypeScriptSandboxSession, source: str, **options: Any) -> Any:
    """Notes which modules were really run, and dies after the fatal one's run, before anybody heard of it."""
    result = await run_module(self, source, **options)
    with (FOLDER / "log").open("a") as file:
        file.write(f"{CODES.index(source)}\n")
    if str(CODES.index(source)) == FATAL:
        os._exit(9)
    return result


setattr(TypeScriptSandboxSession, "run_module", noted)  # noqa: B010
agent = Agent(
    scripted(*CODES, tool="run_typescript"), name="modules", capabilities=[TypeScriptSandbox(), DBOSDurability()]
)


DBOS(
    config={
        "name": "modules",
        "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
        "application_version": "1",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)


@DBOS.workflow(name="main")
async def main_workflow() -> list[Any]:
    result = await agent.run("go")
    return [outcomes(result), contents(result)]


async def main() -> None:
    DBOS.launch()
    try:
        if await DBOS.get_workflow_status_async("w") is None:
            with SetWorkflowID("w"):
                handle = await DBOS.start_workflow_async(main_workflow)
        else:
            handle = await DBOS.retrieve_workflow_async("w")
        told: Any = await handle.get_result()
        steps = [step["function_name"] for step in await DBOS.list_workflow_steps_async("w")]
        print(json.dumps({"outcomes": told[0], "contents": told[1], "steps": steps}))
    finally:
        DBOS.destroy()


asyncio.run(main())
