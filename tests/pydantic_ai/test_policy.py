"""A policy in front of the agent's tools: what it asks for is an approval of Pydantic AI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError
from scripted import agent_of, contents, outcomes

from gloveport import policies
from gloveport.pydantic_ai import ToolScript
from gloveport.stores import MemoryStore
from gloveport.types import Deny

CODE = "const r = await read({x: 1}); try { return [r, await pay({to: 'ada'})] } catch (e) { return `${e.name}: ${e.message}` }"


class Shop:
    """Tools none of which asks for an approval by itself."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def add_to(self, agent: Agent[Any, Any]) -> Agent[Any, Any]:
        agent.tool_plain(metadata={"readOnlyHint": True})(self.read)
        agent.tool_plain(self.pay)
        return agent

    def read(self, x: int) -> int:
        self.done.append(x)
        return x

    def pay(self, to: str) -> str:
        self.done.append(to)
        return f"paid {to}"


def careful(request: Any) -> Any:
    if request.annotations.get("readOnlyHint"):
        return "allow"
    return Deny("bob is never paid") if request.args[0]["to"] == "bob" else ("ask", f"pay {request.args[0]['to']}?")


async def carefully(request: Any) -> Any:
    await asyncio.sleep(0)
    return careful(request)


@pytest.fixture(params=[careful, carefully])
def policy(request):
    return request.param


def test_what_it_asks_for_is_an_approval(policy):
    shop = Shop()
    agent = shop.add_to(agent_of(CODE, capability=ToolScript(policy=policy)))
    asked = agent.run_sync("x")
    assert isinstance(asked.output, DeferredToolRequests)
    assert shop.done == [1]
    request = asked.output.metadata["c0a"]
    assert (request["tool_name"], request["args"]) == ("pay", {"to": "ada"})
    assert request["metadata"] == {"reason": "pay ada?"}
    results = asked.output.build_results(approve_all=True)
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)
    assert contents(result) == [[1, "paid ada"]]
    assert shop.done == [1, "ada"]


def test_a_person_can_deny_it(policy):
    shop = Shop()
    agent = shop.add_to(agent_of(CODE, capability=ToolScript(policy=policy)))
    asked = agent.run_sync("x")
    results = asked.output.build_results(approvals={"c0a": ToolDenied("not today")})
    result = agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)
    assert contents(result) == ["ToolDeniedError: not today"]
    assert shop.done == [1]


def test_an_approval_reaches_another_capability_with_the_same_store():
    shop, store, key = Shop(), MemoryStore(), b"0123456789abcdef"
    first = shop.add_to(agent_of(CODE, capability=ToolScript(policy=careful, store=store, key=key)))
    asked = first.run_sync("x")
    results = asked.output.build_results(approve_all=True)
    second = shop.add_to(agent_of(CODE, capability=ToolScript(policy=careful, store=store, key=key)))
    result = second.run_sync(conversation=asked.conversation, deferred_tool_results=results)
    assert contents(result) == [[1, "paid ada"]]
    assert shop.done == [1, "ada"]


def test_it_can_be_answered_inside_the_run(policy):
    shop, seen = Shop(), []

    async def handle(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        seen.append(requests.metadata)
        return requests.build_results(approve_all=True)

    agent = shop.add_to(
        agent_of(CODE, capability=ToolScript(policy=policy), after=[HandleDeferredToolCalls(handler=handle)])
    )
    assert contents(agent.run_sync("x")) == [[1, "paid ada"]]
    assert seen == [{"c0a__2": {"reason": "pay ada?"}}]


def test_what_it_denies_is_not_made_and_not_charged(policy):
    shop = Shop()
    code = "try { await pay({to: 'bob'}) } catch (e) { return `${e.name}: ${e.message}` }"
    agent = shop.add_to(
        agent_of(code, "return await read({x: 2})", capability=ToolScript(policy=policy, max_tool_calls=1))
    )
    assert contents(agent.run_sync("x")) == ["ToolDeniedError: bob is never paid", 2]
    assert shop.done == [2]


def test_it_can_end_the_script():
    shop = Shop()
    capability = ToolScript(policy=lambda request: Deny("stop", end_run=True))
    result = shop.add_to(agent_of("try { await pay({to: 'x'}) } catch {} return 1", capability=capability)).run_sync(
        "x"
    )
    assert outcomes(result) == ["failed"]
    assert "RunDenied" in str(contents(result)[0])
    assert shop.done == []


def test_without_it_the_same_call_is_made():
    shop = Shop()
    assert contents(shop.add_to(agent_of(CODE)).run_sync("x")) == [[1, "paid ada"]]


def test_calls_that_wait_together_are_asked_for_one_after_the_other():
    shop = Shop()
    code = "return await Promise.all(['a', 'b'].map(to => pay({to})))"
    agent = shop.add_to(agent_of(code, capability=ToolScript(policy=policies.ask_for("pay", reason="?"))))
    result = agent.run_sync("x")
    for expected in ("a", "b"):
        assert result.output.metadata["c0a"]["args"] == {"to": expected}
        results = result.output.build_results(approve_all=True)
        result = agent.run_sync(conversation=result.conversation, deferred_tool_results=results)
    assert contents(result)[-1] == ["paid a", "paid b"]
    assert shop.done == ["a", "b"]


def test_budgets_of_a_script():
    shop = Shop()
    code = "return (await Promise.allSettled([1, 2, 3].map(x => read({x})))).map(r => r.status)"
    result = shop.add_to(agent_of(code, code, capability=ToolScript(run_budgets={"read": 2}))).run_sync("x")
    assert contents(result) == [["fulfilled", "fulfilled", "rejected"]] * 2
    with pytest.raises(UserError, match="run_budgets"):
        shop.add_to(agent_of("1", capability=ToolScript(run_budgets={"nothing": 2}))).run_sync("x")


def test_a_stored_session_is_not_continued_without_its_policy():
    shop, store, key = Shop(), MemoryStore(), b"0123456789abcdef"
    first = shop.add_to(agent_of("globalThis.n = 1", capability=ToolScript(policy=careful, store=store, key=key)))
    history = first.run_sync("x").all_messages()
    second = shop.add_to(agent_of("return n", capability=ToolScript(store=store, key=key)))
    result = second.run_sync("y", message_history=history)
    assert "made with a policy" in str(contents(result, new=True)[0])


def test_bad_options():
    with pytest.raises(UserError, match="policy"):
        ToolScript(policy="deny")
