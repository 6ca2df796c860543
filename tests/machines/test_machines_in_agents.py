"""Machines as dependencies of Pydantic AI agents, without a network."""

import asyncio
import json

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, models

from gloveport import AsyncSandbox, CommandResult, NotFoundError, Sandbox
from gloveport.testing import scripted_model

models.ALLOW_MODEL_REQUESTS = False


def returned(result):
    return [
        part.model_response_str()
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind == "tool-return"
    ]


def test_a_result_as_a_model_sees_it(shared):
    agent = Agent(
        scripted_model({"command": "echo hi; exit 3"}, {"command": "sleep 60"}, tool_name="bash"), deps_type=Sandbox
    )

    @agent.tool
    def bash(ctx: RunContext[Sandbox], command: str) -> CommandResult:
        """Run a shell command in the sandbox."""
        return ctx.deps.commands.run(command, timeout_seconds=0.5)

    plain, late = returned(asyncio.run(agent.run("go", deps=shared)))
    assert plain == '{"stdout":"hi\\n","stderr":"","exit_code":3,"truncated":false}'
    assert json.loads(late)["timed_out"] is True


def test_a_missing_file_is_a_retry_and_a_missing_machine_is_not(state):
    retries = []

    def agent_of(path):
        agent = Agent(scripted_model({"path": path}, tool_name="read_file"), deps_type=AsyncSandbox)

        @agent.tool
        async def read_file(ctx: RunContext[AsyncSandbox], path: str) -> str:
            """Read a text file."""
            try:
                return await ctx.deps.files.read_text(path)
            except NotFoundError:
                retries.append(path)
                raise ModelRetry(f"{path} does not exist.") from None

        return agent

    async def go():
        from gloveport import SandboxGoneError

        sandbox = await AsyncSandbox.create()
        await sandbox.files.write("/workspace/here", "yes")
        assert returned(await agent_of("/workspace/here").run("go", deps=sandbox)) == ["yes"]
        missing = await agent_of("/nope").run("go", deps=sandbox)
        parts = [part for message in missing.all_messages() for part in message.parts]
        # The model is asked to try again: by a part of its own, or by the call's outcome (Pydantic AI 2.68).
        (told,) = [
            part for part in parts if part.part_kind == "retry-prompt" or getattr(part, "outcome", "") == "retried"
        ]
        assert "/nope does not exist." in str(told.content)
        assert retries == ["/nope"]
        retries.clear()
        await sandbox.kill()
        with pytest.raises(SandboxGoneError):
            await agent_of("/workspace/here").run("go", deps=sandbox)
        assert not retries

    asyncio.run(go())


class Chat(BaseModel):
    sandbox_id: str
    turns: int = 0


def test_one_machine_per_conversation(state):
    """Paused between turns; the id is all that is stored."""

    def send(chat, command):
        agent = Agent(scripted_model({"command": command}, tool_name="bash"), deps_type=Sandbox)

        @agent.tool
        def bash(ctx: RunContext[Sandbox], command: str) -> CommandResult:
            """Run a shell command in the sandbox."""
            return ctx.deps.commands.run(command, timeout_seconds=60)

        sandbox = Sandbox.connect(chat.sandbox_id)
        try:
            chat.turns += 1
            return json.loads(returned(asyncio.run(agent.run("go", deps=sandbox)))[0])["stdout"]
        finally:
            sandbox.pause()

    chat = Chat(sandbox_id=Sandbox.create(name="chat-session").id)
    try:
        send(chat, "echo one > todo.txt")
        chat = Chat.model_validate_json(chat.model_dump_json())
        assert [info.status for info in Sandbox.list() if info.id == chat.sandbox_id] == ["paused"]
        assert send(chat, "echo two >> todo.txt; cat todo.txt") == "one\ntwo\n"
    finally:
        Sandbox.kill_by_id(chat.sandbox_id)
