"""Answers a script that waits, in a process of its own: folder, then `approve` or `deny`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pydantic_ai import ConversationTypeAdapter, ToolDenied
from scripted import Mail, agent_of, contents

from gloveport.pydantic_ai import ToolScript


async def main(folder: Path, verdict: str) -> None:
    mail = Mail()
    agent = mail.add_to(
        agent_of("", "return a", capability=ToolScript(store=str(folder / "s.sqlite"), key="env:SCRIPT_KEY"))
    )
    conversation = ConversationTypeAdapter.validate_json((folder / "conversation.json").read_bytes())
    requests = conversation.deferred_tool_requests
    results = requests.build_results(approvals={"c0a": True if verdict == "approve" else ToolDenied("no")})
    result = await agent.run(conversation=conversation, deferred_tool_results=results)
    print(json.dumps({"contents": contents(result), "sent": mail.sent}))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
