"""What a policy does to sessions: both classes, every isolation where it matters."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    IsolatedRuntime,
    JournalError,
    PolicyError,
    RunDenied,
    RuntimeTimeout,
    SchemaTool,
    ToolCall,
    ToolDeniedError,
    policies,
)
from gloveport.events import CallEnded, CallStarted, PolicyFailed
from gloveport.testing import inline_sandbox
from gloveport.types import Allow, Ask, Deny, Done, Failed

KEY = b"a key of the policy tests"
CAUGHT = "try { return await %s } catch (e) { return `${e.name}: ${e.message}` }"


class Tools:
    """Tools that remember."""

    def __init__(self):
        self.made = []

    def read(self, x=None):
        self.made.append(("read", x))
        return x

    def send(self, to):
        self.made.append(("send", to))
        return f"sent to {to}"

    def all(self):
        return {"read": self.read, "send": self.send}


def careful(request):
    """Reads are free, mails to bob are forbidden, other mails have to be asked for."""
    if request.name == "read":
        return "allow"
    return ("deny", "bob wants no mail") if request.args == ("bob",) else ("ask", f"mail to {request.args[0]}")


async def carefully(request):
    await asyncio.sleep(0)
    return careful(request)


@pytest.fixture(
    params=[careful, carefully, policies.all_of(policies.allow_all(), carefully)], ids=["sync", "async", "mixed"]
)
def policy(request):
    return request.param


def test_deny_ask_allow(make_session, policy):
    tools = Tools()
    session = make_session(tools.all(), policy=policy, max_tool_calls=10)
    assert session.run("return await read(1)") == 1
    assert session.run(CAUGHT % "send('bob')") == "ToolDeniedError: bob wants no mail"
    assert (session.calls_made, tools.made) == (1, [("read", 1)])
    text = session.run(CAUGHT % "send('ada')")
    assert text == "ToolDeniedError: `send` needs an approval, and nobody can be asked in this run: mail to ada"
    assert (session.calls_made, tools.made) == (1, [("read", 1)])
    step = session.start("const r = await read(2); return [r, await send('ada')]", ask=())
    assert step == ToolCall("send", ("ada",), step.call_id)
    assert (step.reason, step.unknown, session.pending.reason) == ("mail to ada", False, "mail to ada")
    assert (session.calls_made, tools.made) == (3, [("read", 1), ("read", 2)])
    assert session.resume(step, session.call(step)) == Done([2, "sent to ada"])
    assert (session.calls_made, tools.made[-1]) == (3, ("send", "ada"))  # charged once


def test_in_the_asyncio_class(setting, policy):
    tools = Tools()

    async def main():
        async with AsyncAgentSandbox(tools.all(), policy=policy, **setting) as session:
            assert await session.run(CAUGHT % "send('bob')") == "ToolDeniedError: bob wants no mail"
            assert (await session.execute("return await send('ada')")).error_type == "ToolDeniedError"
            step = await session.start("return [await read(2), await send('ada')]", ask=())
            assert (step.name, step.reason) == ("send", "mail to ada")
            assert await session.resume(step, await session.call(step)) == Done([2, "sent to ada"])
            assert session.calls_made == 2

    asyncio.run(main())
    assert tools.made == [("read", 2), ("send", "ada")]


def test_where_every_call_is_handed_out_the_policy_still_denies(policy):
    with inline_sandbox(Tools().all(), policy=policy) as session:
        step = session.start(
            "const a = await "
            + "read(1).then(async v => { try { await send('bob') } catch (e) { return e.message } }); return [a, await send('al')]"
        )
        assert (step.name, step.reason) == ("read", None)
        step = session.resume(step, 1)
        assert (step.name, step.args, step.reason, session.calls_made) == ("send", ("al",), "mail to al", 2)
        assert session.resume(step, error=ToolDeniedError("ada said no")).error.message == "ada said no"


def test_the_control_without_a_policy():
    tools = Tools()
    with inline_sandbox(tools.all()) as session:
        assert session.run("return await send('bob')") == "sent to bob"


def test_a_denial_can_end_the_run():
    tools = Tools()
    policy = lambda request: Deny("enough", end_run=True) if request.args == ("bob",) else Allow()  # noqa: E731
    with inline_sandbox(tools.all(), policy=policy) as session:
        session.run("globalThis.x = 1")
        result = session.execute("globalThis.x = 2; await read(1); try { await send('bob') } catch {} return 'went on'")
        assert (result.error_type, "enough" in result.error, session.lost_runs) == ("RunDenied", True, 1)
        assert session.run("return x") == 1
        with pytest.raises(RunDenied):
            session.run("await send('bob')")
        with pytest.raises(PermissionError):
            session.run("await send('bob')")
        assert session.run("return await send('ada')") == "sent to ada"
    assert tools.made == [("read", 1), ("send", "ada")]


def test_a_run_is_not_denied_for_ever():
    asked = []
    with inline_sandbox({"read": lambda: 1}, policy=lambda request: asked.append(1) or "deny") as session:
        ok = session.execute("let n = 0; while (n < 1000) { try { await read() } catch { n++ } } return n")
        assert (ok.result, len(asked)) == (1000, 1000)
        result = session.execute("while (true) { try { await read() } catch {} }")
        assert (result.error_type, len(asked)) == ("RunDenied", 2001)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    "given",
    [True, None, "yes", ("allow",), Allow, KeyError("secret"), ToolDeniedError("secret"), asyncio.CancelledError()],
    ids=repr,
)
def test_a_policy_that_fails_denies(given, slow, caplog):
    tools = Tools()

    def broken(request):
        if isinstance(given, BaseException):
            raise given
        return given

    async def slowly(request):
        return broken(request)

    if not slow and isinstance(given, asyncio.CancelledError):
        pytest.skip("raised in the caller's own thread it is a cancellation")
    with inline_sandbox(tools.all(), policy=slowly if slow else broken) as session, session.events() as events:
        with caplog.at_level(logging.ERROR, "gloveport"):
            text = session.run(CAUGHT % "read(1)")
        assert text == "ToolDeniedError: the call was not allowed: the policy could not decide about it"
        assert (tools.made, session.calls_made) == ([], 0)
        assert isinstance(session.policy_error, PolicyError)
        assert session.policy_error.__cause__ is (given if isinstance(given, BaseException) else None)
        session.close()
        told = [event for event in events if isinstance(event, (PolicyFailed, CallStarted, CallEnded))]
    assert [type(event) for event in told] == [CallStarted, PolicyFailed, CallEnded]
    assert told[1].error is session.policy_error
    assert (told[2].ok, told[2].refused) == (False, True)
    assert [record.name for record in caplog.records] == ["gloveport"]


@pytest.mark.parametrize("slow", [False, True])
def test_a_policy_that_exits_ends_the_run(slow):
    def leave(request):
        raise SystemExit(3)

    async def slowly(request):
        raise SystemExit(3)

    tools = Tools()
    with inline_sandbox(tools.all(), policy=slowly if slow else leave) as session:
        if slow:
            assert session.execute("await read(1)").error_type == "RunDenied"
        else:
            with pytest.raises(SystemExit):
                session.execute("await read(1)")
        assert (tools.made, session.lost_runs, session.calls_made) == ([], 1, 0)
        assert session.run("return 1") == 1


def test_what_a_policy_is_told():
    seen = []
    tool = SchemaTool("look", "", {"type": "object"}, lambda given: 1, annotations={"readOnlyHint": True})
    with inline_sandbox(
        [tool], policy=lambda request: seen.append(request) or "allow", max_tool_calls=5, max_host_calls=3
    ) as session:
        session.run("await look({a: 1n}); await look()")
        first, second = seen
        assert (first.name, first.args, first.annotations) == ("look", ({"a": 1},), {"readOnlyHint": True})
        assert (second.args, second.run, second.session_id) == ((), 1, session.session_id)
        assert [(r.calls_made, r.calls_remaining, r.call_id) for r in seen] == [(0, 3, 1), (1, 2, 2)]
        assert len({r.idempotency_key for r in seen}) == 2


def test_spent_budgets_are_not_asked_about():
    asked = []
    with inline_sandbox(
        {"read": lambda: 1}, policy=lambda request: asked.append(1) or "allow", max_tool_calls=2
    ) as session:
        result = session.run("return (await Promise.allSettled([read(), read(), read(), read()])).map(r => r.status)")
        assert result == ["fulfilled", "fulfilled", "rejected", "rejected"]
        assert (len(asked), session.calls_made) == (2, 2)


def test_calls_that_are_allowed_together_do_not_pass_a_budget():
    """All are decided about at once; each is charged by its own decision."""

    async def policy(request):
        await asyncio.sleep(0.01)
        return "allow"

    tools = Tools()
    with inline_sandbox(tools.all(), policy=policy, tool_budgets={"read": 3}) as session:
        result = session.run("return (await Promise.allSettled([1,2,3,4,5].map(i => read(i)))).map(r => r.status)")
        assert sorted(result) == ["fulfilled"] * 3 + ["rejected"] * 2
        assert (len(tools.made), session.calls_made) == (3, 3)


@pytest.mark.parametrize("blocking", [True, False])
def test_async_policies_overlap_with_each_other_and_with_tools(blocking):
    """All are under way at the same time: each waits until all have come."""
    met = {}

    async def policy(request):
        loop = asyncio.get_running_loop()
        met.setdefault("event", asyncio.Event())
        met["count"] = met.get("count", 0) + 1
        if met["count"] == 5:
            met["event"].set()
        await met["event"].wait()
        met["loop"] = loop
        return "allow"

    code = "return (await Promise.all([1,2,3,4,5].map(i => read(i)))).length"
    if blocking:
        with inline_sandbox({"read": lambda x: x}, policy=policy) as session:
            assert session.run(code) == 5
        return

    async def main():
        async with AsyncAgentSandbox({"read": lambda x: x}, isolation="inline", policy=policy) as session:
            assert await session.run(code) == 5
        assert met["loop"] is asyncio.get_running_loop()

    asyncio.run(main())


def test_while_one_policy_thinks_other_calls_go_on():
    gate = threading.Event()

    async def policy(request):
        while request.args == (1,) and not gate.is_set():
            await asyncio.sleep(0.001)
        return "allow"

    def read(x):
        if x == 2:
            gate.set()
        return x

    with inline_sandbox({"read": read}, policy=policy) as session:
        assert session.run("return await Promise.all([read(1), read(2)])") == [1, 2]


def test_a_policys_time_is_no_computing_and_counts_as_waiting():
    def slow(request):
        time.sleep(0.3)
        return "allow"

    with inline_sandbox({"read": lambda: 1}, policy=slow, timeout=0.25) as session:
        assert session.run("const t = Date.now(); await read(); return Date.now() - t >= 290") is True
    with inline_sandbox({"read": lambda: 1}, policy=slow, max_pause=0.1) as session:
        with pytest.raises(RuntimeTimeout, match="max_pause"):
            session.run("await read()")

    async def slower(request):
        await asyncio.sleep(60)

    with inline_sandbox({"read": lambda: 1}, policy=slower, max_pause=0.1) as session:
        for step in (session.execute("await read()"), session.start("await read()").to_result()):
            assert step.error_type == "RuntimeTimeout"
        assert session.calls_made == 0


def test_a_policy_that_is_late_denies():
    async def slow(request):
        await asyncio.sleep(60 if request.args == (1,) else 0)
        return "allow"

    with inline_sandbox({"read": lambda x: x}, policy=slow, tool_timeout=0.1) as session:
        assert session.run("return await read(2)") == 2
        assert session.run(CAUGHT % "read(1)").startswith("ToolDeniedError: the call was not allowed")
        assert "tool_timeout" in str(session.policy_error.__cause__)


def test_a_cancelled_run_forgets_its_policy():
    ended = []

    async def slow(request):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(request.call_id)

    async def main():
        async with AsyncAgentSandbox({"read": lambda: 1}, isolation="inline", policy=slow) as session:
            task = asyncio.create_task(session.run("await Promise.all([read(), read()])"))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)
            assert (sorted(ended), session.calls_made, session.lost_runs) == ([1, 2], 0, 1)
            assert await session.run("return 1") == 1

    asyncio.run(main())


def test_approvals_survive_dump_load_and_fork(make_session, setting):
    tools = Tools()
    session = make_session(tools.all(), policy=careful, max_tool_calls=9, random_seed=1)
    step = session.start("return [await send('ada'), await send('eve')]", ask=())
    blob = session.dump(KEY)
    with AgentSandbox.load(blob, KEY, tools.all(), policy=careful, **setting) as other:
        assert (other.pending, other.pending.reason) == (step, "mail to ada")
        assert other.pending.idempotency_key == step.idempotency_key
        following = other.resume(other.pending, "yes")
        assert (following.args, following.reason, other.calls_made) == (("eve",), "mail to eve", 2)
        with other.fork() as branch:
            assert (branch.pending.reason, branch.pending.call_id) == ("mail to eve", following.call_id)
            assert branch.pending.idempotency_key != following.idempotency_key
            assert branch.resume(branch.pending, 1) == Done(["yes", 1])
            assert branch.run(CAUGHT % "send('bob')").startswith("ToolDeniedError")
    assert tools.made == []


def test_a_session_with_a_policy_is_not_loaded_without():
    tools = Tools()
    with inline_sandbox(tools.all(), policy=careful) as session:
        blob = session.dump(KEY)
    with pytest.raises(JournalError, match="policy"):
        AgentSandbox.load(blob, KEY, tools.all(), isolation="inline")
    with AgentSandbox.load(blob, KEY, tools.all(), isolation="inline", policy=policies.allow_all()) as session:
        assert session.run("return await send('bob')") == "sent to bob"
    with inline_sandbox(tools.all()) as session:
        blob = session.dump(KEY)
    with AgentSandbox.load(blob, KEY, tools.all(), isolation="inline", policy=careful) as session:  # one may be added
        assert session.run(CAUGHT % "send('bob')").startswith("ToolDeniedError")
        blob = session.dump(KEY)
    with pytest.raises(JournalError, match="policy"):
        AgentSandbox.load(blob, KEY, tools.all(), isolation="inline")


def test_a_call_that_was_paused_before_there_was_a_policy_stays_charged():
    tools = Tools()
    with inline_sandbox(tools.all(), max_tool_calls=5) as session:
        session.start("return [await send('bob'), await send('bob').catch(e => e.name)]")
        blob = session.dump(KEY)
    with AgentSandbox.load(blob, KEY, tools.all(), isolation="inline", policy=careful) as session:
        assert session.calls_made == 1
        assert session.resume(session.pending, 1) == Done([1, "ToolDeniedError"])
        assert session.calls_made == 1


def test_catalog_calls_are_decided_about_too():
    named = []

    def policy(request):
        named.append((request.name, dict(request.annotations)))
        return "deny" if request.name == "drop" else "allow"

    entry = SchemaTool(
        "drop", "Drop a table", {"type": "object"}, lambda given: "dropped", annotations={"destructiveHint": True}
    )
    with inline_sandbox({}, policy=policy, tools_catalog=[entry]) as session:
        assert session.run("const f = await search_tools('drop table'); return f.length") == 1
        assert session.run(CAUGHT % "tools.drop({})") == "ToolDeniedError: `drop` is not allowed"
        assert named == [("search_tools", {"readOnlyHint": True}), ("drop", {"destructiveHint": True})]
        assert session.calls_made == 1


def test_arguments_that_cannot_cross_are_an_error_and_not_the_policys_business():
    asked = []
    with inline_sandbox({"read": lambda x: 1}, policy=lambda request: asked.append(request) or "allow") as session:
        text = session.run(CAUGHT % "read(new Date(NaN))")
        assert text == "TypeError: an invalid Date cannot leave the sandbox"
        assert (asked, session.calls_made) == ([], 0)
        assert session.run("return await read(new Date(0))") == 1
        assert len(asked) == 1


def test_a_runtime_takes_one_too():
    with IsolatedRuntime(isolation="inline", policy=policies.allow_list("add")) as runtime:
        runtime.bind_function("add", lambda a, b: a + b)
        runtime.bind_function("drop", lambda: 1)
        assert runtime.eval("await add(1, 2)") == 3
        assert runtime.execute("await drop()").error_type == "ToolDeniedError"


def test_bad_options():
    with pytest.raises(TypeError, match="policy"):
        inline_sandbox({}, policy="deny")
    with pytest.raises(TypeError, match="call_log"):
        inline_sandbox({}, call_log=object())
    with pytest.raises(ValueError, match="run_budgets.*nothing"):
        inline_sandbox({}, run_budgets={"nothing": 1})
    with pytest.raises(ValueError, match="run_budgets"):
        inline_sandbox({"read": print}, run_budgets={"read": -1})


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_budgets_of_a_run():
    with inline_sandbox(
        {"read": lambda: 1, "send": lambda: 1}, run_budgets={"send": 2}, tool_budgets={"send": 3}
    ) as session:
        code = "const t = []; for (let i = 0; i < 3; i++) t.push(await send().catch(e => e.message)); return t"
        assert session.run(code)[2] == "`send` may be called 2 times in one run and was (1 are left for later runs)"
        assert session.calls_remaining_by_tool == {"send": 1}
        assert session.run(code)[1:] == ["`send` may be called 3 times in this session and was"] * 2
        assert session.calls_remaining_by_tool == {"send": 0}
        assert session.run("return await read()") == 1


def test_budgets_of_a_run_survive():
    tools = {"send": lambda: 1}
    with inline_sandbox(tools, run_budgets={"send": 2}, max_tool_calls=20) as session:
        session.start("const t = []; for (let i = 0; i < 3; i++) t.push(await send().catch(e => e.name)); return t")
        blob = session.dump(KEY)
        with session.fork() as branch:
            assert branch.calls_remaining_by_tool == {"send": 1}
            assert branch.resume(branch.resume(branch.pending, 0), 0) == Done([0, 0, "ToolBudgetError"])
    with AgentSandbox.load(blob, KEY, tools, isolation="inline") as session:
        assert session.calls_remaining_by_tool == {"send": 1}
        step = session.resume(session.pending, 0)
        assert session.calls_remaining_by_tool == {"send": 0}
        assert session.resume(step, 0) == Done([0, 0, "ToolBudgetError"])
        assert session.calls_remaining_by_tool == {"send": 2}
        assert session.calls_made == 2


def test_asked_and_approved_is_charged_once_per_budget():
    tools = Tools()
    with inline_sandbox(
        tools.all(), policy=lambda r: Ask("?"), run_budgets={"send": 1}, tool_budgets={"send": 1}
    ) as session:
        step = session.start("return [await send('a'), await send('b').catch(e => e.name)]", ask=())
        assert session.resume(step, session.call(step)) == Done(["sent to a", "ToolBudgetError"])
        assert (session.calls_made, session.calls_remaining_by_tool) == (1, {"send": 0})
        assert isinstance(session.start("await send('c')", ask=()), Failed)


def test_a_policy_is_asked_about_as_many_calls_at_a_time_as_may_be_under_way():
    now, most, expected, reached = 0, 0, 0, asyncio.Event()

    async def policy(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == expected:
            reached.set()
        await asyncio.wait_for(reached.wait(), 10)
        await asyncio.sleep(0.001)
        now -= 1
        return "allow"

    code = "return (await Promise.all(Array.from({length: 40}, (_, i) => read(i)))).length"
    for inflight, expected in ((4, 3), (64, 40)):
        now, most, reached = 0, 0, asyncio.Event()
        with inline_sandbox({"read": lambda x: x}, policy=policy, max_inflight_host_calls=inflight) as session:
            assert session.run(code) == 40
        assert most == expected


def test_a_decision_that_nobody_waits_for_is_dropped():
    given = []

    def policy(request):
        if request.args == (2,):
            return Deny("", end_run=True)
        given.append(asyncio.sleep(60, "allow"))
        return given[-1]

    async def main():
        async with AsyncAgentSandbox({"read": lambda x: x}, isolation="inline", policy=policy) as session:
            assert (await session.execute("await Promise.all([read(1), read(2)])")).error_type == "RunDenied"
            assert inspect.getcoroutinestate(given[0]) == inspect.CORO_CLOSED

    asyncio.run(main())
