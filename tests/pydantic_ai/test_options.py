"""Options, specs, and how the capability sits beside others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, ModelResponse, TextPart, ToolCallPart, ToolDefinition
from pydantic_ai.agent.spec import AgentSpec
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from scripted import Mail, agent_of, contents, outcomes

from gloveport.pydantic_ai import ToolScript
from gloveport.stores import SQLiteStore

# ruff: noqa: E501  the text is one line per paragraph
DESCRIPTION = """\
You can run TypeScript or JavaScript in a sandbox. Write the code as the body of an async function: call tools with `await`, and `return` the final result (JSON data).
- Top-level `const`, `let`, `var`, `function` and `class` declarations stay available in later runs.
- There is no network, filesystem, `require` or `import`: the tools are the only way out.
- `setTimeout` does not really wait: time is virtual, and `Date.now()` does not advance while code runs. `Math.random()` is seeded.
- Console output is returned with the result. At most 16 KiB each of stdout and stderr are kept. The result must not exceed 64 KiB, and a run may compute for 30 s.
- A tool that fails throws an Error whose `name` is the failure's type.
- Tool calls made together with `Promise.all` run at the same time.
- One session per conversation: what earlier scripts declared is still there. `restart: true` begins a new one.
- The result is what the code returns. If there was console output, it is `{"result": ..., "stdout": ..., "stderr": ...}`.
- Every function takes one object argument.

Tools:

```ts
add_up(args: {
  b: number;
  a?: number;
}): Promise<number>
```
Adds.
At most 4 calls in the session.
Example: `await add_up({b: 1})`

```ts
class_(args?: Record<string, never>): Promise<unknown>
```
Example: `await class_()`"""


def shown(agent: Agent[Any, Any]) -> list[ToolDefinition]:
    seen: list[ToolDefinition] = []

    def look(messages: Any, info: Any) -> ModelResponse:
        seen[:] = info.function_tools
        return ModelResponse(parts=[TextPart("end")])

    with agent.override(model=FunctionModel(look)):
        agent.run_sync("x")
    return seen


def named_tools(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    @agent.tool_plain(name="class")
    def second(): ...

    @agent.tool_plain(name="add-up")
    def first(b: int, a: int = 2) -> int:
        """Adds."""
        return a + b

    return agent


def test_what_the_model_is_told():
    (tool,) = shown(named_tools(agent_of(capability=ToolScript(tool_budgets={"add-up": 4}))))
    assert tool.description == DESCRIPTION
    assert tool.parameters_json_schema == {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "title": "Code",
                "description": "The body of an async JavaScript or TypeScript function; `return` the result.",
            },
            "restart": {
                "type": "boolean",
                "title": "Restart",
                "description": "Forget everything earlier scripts declared, before this one runs.",
            },
        },
        "required": ["code"],
    }
    assert tool.metadata == {"code_arg_name": "code", "code_arg_language": "typescript"}
    assert tool.sequential


def test_names_that_javascript_does_not_have_are_rewritten_and_called():
    agent = named_tools(agent_of("return [await add_up({b: 1}), await class_()]"))
    assert contents(agent.run_sync("x")) == [[3, None]]


def test_names_that_cannot_be_functions_are_refused_by_name():
    agent = named_tools(agent_of())
    agent.tool_plain(name="add_up")(lambda: 1)
    with pytest.raises(UserError, match="'add-up' and 'add_up' are both `add_up`"):
        agent.run_sync("x")
    builtin = agent_of("return await tools.JSON({})", capability=ToolScript(namespace="tools"))
    builtin.tool_plain(name="JSON")(lambda: 1)
    assert contents(builtin.run_sync("x")) == [1]
    bare = agent_of()
    bare.tool_plain(name="JSON")(lambda: 1)
    with pytest.raises(UserError, match="`JSON`"):
        bare.run_sync("x")


def test_the_script_tool_has_another_name():
    agent = Mail().add_to(agent_of("return 1", capability=ToolScript(tool_name="js")))
    assert contents(agent.run_sync("x")) == [1]
    taken = agent_of(capability=ToolScript(tool_name="js"))
    taken.tool_plain(name="js")(lambda: 1)
    with pytest.raises(UserError, match="already"):
        taken.run_sync("x")


def test_a_budget_for_a_tool_that_there_is_not_is_refused():
    with pytest.raises(UserError, match="'sned'"):
        Mail().add_to(agent_of(capability=ToolScript(tool_budgets={"sned": 1}))).run_sync("x")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": -1},
        {"max_memory": 5},
        {"max_failures": 0},
        {"tool_name": ""},
        {"tool_budgets": {"a": -1}},
        {"key": "xyz"},
        {"engine": "v9"},
        {"engine": "v8", "isolation": "inline"},
    ],
)
def test_bad_options_are_refused_when_the_capability_is_made(options: dict[str, Any]):
    with pytest.raises(UserError, match="ToolScript: "):
        ToolScript(**options)


def test_external_tools_and_tools_that_run_code_stay_beside():
    external = ExternalToolset([ToolDefinition(name="far")], id="far")
    own = FunctionToolset[Any]()
    own.add_function(lambda code: code, name="python", metadata={"code_arg_name": "code"})
    own.add_function(lambda: 1, name="near")
    for tools, names in (("all", ["far", "python", "run_script"]), (["far", "near"], ["python", "run_script"])):
        assert [
            tool.name for tool in shown(agent_of(capability=ToolScript(tools=tools), toolsets=[external, own]))
        ] == names


def test_an_external_tool_that_is_named_waits_for_its_result():
    external = ExternalToolset([ToolDefinition(name="far")], id="far")
    agent = agent_of("return (await far({q: 1})).rows", capability=ToolScript(tools=["far"]), toolsets=[external])
    asked = agent.run_sync("x")
    assert isinstance(asked.output, DeferredToolRequests)
    results = asked.output.build_results(calls={"c0a": {"rows": [1]}})
    assert contents(agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)) == [[1]]


def test_a_tool_that_appears_later_needs_a_restart_and_one_that_is_gone_is_refused():
    shown_names = {"first"}
    toolset = FunctionToolset[Any]()
    for name in ("first", "second"):
        toolset.add_function(lambda: 1, name=name)
    visible = toolset.filtered(lambda ctx, tool: tool.name in shown_names)
    agent = agent_of("globalThis.n = 1; return await first({})", toolsets=[visible])
    conversation = agent.run_sync("x").conversation
    shown_names.add("second")
    turns = ["return n", "return await second({})", {"code": "return [typeof n, await second({})]", "restart": True}]
    turns[0] = "return globalThis.n"
    with agent.override(model=agent_of(*turns).model):
        result = agent.run_sync("y", conversation=conversation)
    kept, said, again = contents(result, new=True)
    assert kept == 1
    assert said.startswith("`second`: added after this session began")
    assert again == ["undefined", 1]
    shown_names.remove("first")
    with agent.override(model=agent_of("try { await first({}) } catch (e) { return e.message }").model):
        assert contents(agent.run_sync("z", conversation=result.conversation), new=True) == [
            "`first` is not available any more"
        ]


def test_a_deferred_capability_takes_the_tools_when_it_is_loaded():
    seen: list[list[str]] = []

    def model(messages: Any, info: Any) -> ModelResponse:
        seen.append([tool.name for tool in info.function_tools])
        calls = [
            ToolCallPart("load_capability", {"id": "tool_script"}),
            ToolCallPart("run_script", {"code": "return await lookup({name: 'a'})"}),
        ]
        done = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=[calls[done] if done < 2 else TextPart("end")])

    agent = Mail().add_to(agent_of(capability=ToolScript(defer_loading=True)))
    with agent.override(model=FunctionModel(model)):
        result = agent.run_sync("x")
    assert "run_script" not in seen[0]
    assert "lookup" in seen[0]
    assert "run_script" in seen[1]
    assert "lookup" not in seen[1]
    assert contents(result)[-1] == "a@example.org"


# ── specs and combination ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_spec_gives_the_same_capability(tmp_path: Path):
    options = {
        "tools": ["lookup"], "tool_name": "js", "timeout": 2, "store": str(tmp_path / "s.sqlite"), "key": "ab" * 32,
        "tool_budgets": {"lookup": 3},
    }  # fmt: skip
    spec = AgentSpec.from_text(json.dumps({"model": "test", "capabilities": [{"ToolScript": options}]}), "json")
    agent = Agent.from_spec(spec, custom_capability_types=[ToolScript])
    agent.tool_plain(Mail().lookup)
    result = agent.run_sync("x")
    assert "ReferenceError" in str(contents(result))
    found: list[ToolScript[Any]] = []
    agent.root_capability.apply(
        lambda capability: found.append(capability) if isinstance(capability, ToolScript) else None
    )
    (script,) = found
    assert (script.tools, script.tool_name, script.timeout, script.tool_budgets) == (["lookup"], "js", 2, {"lookup": 3})
    assert isinstance(script.store, SQLiteStore)
    assert script.key == b"\xab" * 32
    assert ToolScript.get_serialization_name() == "ToolScript"


def test_there_is_a_schema_of_specs():
    schema = str(AgentSpec.model_json_schema_with_capabilities([ToolScript]))
    for option in ("tool_name", "max_tool_calls", "engine", "isolation"):
        assert option in schema


def test_of_two_the_last_counts_whole():
    agent = Mail().add_to(
        agent_of(capability=ToolScript(tool_name="run_script"), before=[ToolScript(tool_name="js", max_tool_calls=0)])
    )
    assert [tool.name for tool in shown(agent)] == ["run_script"]
    with agent.override(model=agent_of("return await lookup({name: 'a'})").model):
        assert outcomes(agent.run_sync("x")) == ["success"]


def test_without_the_extra_the_import_says_what_to_install():
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "import importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pydantic_ai' else find(name, *a)\n"
        "try:\n import gloveport.pydantic_ai\nexcept ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'gloveport[pydantic-ai]'" in done.stdout, done.stderr
