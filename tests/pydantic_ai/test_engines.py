"""Scripts on the `v8` engine: the same agent, the same approvals, the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import ConversationTypeAdapter, DeferredToolRequests
from scripted import Mail, agent_of, contents, outcomes

from gloveport.pydantic_ai import ToolScript

KEY = b"k" * 32


def test_calls_state_typescript_and_errors():
    mail = Mail()
    agent = mail.add_to(
        agent_of(
            "const a: string = await lookup({name: 'ada'}); let n = 1; return a",
            "return [a, ++n, await Promise.all([slow({n: 1}), slow({n: 2})])]",
            "n = 50; null.x",
            "return n",
            capability=ToolScript[Any](engine="v8"),
        )
    )
    result = agent.run_sync("x")
    assert outcomes(result) == ["success", "success", "failed", "success"]
    first, second, third, fourth = contents(result)
    assert (first, second, fourth) == ("ada@example.org", ["ada@example.org", 2, [1, 2]], 50)
    assert "TypeError" in str(third)
    assert mail.most == 2


@pytest.mark.anyio
async def test_an_approval_in_a_stored_conversation_is_answered_in_another_worker(tmp_path: Path):
    """`Agent.run` once with a call that waits; the history goes to a file, and a new capability object goes on from there."""
    code = "const a = await lookup({name: 'ada'}); const told = await send({to: a}); return [a, told]"
    mail = Mail()

    def make():
        return mail.add_to(
            agent_of(
                code,
                "return told",
                capability=ToolScript[Any](engine="v8", store=tmp_path / "s.sqlite", key=KEY, max_tool_calls=5),
            )
        )

    asked = await make().run("x")
    assert isinstance(asked.output, DeferredToolRequests)
    assert mail.sent == ["lookup ada"]
    (call,) = asked.output.approvals
    results = asked.output.build_results(approvals={call.tool_call_id: True})
    conversation = ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(asked.conversation))
    done = await make().run(conversation=conversation, deferred_tool_results=results)
    assert mail.sent == ["lookup ada", "ada@example.org"], "no call was made twice"
    assert contents(done) == [["ada@example.org", "sent to ada@example.org"], "sent to ada@example.org"]


def test_a_limit_ends_the_script_and_not_the_conversation():
    agent = Mail().add_to(
        agent_of("let n = 1", "n = 2; for (;;);", "return n", capability=ToolScript[Any](engine="v8", timeout=0.3))
    )
    result = agent.run_sync("x")
    assert outcomes(result) == ["success", "failed", "success"]
    assert contents(result)[2] == 1
    assert "RuntimeTimeout" in str(contents(result)[1])
