"""Tools of an agent that scripts find by search."""

from __future__ import annotations

from typing import Any

from pydantic_ai import DeferredToolRequests, ToolApproved
from pydantic_ai.models.wrapper import WrapperModel
from scripted import agent_of, contents

from gloveport.pydantic_ai import ToolScript

FOUND = ["translate_text", "send_invoice"]


def catalog_agent(*turns: Any, **options: Any):
    agent = agent_of(*turns, capability=ToolScript(tools_catalog=FOUND, **options))
    agent.made = []

    @agent.tool_plain
    def now() -> str:
        """The time."""
        return "noon"

    @agent.tool_plain
    def translate_text(text: str) -> str:
        """Translate a text."""
        agent.made.append(text)
        return text.upper()

    @agent.tool_plain(requires_approval=True)
    def send_invoice(customer: str) -> str:
        """Bill a customer."""
        agent.made.append(customer)
        return f"billed {customer}"

    return agent


def described(agent):
    """What the model is told of the script tool."""
    seen = []

    class Spy(WrapperModel):
        async def request(self, messages, settings, request):
            seen.append(next(tool.description for tool in request.function_tools if tool.name == "run_script"))
            return await super().request(messages, settings, request)

    agent.run_sync("x", model=Spy(agent.model))
    return seen[0]


def test_only_the_search_is_declared():
    text = described(catalog_agent())
    assert "now(" in text
    assert "search_tools(query: string" in text
    assert "translate" not in text.replace("translate text", "")
    assert "search_tools" not in described(agent_of(capability=ToolScript()))


def test_what_is_found_goes_through_the_agent():
    agent = catalog_agent(
        "try { await tools.translate_text({text: 'a'}) } catch (e) { return e.name }",
        "const [hit] = await search_tools('translation'); return [hit.name, await tools.translate_text({text: 'a'}), await now()]",
        "return await tools.translate_text({text: 'b'})",
        "try { await tools.translate_text({text: 7}) } catch (e) { return e.name }",
    )
    result = agent.run_sync("x")
    assert contents(result) == ["ToolNotDiscoveredError", ["translate_text", "A", "noon"], "B", "ToolArgumentError"]
    assert agent.made == ["a", "b"]


def test_what_was_found_lasts_for_the_conversation():
    agent = catalog_agent(
        "try { return await tools.translate_text({text: 'c'}) } catch { return (await search_tools('translate'))[0].name }"
    )
    first = agent.run_sync("x")
    second = agent.run_sync("y", conversation=first.conversation)
    assert (contents(first), contents(second, new=True)) == (["translate_text"], ["C"])


def test_a_found_tool_that_needs_approval_waits_for_it():
    agent = catalog_agent("await search_tools('bill'); return await tools.send_invoice({customer: 'ada'})")
    first = agent.run_sync("x")
    assert isinstance(first.output, DeferredToolRequests)
    [request] = first.output.approvals
    assert agent.made == []
    results = first.output.build_results(approvals={request.tool_call_id: ToolApproved()})
    second = agent.run_sync(message_history=first.all_messages(), deferred_tool_results=results)
    assert contents(second, new=True) == ["billed ada"]
    assert agent.made == ["ada"]


def test_budgets_cover_them():
    agent = catalog_agent(
        "await describe_tool('translate_text'); await tools.translate_text({text: 'a'}); "
        "try { await tools.translate_text({text: 'b'}) } catch (e) { return e.name }",
        tool_budgets={"translate_text": 1},
    )
    assert contents(agent.run_sync("x")) == ["ToolBudgetError"]
    assert agent.made == ["a"]


def test_tools_that_come_later_are_found_without_a_new_session():
    agent = agent_of(
        "globalThis.n = 1; return (await search_tools('weather')).length",
        "return [n, (await search_tools('weather'))[0]?.name, (await tools.weather({}))]",
        capability=ToolScript(tools_catalog="all"),
    )

    async def later(ctx, definition):
        return definition if ctx.run_step > 1 else None

    @agent.tool_plain(prepare=later)
    def weather() -> str:
        """The weather."""
        return "rain"

    assert contents(agent.run_sync("x")) == [0, [1, "weather", "rain"]]
