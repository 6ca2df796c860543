"""Scripts that wait for an answer from outside the run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    Conversation,
    ConversationTypeAdapter,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDenied,
    ToolFailed,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError
from scripted import Mail, agent_of, contents, outcomes

from gloveport.errors import StoreError
from gloveport.pydantic_ai import ToolScript
from gloveport.stores import MemoryStore, Record

ASK = "const a = await lookup({name: 'ada'}); try { return await send({to: a}) } catch (e) { return `${e.name}: ${e.message}` }"


def answer(result: Any, given: Any = True) -> DeferredToolResults:
    (call,) = result.output.approvals
    return result.output.build_results(approvals={call.tool_call_id: given})


def test_an_approval_makes_the_call_once_and_the_code_goes_on():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK, "return a"))
    asked = agent.run_sync("x")
    assert isinstance(asked.output, DeferredToolRequests)
    assert mail.sent == ["lookup ada"]
    request = asked.output.metadata["c0a"]
    assert (request["tool_name"], request["args"], request["tool_call_id"]) == (
        "send",
        {"to": "ada@example.org"},
        "c0a__2",
    )
    assert request["text"] == 'The script wants to call `send` with {"to": "ada@example.org"}'
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert mail.sent == ["lookup ada", "ada@example.org"]
    assert contents(result) == ["sent to ada@example.org", "ada@example.org"]


def test_a_denial_is_an_error_that_the_code_can_catch():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK))
    asked = agent.run_sync("x")
    result = agent.run_sync(
        conversation=asked.conversation, deferred_tool_results=answer(asked, ToolDenied("not today"))
    )
    assert contents(result) == ["ToolDeniedError: not today"]
    assert outcomes(result) == ["success"]
    assert mail.sent == ["lookup ada"]


def test_a_person_can_change_the_arguments_of_the_call():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK))
    asked = agent.run_sync("x")
    approved = ToolApproved(override_args={"to": "bob@example.org"})
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked, approved))
    assert contents(result) == ["sent to bob@example.org"]


def test_the_tool_sees_the_approval_and_the_metadata_that_came_with_it():
    seen: list[Any] = []
    agent = agent_of("return await act({n: 1})")

    @agent.tool
    def act(ctx: RunContext[Any], n: int) -> int:
        seen.append((ctx.tool_call_approved, ctx.tool_call_metadata, ctx.tool_call_id))
        if not ctx.tool_call_approved:
            raise ApprovalRequired({"why": "dangerous"})
        return n

    asked = agent.run_sync("x")
    assert asked.output.metadata["c0a"]["metadata"] == {"why": "dangerous"}
    results = asked.output.build_results(approve_all=True, metadata={"c0a": {"by": "eve"}})
    assert contents(agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)) == [1]
    assert seen == [(False, None, "c0a__1"), (True, {"by": "eve"}, "c0a__1")]


def test_several_calls_are_asked_for_one_at_a_time_in_call_order_and_nothing_is_repeated():
    mail = Mail()
    agent = mail.add_to(
        agent_of("return await Promise.all([send({to: 'a'}), lookup({name: 'b'}), send({to: 'c'}), send({to: 'c'})])")
    )
    result = agent.run_sync("x")
    asked: list[tuple[Any, str]] = []
    while isinstance(result.output, DeferredToolRequests):
        request = result.output.metadata["c0a"]
        asked.append((request["args"]["to"], request["tool_call_id"]))
        result = agent.run_sync(conversation=result.conversation, deferred_tool_results=answer(result))
    assert asked == [("a", "c0a__1"), ("c", "c0a__3"), ("c", "c0a__4")]
    assert mail.sent == ["lookup b", "a", "c", "c"]
    assert contents(result) == [["sent to a", "b@example.org", "sent to c", "sent to c"]]


def test_a_handler_inside_the_run_answers_at_once():
    seen: list[str] = []

    async def handler(ctx: Any, requests: DeferredToolRequests) -> Any:
        seen.extend(call.tool_call_id for call in requests.approvals)
        return requests.build_results(approve_all=True)

    mail = Mail()
    agent = mail.add_to(agent_of(ASK, after=[HandleDeferredToolCalls(handler)]))
    assert contents(agent.run_sync("x")) == ["sent to ada@example.org"]
    assert seen == ["c0a__2"]


def test_a_handler_that_answers_only_the_script_resumes_it_in_the_same_run():
    async def handler(ctx: Any, requests: DeferredToolRequests) -> Any:
        own = {call.tool_call_id: True for call in requests.approvals if call.tool_name == "run_script"}
        return requests.build_results(approvals=own) if own else None

    mail = Mail()
    agent = mail.add_to(agent_of(ASK, "return a", after=[HandleDeferredToolCalls(handler)]))
    assert contents(agent.run_sync("x")) == ["sent to ada@example.org", "ada@example.org"]
    assert mail.sent == ["lookup ada", "ada@example.org"]


def test_a_handler_inside_the_run_denies():
    async def handler(ctx: Any, requests: DeferredToolRequests) -> Any:
        return requests.build_results(approvals={call.tool_call_id: ToolDenied("no") for call in requests.approvals})

    agent = Mail().add_to(agent_of(ASK, after=[HandleDeferredToolCalls(handler)]))
    assert contents(agent.run_sync("x")) == ["ToolDeniedError: no"]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"rows": 3}, {"rows": 3}),
        (ModelRetry("again"), "ToolError: again"),
        (ToolFailed("broken"), "ToolError: broken"),
    ],
)
def test_a_deferred_result_comes_from_outside(given: Any, seen: Any):
    agent = agent_of(
        "try { return await job({}) } catch (e) { return `${e.name}: ${e.message}` }", "return 'still here'"
    )

    @agent.tool_plain
    def job() -> dict[str, int]:
        raise CallDeferred({"job": 7})

    asked = agent.run_sync("x")
    (call,) = asked.output.calls
    assert asked.output.metadata[call.tool_call_id]["metadata"] == {"job": 7}
    results = asked.output.build_results(calls={call.tool_call_id: given})
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)
    assert contents(result) == [seen, "still here"]


def test_the_wrong_kind_of_answer_is_refused_and_the_right_one_still_counts():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK))
    asked = agent.run_sync("x")
    with pytest.raises(UserError, match="for an approval or a denial, not for"):
        agent.run_sync(
            conversation=asked.conversation, deferred_tool_results=DeferredToolResults(calls={"c0a": "forged"})
        )
    agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert mail.sent == ["lookup ada", "ada@example.org"]


def test_scripts_of_the_same_response_wait_for_the_one_that_waits():
    mail = Mail()
    agent = mail.add_to(agent_of([ASK, "return 'ran'"], "return a"))
    asked = agent.run_sync("x")
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert "Nothing was run" in contents(result)[0]
    assert contents(result)[1:] == ["sent to ada@example.org", "ada@example.org"]


# ── twice, too late, not meant ───────────────────────────────────────────────────────────────────────────────────────


def test_the_same_approval_twice_makes_the_call_once():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK))
    asked = agent.run_sync("x")
    saved = ConversationTypeAdapter.dump_json(asked.conversation)
    for _ in range(2):
        conversation = ConversationTypeAdapter.validate_json(saved)
        try:
            agent.run_sync(conversation=conversation, deferred_tool_results=answer(asked))
        except UserError as error:
            assert "was answered before" in str(error)
        else:
            mail.sent.append("through")
    assert mail.sent == ["lookup ada", "ada@example.org", "through"]


def test_the_same_approval_twice_at_the_same_time_makes_the_call_once():
    mail = Mail()
    agent = mail.add_to(agent_of(ASK))
    asked = agent.run_sync("x")
    saved = ConversationTypeAdapter.dump_json(asked.conversation)

    async def both() -> list[Any]:
        runs = (
            agent.run(conversation=ConversationTypeAdapter.validate_json(saved), deferred_tool_results=answer(asked))
            for _ in range(2)
        )
        return await asyncio.gather(*runs, return_exceptions=True)

    ends = asyncio.run(both())
    assert sorted(type(end).__name__ for end in ends) == ["AgentRunResult", "UserError"]
    assert mail.sent == ["lookup ada", "ada@example.org"]


def test_an_approval_of_an_earlier_call_is_none_of_the_next_one():
    mail = Mail()
    agent = mail.add_to(agent_of("await send({to: 'a'}); return await send({to: 'b'})"))
    first = agent.run_sync("x")
    saved = ConversationTypeAdapter.dump_json(first.conversation)
    second = agent.run_sync(conversation=first.conversation, deferred_tool_results=answer(first))
    assert second.output.metadata["c0a"]["args"] == {"to": "b"}
    with pytest.raises(UserError, match="not meant for"):
        agent.run_sync(conversation=ConversationTypeAdapter.validate_json(saved), deferred_tool_results=answer(first))
    assert mail.sent == ["a"]
    agent.run_sync(conversation=second.conversation, deferred_tool_results=answer(second))
    assert mail.sent == ["a", "b"]


def test_a_history_without_metadata_needs_it_with_the_answer():
    mail = Mail()
    agent = mail.add_to(agent_of("await send({to: 'a'}); return await send({to: 'b'})"))

    def bare(conversation: Conversation) -> Conversation:
        for message in conversation.messages:
            message.metadata = None
        return conversation

    first = agent.run_sync("x")
    second = agent.run_sync(conversation=bare(first.conversation), deferred_tool_results=answer(first))
    with pytest.raises(UserError, match="metadata=requests.metadata"):
        agent.run_sync(conversation=bare(second.conversation), deferred_tool_results=answer(second))
    results = second.output.build_results(approve_all=True, metadata=second.output.metadata)
    assert contents(agent.run_sync(conversation=bare(second.conversation), deferred_tool_results=results)) == [
        "sent to b"
    ]
    assert mail.sent == ["a", "b"]


def test_a_script_that_nobody_answers_is_undone_and_that_is_said():
    mail = Mail()
    agent = mail.add_to(
        agent_of(
            "let n = 1; return n", "n = 2; await send({to: 'a'}); return n", capability=ToolScript(max_tool_calls=3)
        )
    )
    asked = agent.run_sync("x")
    with agent.override(
        model=agent_of("return n", "await lookup({name: 'b'}); return 1", "await lookup({name: 'b'}); return 2").model
    ):
        history = asked.all_messages()[:-1]  # without the call that nobody answered
        result = agent.run_sync(
            "never mind", message_history=history, conversation_id=asked.conversation.conversation_id
        )
    first, second, third = contents(result, new=True)[-3:]
    assert first["result"] == 1
    assert "given up (nobody answered it)" in first["notes"][0]
    assert (second, third) == (1, 2)
    with pytest.raises(UserError, match="answered before, or given up"):
        agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert mail.sent == ["lookup b", "lookup b"]


@pytest.mark.parametrize("dies", ["with its store", "with an interrupt"])
def test_a_script_whose_process_died_after_the_approval_is_not_repeated(dies: str):
    class Mortal(MemoryStore):
        dead = False

        def put(self, record: Record, *, expect: int | None) -> int:
            if self.dead:
                raise StoreError("dead")
            return super().put(record, expect=expect)

    mail, store = Mail(), Mortal()
    agent = mail.add_to(
        agent_of("let n = 1; return n", "n = 2; return await crash({})", capability=ToolScript(store=store))
    )

    @agent.tool
    async def crash(ctx: RunContext[Any]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        mail.sent.append("crashed")
        if dies == "with an interrupt":
            raise KeyboardInterrupt
        store.dead = True
        return "done"

    asked = agent.run_sync("x")
    with pytest.raises((KeyboardInterrupt, StoreError)):
        asyncio.run(agent.run(conversation=asked.conversation, deferred_tool_results=answer(asked)))
    store.dead = False
    for _ in range(2):
        with pytest.raises(UserError, match="It is not made again"):
            agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert mail.sent == ["crashed"]
    with agent.override(model=agent_of("return n").model):
        conversation = asked.conversation.conversation_id
        result = agent.run_sync("go on", message_history=asked.all_messages()[:-1], conversation_id=conversation)
    seen = contents(result, new=True)[-1]
    if dies == "with an interrupt":
        assert seen == 1
    else:
        assert seen["result"] == 1
        assert "it was begun, and what came of it is not known" in seen["notes"][0]


def test_what_a_person_is_shown_has_no_hidden_characters():
    agent = Mail().add_to(agent_of("await send({to: 'a\\u202eb\\u200b\\n`ä'})"))
    request = agent.run_sync("x").output.metadata["c0a"]
    assert request["text"] == 'The script wants to call `send` with {"to": "a\\u202eb\\u200b\\n`ä"}'
    assert request["args"] == {"to": "a\u202eb\u200b\n`ä"}


# ── another process ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_an_approval_in_another_process(tmp_path: Path, verdict: str):
    key = os.urandom(32)
    mail = Mail()
    agent = mail.add_to(agent_of(ASK, capability=ToolScript(store=tmp_path / "s.sqlite", key=key)))
    asked = agent.run_sync("x")
    (tmp_path / "conversation.json").write_bytes(ConversationTypeAdapter.dump_json(asked.conversation))
    environment = {**os.environ, "SCRIPT_KEY": key.hex()}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("other_process.py")), str(tmp_path), verdict],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if verdict == "approve":
        assert told == {"contents": ["sent to ada@example.org", "ada@example.org"], "sent": ["ada@example.org"]}
    else:
        assert told == {"contents": ["ToolDeniedError: no", "ada@example.org"], "sent": []}
    with pytest.raises(UserError, match="answered before"):
        agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))
    assert mail.sent == ["lookup ada"]


def test_an_approval_of_the_script_tool_itself_is_no_answer():
    """An application may want a say in every script as well."""
    agent = Mail().add_to(agent_of("return 1"))

    class Careful(ToolScript[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            if tool_def.name == "run_script" and not ctx.tool_call_approved:
                raise ApprovalRequired
            return args

    agent = Agent(agent.model, capabilities=[Careful()], output_type=[str, DeferredToolRequests])
    asked = agent.run_sync("x")
    assert contents(agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked))) == [1]
    asked = agent.run_sync("x")
    denied = agent.run_sync(conversation=asked.conversation, deferred_tool_results=answer(asked, ToolDenied("no")))
    assert outcomes(denied) == ["denied"]
