"""Five programs that people write for sandboxes of a cloud, with imports of gloveport and a model that follows a script."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("pydantic_ai.workspaces")

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    Conversation,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelRetry,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
    UsageLimitExceeded,
    UsageLimits,
    models,
)

from gloveport import AsyncSandbox, CommandResult, NotFoundError, Sandbox
from gloveport.testing import scripted_model

models.ALLOW_MODEL_REQUESTS = False
pytestmark = pytest.mark.usefixtures("loops")


def bash_agent(*commands, deps_type=Sandbox):
    return Agent(
        scripted_model(*[{"command": command} for command in commands], tool_name="bash"),
        deps_type=deps_type,
        instructions="Use the bash tool to inspect the sandbox before answering.",
    )


def test_a_blocking_tool():
    agent = bash_agent("touch /tmp/a /tmp/b; ls /tmp | wc -l")

    @agent.tool
    def bash(ctx: RunContext[Sandbox], command: str) -> CommandResult:
        """Run a shell command in the sandbox."""
        return ctx.deps.commands.run(command, timeout_seconds=60)

    sandbox = Sandbox.create(name="agent-runtime")
    try:
        result = agent.run_sync("List the files in /tmp and tell me how many there are.", deps=sandbox)
        (told,) = [
            part.model_response_str()
            for message in result.all_messages()
            for part in message.parts
            if part.part_kind == "tool-return"
        ]
        assert told == '{"stdout":"2\\n","stderr":"","exit_code":0,"truncated":false}'
    finally:
        sandbox.kill()


def files_agent(*calls):
    agent = Agent(
        scripted_model(*calls),
        deps_type=AsyncSandbox,
        instructions="Save code under /home/user and run it with the bash tool. Use python3, not python.",
    )

    @agent.tool
    async def bash(ctx: RunContext[AsyncSandbox], command: str) -> CommandResult:
        """Run a shell command in the sandbox."""
        return await ctx.deps.commands.run(command, timeout_seconds=60)

    @agent.tool
    async def write_file(ctx: RunContext[AsyncSandbox], path: str, content: str) -> str:
        """Write a text file in the sandbox. Use an absolute path."""
        await ctx.deps.files.write(path, content)
        return f"Wrote {len(content)} characters to {path}"

    @agent.tool
    async def read_file(ctx: RunContext[AsyncSandbox], path: str) -> str:
        """Read a text file from the sandbox. Use an absolute path."""
        try:
            return await ctx.deps.files.read_text(path)
        except NotFoundError:
            raise ModelRetry(f"{path} does not exist.") from None

    return agent


PRIMES = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])"


def test_file_tools():
    agent = files_agent(
        ("write_file", {"path": "/home/user/primes.py", "content": PRIMES}),
        ("read_file", {"path": "/home/user/prime.py"}),
        ("read_file", {"path": "/home/user/primes.py"}),
        ("bash", {"command": "python3 /home/user/primes.py"}),
    )

    async def main():
        sandbox = await AsyncSandbox.create(name="code-runner")
        try:
            result = await agent.run(
                "Write it, run it, show it.", deps=sandbox, usage_limits=UsageLimits(request_limit=10)
            )
            told = [
                (
                    part.part_kind,
                    part.model_response() if part.part_kind == "retry-prompt" else part.model_response_str(),
                )
                for message in result.all_messages()
                for part in message.parts
                if part.part_kind in ("tool-return", "retry-prompt")
            ]
            assert told[0] == ("tool-return", f"Wrote {len(PRIMES)} characters to /home/user/primes.py")
            assert "/home/user/prime.py does not exist." in told[1][1]
            assert told[2] == ("tool-return", PRIMES)
            assert json.loads(told[3][1])["stdout"] == "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\n"
            with pytest.raises(UsageLimitExceeded):
                await agent.run("Again.", deps=sandbox, usage_limits=UsageLimits(request_limit=2))
        finally:
            await sandbox.kill()

    asyncio.run(main())


def test_streamed_tool_calls():
    agent = bash_agent("cat /etc/os-release; uname", "python3 --version; which python3", deps_type=AsyncSandbox)

    @agent.tool
    async def bash(ctx: RunContext[AsyncSandbox], command: str) -> CommandResult:
        """Run a shell command in the sandbox."""
        return await ctx.deps.commands.run(command, timeout_seconds=60)

    seen, texts = [], []

    async def main():
        sandbox = await AsyncSandbox.create(name="agent-runtime")
        try:
            async with agent.run_stream_events("Which distribution is it?", deps=sandbox) as events:
                async for event in events:
                    match event:
                        case (
                            PartStartEvent(part=TextPart(content=text))
                            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                        ):
                            texts.append(text)
                        case FunctionToolCallEvent(part=call):
                            seen.append(call.tool_name)
                        case FunctionToolResultEvent(part=tool_return):
                            seen.append(json.loads(tool_return.model_response_str())["stdout"])
        finally:
            await sandbox.kill()

    asyncio.run(main())
    assert [seen[0], seen[2]] == ["bash", "bash"]
    assert "PRETTY_NAME=" in seen[1] and "Linux\n" in seen[1]
    assert seen[3].startswith("Python 3.") and seen[3].endswith("/python3\n")
    assert len(texts) > 1


class Chat(BaseModel):
    sandbox_id: str
    conversation: Conversation | None = None


def test_one_machine_per_conversation():
    def send(chat: Chat, command: str) -> str:
        agent = bash_agent(command)

        @agent.tool
        def bash(ctx: RunContext[Sandbox], command: str) -> CommandResult:
            """Run a shell command in the sandbox."""
            return ctx.deps.commands.run(command, timeout_seconds=60)

        sandbox = Sandbox.connect(chat.sandbox_id)  # resumes it if it is paused
        try:
            result = agent.run_sync("go", deps=sandbox, conversation=chat.conversation)
            chat.conversation = result.conversation
            return result.output
        finally:
            sandbox.pause()

    chat = Chat(sandbox_id=Sandbox.create(name="chat-session").id)
    try:
        send(chat, "printf 'a\\nb\\nc\\n' >/home/user/todo.txt; setsid sleep 999 >/dev/null 2>&1 & echo $! >/tmp/pid")
        stored = chat.model_dump_json()
        chat = Chat.model_validate_json(stored)
        assert Sandbox.list(status="paused")[-1].id == chat.sandbox_id
        output = send(
            chat, "echo d >>/home/user/todo.txt; cat /home/user/todo.txt; kill -0 $(cat /tmp/pid) && echo alive"
        )
        assert "a\\nb\\nc\\nd\\nalive\\n" in output
        assert len(chat.conversation.messages) == 8
    finally:
        assert Sandbox.kill_by_id(chat.sandbox_id)
