"""An agent whose model is a list of scripts, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from gloveport.pydantic_ai import ToolScript

Turn = str | dict[str, Any] | Sequence[str | dict[str, Any]]


def scripted(*turns: Turn, tool: str = "run_script") -> FunctionModel:
    """Each turn is the code of one call, its arguments, or a list of these for several calls; then the model says `end`.

    Turns are counted from the last user prompt, so every run begins with the first one.
    """

    def calls(messages: list[ModelMessage]) -> list[ToolCallPart]:
        done = len(_since_prompt(messages))
        if done >= len(turns):
            return []
        turn = turns[done]
        several = [turn] if isinstance(turn, (str, dict)) else turn
        total = sum(isinstance(message, ModelResponse) for message in messages)
        return [
            ToolCallPart(tool, {"code": item} if isinstance(item, str) else item, f"c{total}{'abc'[index]}")
            for index, item in enumerate(several)
        ]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=calls(messages) or [TextPart("end")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        made = calls(messages)
        if not made:
            yield "end"
        for index, call in enumerate(made):
            yield {index: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)}

    return FunctionModel(answer, stream_function=stream)


def _since_prompt(messages: list[ModelMessage]) -> list[ModelResponse]:
    found: list[ModelResponse] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            if any(part.part_kind == "user-prompt" and isinstance(part.content, str) for part in message.parts):
                found = []
        elif isinstance(message, ModelResponse):
            found.append(message)
    return found


def agent_of(*turns: Turn, capability: ToolScript[Any] | None = None, **options: Any) -> Agent[Any, Any]:
    script = capability or ToolScript()
    return Agent(
        scripted(*turns, tool=script.tool_name),
        capabilities=[*options.pop("before", ()), script, *options.pop("after", ())],
        output_type=[str, DeferredToolRequests],
        **options,
    )


def returns(result: Any, *, new: bool = False) -> list[ToolReturnPart]:
    messages = result.new_messages() if new else result.all_messages()
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def contents(result: Any, *, new: bool = False) -> list[Any]:
    return [part.content for part in returns(result, new=new)]


def outcomes(result: Any) -> list[str]:
    return [part.outcome for part in returns(result)]


class Mail:
    """Tools that keep a record of what was really done."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.most = 0
        self._now = 0

    def add_to(self, agent: Agent[Any, Any]) -> Agent[Any, Any]:
        agent.tool_plain(self.lookup)
        agent.tool_plain(requires_approval=True)(self.send)
        agent.tool_plain(self.slow)
        agent.tool_plain(sequential=True)(self.alone)
        return agent

    def lookup(self, name: str) -> str:
        """The address of a person."""
        self.sent.append(f"lookup {name}")
        return f"{name}@example.org"

    def send(self, to: str) -> str:
        """Send a mail."""
        self.sent.append(to)
        return f"sent to {to}"

    async def slow(self, n: int) -> int:
        return await self._overlapping(n)

    async def alone(self, n: int) -> int:
        return await self._overlapping(n)

    async def _overlapping(self, n: int) -> int:
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(20):
            await asyncio.sleep(0)
        self._now -= 1
        return n
