"""`TypeScriptSandbox` in an agent: the tool that the model sees, what it gets back, and whose worker runs what."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from scripted import contents, outcomes, returns, scripted

from gloveport import TypeScriptSandboxSession
from gloveport.errors import TypeScriptSandboxError
from gloveport.pydantic_ai import TypeScriptSandbox

RUN = "run_typescript"


def agent_of(*turns: Any, tools: Any = (), before: Any = (), **options: Any) -> Agent[Any, Any]:
    capability = TypeScriptSandbox(**options)
    return Agent(scripted(*turns, tool=RUN), capabilities=[*before, capability], tools=tools)


def told(*turns: Any, **options: Any) -> list[Any]:
    return contents(agent_of(*turns, **options).run_sync("go"))


def offered(agent: Agent[Any, Any]) -> tuple[AgentInfo, str]:
    """What the model is given in a first step: tools, and instructions."""
    seen: list[tuple[AgentInfo, str]] = []

    def answer(messages: Any, info: AgentInfo) -> Any:
        from pydantic_ai import ModelResponse, TextPart

        first = messages[0]
        assert isinstance(first, ModelRequest)
        seen.append((info, info.instructions or first.instructions or ""))
        return ModelResponse(parts=[TextPart("end")])

    agent.run_sync("go", model=FunctionModel(answer))
    return seen[0]


# ── what the model gets ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_example_of_the_guide():
    code = """\
    export default function run(): Record<string, string[]> {
      const words = ["ant", "ape", "bear"];
      return Object.groupBy(words, (word) => word[0]);
    }"""
    assert told(code) == [{"a": ["ant", "ape"], "b": ["bear"]}]


def test_console_is_told_when_there_is_some():
    assert told("export default () => { console.log('hello'); return 1 }") == [{"result": 1, "stdout": "hello\n"}]


def test_a_failed_module_is_a_failed_result_with_the_line():
    result = agent_of("const x: number = 1;\n\nthrow new Error('no')", "export default () => 2").run_sync("go")
    assert outcomes(result) == ["failed", "success"]
    assert "no" in contents(result)[0] and "line 3" in contents(result)[0]


def test_metadata_is_for_the_application():
    (part,) = returns(agent_of("console.log(1); export default () => [1, 2]").run_sync("go"))
    assert part.metadata["typescript_sandbox"] is True
    assert part.metadata["code_language"] == "typescript"
    assert part.metadata["output_bytes"] == 5
    assert part.metadata["exit_reason"] == "returned"
    assert part.metadata["stdout"] == "1\n"
    assert part.metadata["duration"] > 0 and part.metadata["peak_memory"] > 0


@pytest.mark.parametrize(
    "code",
    ["Deno.exit(0)", "process.abort()", "const a = []; while (1) a.push({x: 1})"],
)
def test_what_ends_the_worker_does_not_end_the_application(code: str):
    result = agent_of(f"export default () => {{ {code} }}", "export default () => 1").run_sync("go")
    assert outcomes(result) == ["failed", "success"]
    assert contents(result)[1]["result"] == 1
    assert "globalThis" in contents(result)[1]["notes"][0]


def test_a_result_that_is_too_large_is_said_to_be():
    (text,) = told("export default () => 'x'.repeat(2000)", max_output_bytes=1000)
    assert "2002 bytes" in text and "1000 bytes" in text
    assert told("export default () => 'x'.repeat(998)", max_output_bytes=1000) == ["x" * 998]


def test_an_error_is_cut():
    (text,) = told("throw new Error('x'.repeat(300000))", max_output_bytes=1000)
    assert len(text) < 5000


def test_a_deadline_ends_a_loop_and_the_next_call_works():
    result = agent_of("for (;;) {}", "1 + 1", timeout=0.5).run_sync("go")
    assert outcomes(result) == ["failed", "success"]
    assert "0.5 s" in contents(result)[0]
    assert contents(result)[1]["result"] == 2


# ── the tool ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tool():
    info, _ = offered(agent_of())
    (tool,) = info.function_tools
    assert tool.name == RUN and tool.sequential
    assert tool.parameters_json_schema["required"] == ["code"]
    assert tool.parameters_json_schema["additionalProperties"] is False
    assert tool.metadata == {"code_arg_name": "code", "code_arg_language": "typescript"}


def test_other_tools_stay():
    def add(a: int, b: int) -> int:
        return a + b

    info, _ = offered(agent_of(tools=[add]))
    assert {tool.name for tool in info.function_tools} == {"add", RUN}


@pytest.mark.parametrize(
    ("options", "said", "not_said"),
    [
        ({}, ["no network", "cannot be imported", "30 s", "50 KiB"], ["render_widget"]),
        ({"allow_network": True}, ["public hosts"], ["no network"]),
        ({"allow_package_imports": True}, ["npm:"], ["cannot be imported"]),
        ({"enable_rendering": True}, ["render_widget"], []),
        ({"timeout": 5, "max_output_bytes": 1000}, ["5 s", "1000 bytes"], ["50 KiB"]),
    ],
)
def test_instructions_are_true_of_the_options(options: dict[str, Any], said: list[str], not_said: list[str]):
    _, text = offered(agent_of(**options))
    assert all(part in text for part in said), text
    assert not any(part in text for part in not_said), text


def test_instructions_can_be_replaced_and_suppressed():
    assert offered(agent_of(instructions="Only sums."))[1] == "Only sums."
    assert offered(agent_of(instructions=""))[1] == ""


def test_rendering_adds_a_tool():
    info, _ = offered(agent_of(enable_rendering=True))
    assert {tool.name for tool in info.function_tools} == {RUN, "render_widget"}


def test_inputs_reach_the_module_and_not_the_model():
    rows = [{"total": 90}, {"total": 45.5}]
    code = "export default ({rows}) => rows.reduce((sum, row) => sum + row.total, 0)"
    assert told(code, "rows.length", inputs={"rows": rows}) == [135.5, 2]
    _, text = offered(agent_of(inputs={"rows": rows}))
    assert "`rows`" in text and "45.5" not in text


def test_inputs_can_depend_on_the_run():
    agent = Agent(
        scripted("rows", tool=RUN),
        deps_type=int,
        capabilities=[TypeScriptSandbox(inputs=lambda ctx: {"rows": ctx.deps})],
    )
    assert contents(agent.run_sync("go", deps=7)) == [7]


def test_console_lines_come_as_they_are_printed():
    lines: list[tuple[str, str]] = []
    told("console.log('a'); console.error('b')", on_console=lambda event: lines.append((event.stream, event.text)))
    assert lines == [("stdout", "a"), ("stderr", "b")]


# ── widgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

WIDGET = "export default function Widget() {\n  return <main>Hello from the sandbox</main>;\n}"


def rendered(*sources: str, **options: Any) -> tuple[TypeScriptSandbox[Any], Any]:
    capability = TypeScriptSandbox(enable_rendering=True, **options)
    turns = [{"source": source} for source in sources]
    agent = Agent(scripted(*turns, tool="render_widget"), capabilities=[capability])
    return capability, agent.run_sync("go")


def test_a_widget_is_an_id_for_the_model_and_a_page_for_the_application():
    capability, result = rendered(WIDGET)
    (part,) = returns(result)
    assert len(json.dumps(part.content, separators=(",", ":"))) < 300
    assert part.content["mounted"] is True and part.content["warnings"] == []
    page = capability.widgets[part.content["artifact_id"]]
    assert "Hello from the sandbox" in page.html and page.bytes == part.content["bytes"]


def test_a_widget_is_an_mcp_app_for_user_interfaces():
    apps = pytest.importorskip("pydantic_ai._mcp_apps", reason="newer than Pydantic AI 2.62")
    capability, result = rendered(WIDGET)
    (part,) = returns(result)
    app = apps.get_mcp_app_tool_result(part.metadata)
    assert app is not None and app["resource_uri"] == f"ui://gloveport/{part.content['artifact_id']}"
    (content,) = app["result"]["content"]
    assert content["resource"]["text"] == capability.widgets[part.content["artifact_id"]].html
    assert content["resource"]["mimeType"] == "text/html;profile=mcp-app"


def test_a_widget_that_throws_is_a_failed_result_with_the_models_line():
    capability, result = rendered("export default function Widget() {\n  throw new Error('no');\n}", WIDGET)
    assert outcomes(result) == ["failed", "success"]
    assert "no" in contents(result)[0] and "line 2" in contents(result)[0]
    assert len(capability.widgets) == 1


def test_the_document_can_be_the_result():
    _, refused = rendered(WIDGET, widget_output="html")
    assert "max_output_bytes" in contents(refused)[0]
    _, whole = rendered(WIDGET, widget_output="html", max_output_bytes=400_000)
    assert contents(whole)[0].startswith("<!doctype html>")


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unused_capability_starts_nothing(monkeypatch: pytest.MonkeyPatch):
    opened: list[Any] = []
    enter = TypeScriptSandboxSession.__aenter__

    async def counted(self: Any) -> Any:
        opened.append(self)
        return await enter(self)

    monkeypatch.setattr(TypeScriptSandboxSession, "__aenter__", counted)
    agent_of().run_sync("go")
    assert opened == []
    agent_of("1").run_sync("go")
    assert len(opened) == 1 and not opened[0].is_open


def test_state_stays_within_a_run_and_not_beyond_it():
    agent = agent_of("globalThis.k = (globalThis.k ?? 0) + 1", "globalThis.k = (globalThis.k ?? 0) + 1")
    assert contents(agent.run_sync("go")) == [1, 2]
    assert contents(agent.run_sync("go")) == [1, 2]


def test_concurrent_runs_have_workers_of_their_own():
    agent = agent_of("globalThis.k = 1; await new Promise((f) => setTimeout(f, 50))", "globalThis.k += 1")

    async def main() -> list[Any]:
        return await asyncio.gather(*(agent.run("go") for _ in range(4)))

    assert [contents(result)[1] for result in asyncio.run(main())] == [2, 2, 2, 2]


def test_an_injected_session_is_shared_and_left_open():
    async def main() -> None:
        async with TypeScriptSandboxSession() as session:
            agent = agent_of("globalThis.k = (globalThis.k ?? 0) + 1", session=session)
            assert contents(await agent.run("go")) == [1]
            assert contents(await agent.run("go")) == [2]
            assert session.is_open

    asyncio.run(main())


def test_an_injected_session_has_to_be_open():
    with pytest.raises(TypeScriptSandboxError, match="closed"):
        agent_of("1", session=TypeScriptSandboxSession()).run_sync("go")


def test_a_cancelled_run_ends_its_worker():
    async def main() -> None:
        before = set(_children())
        agent = agent_of("for (;;) {}")
        run = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(1.0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        for _ in range(100):
            if not any(_computes(pid) for pid in set(_children()) - before):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("a worker still computes")

    asyncio.run(main())


def _children() -> list[int]:
    from gloveport.bench.probes import descendants

    return descendants(os.getpid())


def _computes(pid: int) -> bool:
    def ticks() -> int:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[11])

    import time

    try:
        before = ticks()
        time.sleep(0.2)
        return ticks() - before > 5
    except OSError:
        return False


def test_what_the_network_rules_decided_is_metadata():
    agent = agent_of("await fetch('http://169.254.169.254/')", allow_network=["example.com"])
    (part,) = returns(agent.run_sync("go"))
    assert part.outcome == "failed" and "blocked by policy" in part.content


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_failures_in_a_row_stop_the_tool_and_not_the_run():
    result = agent_of(*["throw 1"] * 3, "1 + 1", max_retries=2).run_sync("go")
    assert outcomes(result) == ["failed"] * 4
    assert "2 calls in a row failed" in contents(result)[1]
    assert "no more code is run" in contents(result)[3]


def test_a_success_begins_the_count_anew():
    result = agent_of("throw 1", "1", "throw 1", "2", max_retries=2).run_sync("go")
    assert outcomes(result) == ["failed", "success", "failed", "success"]


def test_with_retries_the_run_ends_after_them():
    with pytest.raises(UnexpectedModelBehavior):
        agent_of(*["throw 1"] * 5, on_error="retry", max_retries=2).run_sync("go")
    assert told("throw 1", "1 + 1", on_error="retry", max_retries=2)[-1] == 2


def test_wrong_arguments_are_a_retry():
    result = agent_of({"source": "1"}, "1").run_sync("go")
    parts = [part for message in result.all_messages() for part in message.parts if part.part_kind == "retry-prompt"]
    retried = parts or [part for part in returns(result) if part.outcome == "retried"]
    assert len(retried) == 1 and contents(result)[-1] == 1


def test_the_test_model_runs_through():
    assert Agent(TestModel(), capabilities=[TypeScriptSandbox()]).run_sync("go").output


# ── configuration ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": 0}, ValueError),
        ({"timeout": True}, TypeError),
        ({"timeout": float("inf")}, ValueError),
        ({"timeout": "a"}, TypeError),
        ({"timeout": 1e9}, ValueError),
        ({"max_output_bytes": 15}, ValueError),
        ({"max_output_bytes": 10**9}, ValueError),
        ({"max_output_bytes": 1.5}, TypeError),
        ({"max_retries": -1}, ValueError),
        ({"max_old_generation_size_mb": 0}, ValueError),
        ({"allow_package_imports": 1}, TypeError),
        ({"allow_network": 1}, TypeError),
        ({"enable_rendering": 1}, TypeError),
        ({"plugins": ["npm:@tailwindcss/vite@latest"]}, ValueError),
        ({"plugins": ["npm:other"], "enable_rendering": True}, ValueError),
        ({"on_error": "raise"}, ValueError),
        ({"widget_output": "text"}, ValueError),
        ({"sandbox": "no"}, ValueError),
        ({"instructions": 1}, TypeError),
        ({"session": "x"}, TypeError),
        ({"inputs": [1]}, TypeError),
        ({"on_console": 1}, TypeError),
        ({"session": TypeScriptSandboxSession(), "allow_network": True}, ValueError),
        ({"session": TypeScriptSandboxSession(), "max_old_generation_size_mb": None}, ValueError),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], error: type[Exception]):
    with pytest.raises(error):
        TypeScriptSandbox(**options)


def test_limits_apply_to_an_injected_session():
    async def main() -> Any:
        async with TypeScriptSandboxSession() as session:
            agent = agent_of("'x'.repeat(2000)", session=session, max_output_bytes=1000)
            return contents(await agent.run("go"))

    (text,) = asyncio.run(main())
    assert "1000" in text


def test_from_a_spec():
    spec = {
        "model": "test",
        "capabilities": [{"TypeScriptSandbox": {"timeout": 5, "allow_network": {"allow": ["example.com"]}}}],
    }
    agent = Agent.from_spec(spec, custom_capability_types=[TypeScriptSandbox])
    assert agent.run_sync("go").output


def test_the_last_of_several_counts():
    agent = Agent(
        scripted("1", tool=RUN), capabilities=[TypeScriptSandbox(allow_network=True), TypeScriptSandbox(timeout=5)]
    )
    _, text = offered(agent)
    assert "no network" in text and "5 s" in text


def test_deferred_loading():
    agent = Agent(scripted(), capabilities=[TypeScriptSandbox(defer_loading=True)])
    info, _ = offered(agent)
    assert [tool.name for tool in info.function_tools] == ["load_capability"]
    assert TypeScriptSandbox(defer_loading=True).id == "typescript_sandbox"
    assert "run_typescript" in (TypeScriptSandbox(defer_loading=True).description or "")


# ── the agent's tools in modules ─────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Numbers:
    seen: list[int]


def double(ctx: RunContext[Numbers], n: int) -> int:
    """Twice as much."""
    ctx.deps.seen.append(n)
    return 2 * n


def picky(n: int) -> int:
    raise ModelRetry("only odd numbers")


def test_modules_call_the_tools_of_the_agent():
    capability = TypeScriptSandbox(tools="all")
    agent = Agent(
        scripted(
            "export default async () => Promise.all([1, 2].map((n) => tools.double({n})))",
            "export default async () => { try { await tools.picky({n: 2}) } catch (error) { return error.message } }",
            tool=RUN,
        ),
        deps_type=Numbers,
        capabilities=[capability],
        tools=[double, picky],
    )
    deps = Numbers([])
    result = agent.run_sync("go", deps=deps)
    assert contents(result) == [[2, 4], "only odd numbers"]
    assert sorted(deps.seen) == [1, 2]
    assert result.usage.tool_calls == 4
    info, text = offered(agent)
    (runner,) = [tool for tool in info.function_tools if tool.name == RUN]
    assert "tools.double(" in (runner.description or "") and "tools.<name>" in text
    assert {tool.name for tool in info.function_tools} == {RUN, "double", "picky"}


def test_without_the_option_there_are_no_tools():
    assert told("export default () => typeof globalThis.tools") == ["undefined"]


def test_a_tool_that_needs_an_approval_says_so():
    agent = Agent(
        scripted("export default () => tools.send({to: 'ada'})", tool=RUN),
        capabilities=[TypeScriptSandbox(tools="all")],
    )
    sent: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    (text,) = contents(agent.run_sync("go"))
    assert "waits for an answer from outside" in text and sent == []


def test_stream_of_events():
    async def main() -> list[str]:
        kinds: list[str] = []
        async with agent_of("1 + 1").run_stream_events("go") as events:
            async for event in events:
                kinds.append(event.event_kind)
        return kinds

    kinds = asyncio.run(main())
    assert "function_tool_call" in kinds and "function_tool_result" in kinds
