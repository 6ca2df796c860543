"""The fakes that applications test with."""

from __future__ import annotations

import asyncio

import pytest

from gloveport import ModuleResult
from gloveport.testing import CLOCK, FakeModules, async_inline_sandbox, inline_sandbox, scripted_model

CODE = "return [Date.now(), Math.random(), await t(1)]"


def test_inline_sessions_always_behave_the_same():
    async def later():
        async with async_inline_sandbox({"t": lambda x: x}) as session:
            return await session.run(CODE)

    with inline_sandbox({"t": lambda x: x}) as one, inline_sandbox({"t": lambda x: x}, random_seed=2) as two:
        first = one.run(CODE)
        assert first[0] == CLOCK * 1000
        assert first[1] == asyncio.run(later())[1] != two.run(CODE)[1]
        assert one.worker_pid is None


def test_a_scripted_model_runs_its_scripts():
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent

    from gloveport.pydantic_ai import ToolScript

    agent = Agent(
        scripted_model("const a = await double({x: 20})", "return a + 2"), capabilities=[ToolScript(isolation="inline")]
    )

    @agent.tool_plain
    def double(x: int) -> int:
        return 2 * x

    assert asyncio.run(agent.run("go")).output == "42"


def test_fake_modules_answer_without_a_worker():
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent

    from gloveport.pydantic_ai import TypeScriptSandbox

    fake = FakeModules([[1, 2], ModuleResult(ok=False, error="no", exit_reason="threw")])
    agent = Agent(
        scripted_model("one", "two", tool_name="run_typescript"), capabilities=[TypeScriptSandbox(session=fake)]
    )
    assert asyncio.run(agent.run("go")).output == "no"
    assert fake.sources == ["one", "two"]
