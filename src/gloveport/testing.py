"""For the tests of applications: sessions that start in microseconds and always behave the same, a model that follows a script, and
what every store and every driver of machines has to do.

with inline_sandbox({"look": look}) as session:
    assert session.run("return await look('x')") == …
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from .host.modules.result import ModuleResult
from .host.modules.session import TypeScriptSandboxSession
from .host.sandbox import AsyncAgentSandbox
from .host.sync import AgentSandbox
from .machines.conformance import DriverSuite
from .stores.conformance import StoreSuite

if TYPE_CHECKING:
    from pydantic_ai.models.function import FunctionModel

__all__ = (
    "CLOCK",
    "SEED",
    "DriverSuite",
    "FakeModules",
    "StoreSuite",
    "async_inline_sandbox",
    "inline_sandbox",
    "scripted_model",
)

CLOCK = 1_700_000_000
"""Where their clock begins: 2023-11-14T22:13:20Z."""
SEED = 1
"""Of their `Math.random`."""

_FIXED: dict[str, Any] = {"isolation": "inline", "clock": CLOCK, "random_seed": SEED}


def inline_sandbox(tools: Any, **options: Any) -> AgentSandbox:
    """An `AgentSandbox` in this process, with a fixed clock and seed. No jail: for code that the test wrote itself."""
    return AgentSandbox(tools, **{**_FIXED, **options})


def async_inline_sandbox(tools: Any, **options: Any) -> AsyncAgentSandbox:
    """The same for asyncio."""
    return AsyncAgentSandbox(tools, **{**_FIXED, **options})


class FakeModules(TypeScriptSandboxSession):
    """A session of modules that runs nothing: it answers with the next of these values, and keeps the `sources` it was given.

    For `TypeScriptSandbox(session=FakeModules([…]))`. A `ModuleResult` is given as it is, another value as that of a module that
    returned it. Raises `IndexError` when there are no more.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__()
        self._values = list(values)
        self.sources: list[str] = []

    @property
    def is_open(self) -> bool:
        """Always."""
        return True

    async def run_module(self, source: str, **_: Any) -> ModuleResult:
        """The next one."""
        self.sources.append(source)
        value = self._values.pop(0)
        return value if isinstance(value, ModuleResult) else ModuleResult(ok=True, value=value)


def scripted_model(
    *scripts: str | dict[str, Any] | tuple[str, dict[str, Any]], tool_name: str = "run_script"
) -> FunctionModel:
    """A Pydantic AI model that answers every prompt by running these scripts, and then says what the last one gave. It can be streamed.

    `tool_name` is the tool that runs them: that of `ToolScript`, or `"run_typescript"`. A dict is a call's arguments, a pair the name of
    a tool and its arguments.
    """
    from pydantic_ai import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        prompt = max(i for i, message in enumerate(messages) if message.parts[0].part_kind == "user-prompt")
        done = sum(isinstance(message, ModelResponse) for message in messages[prompt:])
        if done < len(scripts):
            script = scripts[done]
            name, given = script if isinstance(script, tuple) else (tool_name, script)
            return ModelResponse(parts=[ToolCallPart(name, {"code": given} if isinstance(given, str) else given)])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[-1].content))])

    async def stream(messages: list[Any], info: Any) -> AsyncIterator[Any]:
        for part in answer(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {
                    0: DeltaToolCall(
                        name=part.tool_name, json_args=part.args_as_json_str(), tool_call_id=part.tool_call_id
                    )
                }
            elif isinstance(part, TextPart):
                middle = len(part.content) // 2
                for piece in (part.content[:middle], part.content[middle:]):
                    if piece:
                        yield piece

    return FunctionModel(answer, stream_function=stream)
