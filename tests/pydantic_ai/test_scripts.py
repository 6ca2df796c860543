"""Scripts, their results, and the state between them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext, ToolFailed, ToolReturn, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded, UserError
from pydantic_ai.messages import FunctionToolResultEvent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from scripted import Mail, agent_of, contents, outcomes, returns

from gloveport.pydantic_ai import RUN_SCRIPT, ToolScript


def test_calls_of_tools_go_through_the_agent_and_state_stays():
    mail = Mail()
    agent = mail.add_to(agent_of("const a = await lookup({name: 'ada'}); return a", "return a.length"))
    result = agent.run_sync("x")
    assert contents(result) == ["ada@example.org", 15]
    assert outcomes(result) == ["success", "success"]
    assert result.usage.tool_calls == 3
    assert {part.tool_kind for part in returns(result)} == {RUN_SCRIPT.id}


def test_state_lasts_across_runs_of_a_conversation_and_not_into_another():
    mail = Mail()
    agent = mail.add_to(agent_of("globalThis.n = (globalThis.n ?? 0) + 1; return n"))
    first = agent.run_sync("x")
    second = agent.run_sync("again", conversation=first.conversation)
    assert contents(second, new=True) == [2]
    assert contents(agent.run_sync("other")) == [1]


def test_two_event_loops_after_each_other():
    agent = Mail().add_to(agent_of("globalThis.n = (globalThis.n ?? 0) + 1; return n"))
    first = asyncio.run(agent.run("x"))
    assert contents(asyncio.run(agent.run("y", conversation=first.conversation)), new=True) == [2]


def test_arguments_are_validated_and_the_error_is_catchable():
    agent = agent_of(
        "try { await add({a: 'no', b: 1}) } catch (e) { return [e.name, e.message] }",
        "return await add({a: '2', b: 1})",
    )
    agent.tool_plain(add)
    first, second = contents(agent.run_sync("x"))
    assert first[0] == "ToolArgumentError"
    assert first[1].startswith("a: Input should be a valid integer")
    assert second == 3


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def test_texts_for_the_model_are_shown_and_others_are_not():
    agent = agent_of("""
        const seen = {};
        for (const tool of [retry, fail, crash]) {
            try { await tool() } catch (e) { seen[tool.name] = `${e.name}: ${e.message}` }
        }
        return seen
    """)

    @agent.tool_plain
    def retry() -> str:
        raise ModelRetry("use another name")

    @agent.tool_plain
    def fail() -> str:
        raise ToolFailed("no such person")

    @agent.tool_plain
    def crash() -> str:
        raise KeyError("password=hunter2")

    (seen,) = contents(agent.run_sync("x"))
    assert seen == {
        "retry": "ToolError: use another name",
        "fail": "ToolError: no such person",
        "crash": "KeyError: host function failed",
    }


def test_deps_and_nested_ids():
    seen: list[Any] = []
    agent = agent_of("await note({}); await note({}); return 1", deps_type=str)

    @agent.tool
    def note(ctx: RunContext[str]) -> None:
        seen.append((ctx.deps, ctx.tool_call_id, ctx.tool_name))

    agent.run_sync("x", deps="d")
    assert seen == [("d", "c0a__1", "note"), ("d", "c0a__2", "note")]


# ── concurrency ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_calls_made_together_overlap_and_sequential_ones_do_not():
    mail = Mail()
    agent = mail.add_to(agent_of("return await Promise.all([1, 2, 3].map(n => slow({n})))"))
    assert contents(agent.run_sync("x")) == [[1, 2, 3]]
    assert mail.most == 3
    alone = Mail()
    agent = alone.add_to(
        agent_of("return await Promise.all([slow({n: 1}), alone({n: 2}), alone({n: 3}), slow({n: 4})])")
    )
    assert contents(agent.run_sync("x")) == [[1, 2, 3, 4]]
    assert alone.most == 1


def test_scripts_of_one_response_run_one_after_the_other():
    agent = Mail().add_to(agent_of(["let n = 1; await slow({n: 1}); return n", "n += 1; return n"], "return n"))
    assert contents(agent.run_sync("x")) == [1, 2, 2]


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_console_output_goes_along_only_when_there_is_some():
    agent = agent_of("return {a: [1, null]}", "console.log('hi'); console.error('oh'); return 2", "1")
    result = agent.run_sync("x")
    assert contents(result) == [{"a": [1, None]}, {"result": 2, "stdout": "hi\n", "stderr": "oh\n"}, None]
    metadata = returns(result)[1].metadata
    assert metadata["status"] == "Succeeded"
    assert metadata["stdout"] == "hi\n"


def test_limits_of_output_and_result_apply():
    code = "for (let i = 0; i < 300; i++) console.log('line ' + i); return 'x'.repeat(N)"
    small = ToolScript(max_output_bytes=200, max_result_bytes=1000)
    result = agent_of(code.replace("N", "10"), code.replace("N", "2000"), capability=small).run_sync("x")
    kept, large = contents(result)
    assert len(kept["stdout"]) < 400
    assert returns(result)[0].metadata["truncated"]
    assert large.startswith("ResultTooLarge")
    roomy = agent_of(code.replace("N", "2000")).run_sync("x")
    assert len(contents(roomy)[0]["result"]) == 2000
    assert not returns(roomy)[0].metadata["truncated"]


def test_a_tools_rich_result_is_what_its_schema_says_and_its_content_goes_along():
    agent = agent_of("const r = await report({}); return [r.day, typeof r.day]")

    @agent.tool_plain
    def report() -> ToolReturn[dict[str, Any]]:
        import datetime as dt

        return ToolReturn(return_value={"day": dt.date(2024, 2, 29)}, content="attached")

    result = agent.run_sync("x")
    assert contents(result) == [["2024-02-29", "string"]]
    prompts = [
        part.content for message in result.all_messages() for part in message.parts if part.part_kind == "user-prompt"
    ]
    assert prompts == ["x", ["attached"]]


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_failed_scripts_are_failed_results_and_use_no_retries():
    codes = ["const x = 1;\nthrow new RangeError('no')", "let y = ;", "await new Promise(() => {})", "return x"]
    result = agent_of(*codes, capability=ToolScript(max_retries=0)).run_sync("x")
    assert outcomes(result) == ["failed", "failed", "failed", "success"]
    thrown, syntax, stuck, after = contents(result)
    assert "RangeError: no" in thrown
    assert "at line 2" in thrown
    assert "SyntaxError" in syntax
    assert "DeadlockError" in stuck
    assert after == 1


@pytest.mark.registry
def test_types_are_checked_before_a_script_runs_also_with_what_earlier_scripts_declared():
    from gloveport.engines.checker.install import install

    install()
    mail = Mail()
    codes = [
        "const a = await lookup({name: 'Ada'}); return a",
        "await lookup({name: 5})",
        "await lookup({name: 'x'}); return b",
        "return a",
    ]
    result = mail.add_to(agent_of(*codes, capability=ToolScript(typecheck="block", max_retries=0))).run_sync("x")
    assert outcomes(result) == ["success", "failed", "failed", "success"]
    assert contents(result)[1:3] == [
        "Nothing was run, because the types do not fit. Correct the script and call again.\n"
        "line 1:15 TS2322 Type 'number' is not assignable to type 'string'.",
        "Nothing was run, because the types do not fit. Correct the script and call again.\n"
        "line 1:35 TS2304 Cannot find name 'b'.",
    ]
    assert mail.sent == ["lookup Ada"]
    result = mail.add_to(agent_of("return [].lenght ?? 5", capability=ToolScript(typecheck="warn"))).run_sync("x")
    (content,) = contents(result)
    assert (content["result"], len(content["type_problems"])) == (5, 1)
    with pytest.raises(UserError, match="`typecheck` must be"):
        ToolScript(typecheck="strict")  # pyright: ignore[reportArgumentType]


def test_a_script_over_its_time_is_rolled_back_and_the_session_goes_on():
    capability = ToolScript(timeout=0.3)
    result = agent_of("let n = 1; return n", "n = 2; while (true) {}", "return n", capability=capability).run_sync("x")
    assert outcomes(result) == ["success", "failed", "success"]
    assert "longer than timeout (0.3 s)" in contents(result)[1]
    assert contents(result)[2] == 1


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"max_memory": 16 << 20}, "return new Uint8Array(32 << 20).length", "MemoryLimitExceeded"),
        ({"max_host_calls": 2}, "for (const n of [1, 2, 3]) await slow({n}); return 1", "max_host_calls"),
        ({"max_pause": 0.05}, "await nap({}); return 1", "max_pause"),
        ({"bootstrap": "globalThis.set = 1"}, "if (globalThis.set) throw new Error('set'); return 1", "Error: set"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_limits_of_the_session_are_passed_on_also_to_a_stored_one(options: dict[str, Any], code: str, said: str):
    async def nap() -> None:
        await asyncio.sleep(0.3)

    for chosen in (options, {}):
        agent = Mail().add_to(agent_of(code, capability=ToolScript(**chosen)))
        agent.tool_plain(nap)
        first = agent.run_sync("x")
        second = agent.run_sync("y", conversation=first.conversation)
        for result in (contents(first), contents(second, new=True)):
            assert (said in str(result[0])) == bool(chosen)


def test_calls_over_the_window_wait():
    for most in (2, 5):
        mail = Mail()
        capability = ToolScript(max_inflight=most)
        agent = mail.add_to(
            agent_of("return await Promise.all([1, 2, 3, 4, 5].map(n => slow({n})))", capability=capability)
        )
        assert contents(agent.run_sync("x")) == [[1, 2, 3, 4, 5]]
        assert mail.most == most


def test_a_tool_over_its_time_is_an_error_in_the_script():
    code = "try { return await hang({}) } catch (e) { return e.name }"

    async def hang() -> str:
        await asyncio.sleep(0.2)
        return "done"

    limited, free = agent_of(code, capability=ToolScript(tool_timeout=0.02)), agent_of(code)
    for agent in (limited, free):
        agent.tool_plain(hang)
    assert contents(limited.run_sync("x")) == ["ToolTimeoutError"]
    assert contents(free.run_sync("x")) == ["done"]


def test_half_surrogate_pairs_do_not_end_the_run():
    codes = ["console.log('\\ud800'); return {'\\udc00': ['a\\ud800b', '\\u{1f600}']}", "throw new Error('\\ud800')",
             "try { await lookup({name: '\\ud800'}) } catch (e) { return e.name }"]  # fmt: skip
    mail = Mail()
    result = mail.add_to(agent_of(*codes)).run_sync("x")
    assert json.loads(result.all_messages_json())
    first, second, third = contents(result)
    assert first["result"] == {"\ufffd": ["a\ufffdb", "\U0001f600"]}
    assert first["stdout"] in ("?\n", "\ufffd\n")
    assert second.startswith("Error: ")
    assert third == "ToolArgumentError"
    assert mail.sent == []


def test_a_failed_script_with_a_huge_message_is_kept_short():
    (text,) = contents(agent_of("throw new Error('x'.repeat(5_000_000))").run_sync("x"))
    assert len(text) < 20_000


def test_too_many_failures_in_a_row_stop_scripts_for_this_run_only():
    codes = ["throw 1", "throw 2", "return 3"]
    agent = agent_of(*codes, capability=ToolScript(max_failures=2))
    result = agent.run_sync("x")
    assert outcomes(result) == ["failed", "failed", "failed"]
    assert "no more code is run" in contents(result)[1]
    assert "no more code is run" in contents(result)[2]
    assert contents(agent_of(*codes).run_sync("x"))[2] == 3
    mixed = agent_of("throw 1", "return 2", "throw 3", "return 4", capability=ToolScript(max_failures=2)).run_sync("x")
    assert outcomes(mixed) == ["failed", "success", "failed", "success"]
    again = agent.run_sync("y", conversation=result.conversation)
    assert "no more code" not in contents(again, new=True)[0]


def test_misuse_is_a_retry():
    result = agent_of({"code": 5}, "return 1").run_sync("x")
    assert outcomes(result) == ["retried", "success"]


def test_usage_limits_end_the_run_and_a_script_cannot_catch_them():
    code = "for (let i = 0; i < 5; i++) { try { await lookup({name: 'a'}) } catch (e) {} } return 'through'"
    mail = Mail()
    agent = mail.add_to(agent_of(code))
    with pytest.raises(UsageLimitExceeded):
        agent.run_sync("x", usage_limits=UsageLimits(tool_calls_limit=3))
    assert len(mail.sent) == 2
    assert contents(Mail().add_to(agent_of(code)).run_sync("x", usage_limits=UsageLimits(tool_calls_limit=6))) == [
        "through"
    ]


def test_usage_limits_hold_for_calls_made_together():
    mail = Mail()
    agent = mail.add_to(agent_of("return await Promise.all([1, 2, 3, 4].map(n => slow({n})))"))
    with pytest.raises(UsageLimitExceeded):
        agent.run_sync("x", usage_limits=UsageLimits(tool_calls_limit=3))
    assert mail.most <= 2


# ── budgets and restart ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{"max_tool_calls": 3}, {"tool_budgets": {"lookup": 3}}])
def test_restart_forgets_the_session_and_not_the_budget(options: dict[str, Any]):
    call = "return await lookup({name: 'a'})"
    codes = ["const kept = 1; await lookup({name: 'a'}); await lookup({name: 'a'}); return kept",
             {"code": "return typeof kept", "restart": True}, call, call]  # fmt: skip
    result = Mail().add_to(agent_of(*codes, capability=ToolScript(**options))).run_sync("x")
    assert contents(result)[:3] == [1, "undefined", "a@example.org"]
    assert "ToolBudgetError" in contents(result)[3]
    assert outcomes(Mail().add_to(agent_of(*codes)).run_sync("x")) == ["success"] * 4


def test_calls_of_a_run_that_was_cancelled_stay_spent():
    mail = Mail()
    agent = mail.add_to(agent_of("return await lookup({name: 'a'})", capability=ToolScript(max_tool_calls=2)))
    started = asyncio.Event()

    @agent.tool_plain
    async def forever() -> None:
        started.set()
        await asyncio.sleep(60)

    first = agent.run_sync("x")

    async def cancelled() -> None:
        with agent.override(model=agent_of("await forever({})").model):
            task = asyncio.create_task(agent.run("x", conversation=first.conversation))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    again = agent.run_sync("y", conversation=first.conversation)
    assert "ToolBudgetError" in contents(again, new=True)[0]


# ── ways to run ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _streamed(agent: Agent[Any, Any]) -> list[Any]:
    async with agent.run_stream_events("x") as events:
        return [event.part.content async for event in events if isinstance(event, FunctionToolResultEvent)]


def test_run_stream_events():
    agent = Mail().add_to(agent_of("const a = 1; return a", "return a + 1"))
    assert asyncio.run(_streamed(agent)) == [1, 2]


def test_a_test_model_gets_a_failed_result():
    agent = Mail().add_to(agent_of())
    with agent.override(model=TestModel()):
        result = agent.run_sync("x")
    assert outcomes(result) == ["failed"]
    assert "ReferenceError" in contents(result)[0]


@pytest.mark.parametrize("ending", ["end", "error", "cancel"])
def test_the_session_is_closed_however_the_run_ends(ending: str, monkeypatch: pytest.MonkeyPatch):
    from gloveport.host.sandbox import AsyncAgentSandbox

    opened: list[AsyncAgentSandbox] = []
    start = AsyncAgentSandbox.start

    async def noted(self: AsyncAgentSandbox, code: str, **options: Any) -> Any:
        opened.append(self)
        return await start(self, code, **options)

    monkeypatch.setattr(AsyncAgentSandbox, "start", noted)
    agent = agent_of("return await act({})")

    @agent.tool_plain
    async def act() -> int:
        if ending == "error":
            raise UserError("broken")
        if ending == "cancel":
            asyncio.current_task().get_loop().call_soon(task[0].cancel)
            await asyncio.sleep(30)
        return 1

    task: list[asyncio.Task[Any]] = []

    async def main() -> None:
        task.append(asyncio.create_task(agent.run("x")))
        await task[0]

    if ending == "end":
        asyncio.run(main())
    else:
        with pytest.raises(UserError if ending == "error" else asyncio.CancelledError):
            asyncio.run(main())
    assert len(opened) == 1
    assert opened[0].is_closed()
    assert opened[0].worker_pid is None


def test_a_model_that_is_no_function_model_sees_only_the_script_tool():
    seen: list[list[str]] = []

    def look(messages: Any, info: Any) -> Any:
        from pydantic_ai import ModelResponse, TextPart

        seen.append([tool.name for tool in info.function_tools])
        return ModelResponse(parts=[TextPart("end")])

    for options in ({}, {"keep_tools": True}, {"tools": ["add"]}, {"tools": lambda ctx, tool: tool.name == "mul"}):
        agent = Agent(FunctionModel(look), capabilities=[ToolScript(**options)])
        agent.tool_plain(add)
        agent.tool_plain(name="mul")(add)
        agent.run_sync("x")
    assert seen == [["run_script"], ["add", "mul", "run_script"], ["mul", "run_script"], ["add", "run_script"]]
