"""`AsyncAgentSandbox`: the same session on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    CallOutcomeUnknownError,
    Done,
    JavaScriptError,
    RuntimeTimeout,
    SessionBusyError,
    ToolCall,
)
from gloveport.core.commands import Dump, Step
from gloveport.engines.wasm import link
from gloveport.wire.messages import GC_REQUEST, OK

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


@pytest.fixture
async def make(setting):
    made = []

    async def create(tools=None, **options):
        session = await AsyncAgentSandbox.create(tools or {}, **setting, **options)
        made.append(session)
        return session

    yield create
    for session in made:
        await session.close()


def test_both_classes_have_the_same_methods_and_parameters():
    sync = {name for name in vars(AgentSandbox) if not name.startswith("_")}
    other = {name for name in vars(AsyncAgentSandbox) if not name.startswith("_")}
    assert other - sync == {"create"}
    assert sync - other == set()
    for name in sync:
        ours, theirs = getattr(AgentSandbox, name), getattr(AsyncAgentSandbox, name)
        assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys(), name
        assert inspect.iscoroutinefunction(theirs), name
        assert ours.__doc__ and theirs.__doc__


async def test_runs_tools_and_state(make):
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    session = await make({"later": later, "now": lambda x: x * 2})
    assert await session.run("const a = await later(1); return [a, await now(a)]") == [2, 4]
    result = await session.execute("console.log(a); null.x")
    assert (result.stdout, result.error_type) == ("2\n", "TypeError")
    with pytest.raises(JavaScriptError):
        await session.run("null.x")


async def test_async_tools_overlap(make):
    inside, most = 0, 0

    async def nap(i):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        return i

    session = await make({"nap": nap})
    assert await session.run("return (await Promise.all(Array.from({length: 20}, (_, i) => nap(i)))).length") == 20
    assert most == 20


async def test_sync_tools_overlap_too(make):
    meet = threading.Barrier(3, timeout=20)
    session = await make({"t": lambda: meet.wait() is not None})
    assert await session.run("return await Promise.all([t(), t(), t()])") == [True] * 3


async def test_pause_dump_load_fork_in_both_classes(make, setting):
    session = await make({"ask": lambda x: x})
    step = await session.start("const a = await ask(1); return a")
    assert step == ToolCall("ask", (1,), 1)
    blob = await session.dump(KEY)
    with AgentSandbox.load(blob, KEY, {"ask": lambda x: x}, **setting) as sync:
        assert sync.resume(sync.pending, "sync").value == "sync"
        blob_of_sync = sync.dump(KEY)
    copy = await AsyncAgentSandbox.load(blob_of_sync, KEY, {"ask": lambda x: x}, **setting)
    branch = await session.fork()
    try:
        assert await copy.run("return a") == "sync"
        assert (await session.resume(step, "one")).value == "one"
        assert (await branch.resume(branch.pending, "two")).value == "two"
        assert await session.call(ToolCall("ask", (5,), 9)) == 5
    finally:
        await copy.close()
        await branch.close()


async def test_a_cancelled_run_is_rolled_back_and_the_session_goes_on(make):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang():
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    session = await make({"hang": hang}, max_tool_calls=5)
    await session.run("globalThis.x = 1")
    task = asyncio.create_task(session.run("x = 2; await hang()"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 10)
    assert await session.run("return x") == 1
    assert (session.lost_runs, session.calls_made, session.calls_remaining) == (1, 1, 4)


async def test_wait_for_costs_the_run_only(make):
    session = await make({"hang": lambda: threading.Event().wait(0.5)})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.run("globalThis.y = 1; await hang()"), 0.1)
    assert await session.run("return typeof y") == "undefined"


async def test_the_loop_lives_while_a_guest_computes(setting, make):
    if setting["isolation"] == "inline":
        pytest.skip("an inline guest computes on the loop's own thread, as documented")
    session = await make(timeout=1)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticker = asyncio.create_task(tick())
    with pytest.raises(RuntimeTimeout):
        await session.run("for (;;);")
    ticker.cancel()
    assert ticks > 10
    assert await session.run("return 1") == 1


async def test_a_second_run_at_the_same_time_is_told_so(make):
    release = asyncio.Event()

    async def slow():
        await release.wait()
        return "done"

    session = await make({"slow": slow})
    first = asyncio.create_task(session.run("return await slow()"))
    await asyncio.sleep(0.05)
    with pytest.raises(SessionBusyError):
        await session.run("return 1")
    release.set()
    assert await first == "done"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_what_is_not_an_answer_leaves_the_session_paused_there(make, kind):
    done = []

    async def bad():
        raise kind

    async def good():
        done.append(1)
        return "good"

    session = await make({"bad": bad, "good": good})
    with pytest.raises(kind):
        await session.run("return await Promise.all([good(), bad()])")
    assert session.pending.name == "bad"
    step = await session.resume(session.pending, "answered")
    while isinstance(step, ToolCall):
        step = await session.resume(step, await session.call(step))
    assert step.value == ["good", "answered"]


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError])
async def test_a_call_that_was_left_behind_is_reported_and_not_made_again(either, kind):
    paid, noted, release, looked = [], threading.Event(), threading.Event(), []

    def pay(what):
        paid.append(what)
        noted.set()
        assert release.wait(20)

    async def leave():
        await asyncio.to_thread(noted.wait, 20)
        raise kind

    async with AsyncAgentSandbox(
        {"pay": pay, "leave": leave, "look": looked.append}, max_inflight_host_calls=3, **either
    ) as session:
        try:
            with pytest.raises(kind):
                await session.run("await Promise.all([pay('a'), leave(), look(1)]); return 'ok'")
        finally:
            release.set()
        assert (session.pending.name, session.pending.unknown) == ("leave", False)
        step = await session.resume(session.pending, None)
        assert (step.name, step.args, step.unknown) == ("pay", ("a",), True)
        assert looked == [1]  # it had not begun, and is made as ever
        with pytest.raises(CallOutcomeUnknownError):
            await session.call(step)
        assert await session.resume(step, None) == Done("ok")
    assert paid == ["a"]


async def test_a_pause_that_a_tool_forced_is_timed_from_its_beginning(either):
    async def bad(x):
        raise SystemExit

    async with AsyncAgentSandbox({"bad": bad, "other": lambda: 0}, max_pause=5, **either) as session:
        with pytest.raises(SystemExit):
            await session.start("return await bad(1)", ask=["other"])
        assert await session.resume(session.pending, 1) == Done(1)
        step = await session.start("await other(); return await bad(2)", ask=["other"])
        with pytest.raises(SystemExit):
            session._paused_at -= 3
            await session.resume(step, 0)
        session._paused_at -= 1  # of the second pause; the first one's 3 are counted once
        assert await session.resume(session.pending, 2) == Done(2)


async def test_a_pause_that_a_tool_forced_ends_at_max_pause(either):
    async def bad():
        raise SystemExit

    async with AsyncAgentSandbox({"bad": bad, "other": lambda: 0}, max_pause=0.2, **either) as session:
        with pytest.raises(SystemExit):
            await session.start("return await bad()", ask=["other"])
        step = session.pending
        await asyncio.sleep(1)
        assert (await session.resume(step, 1)).error_type == "RuntimeTimeout"


async def test_a_fork_counts_the_calls_of_its_own_run(either):
    tools = {"ask": lambda: 0, "work": lambda: 0}
    async with AsyncAgentSandbox(tools, run_budgets={"work": 2}, **either) as session:
        step = await session.start("await ask(); await work(); await work(); return 'ok'", ask=["ask"])
        async with await session.fork() as branch:
            assert await session.resume(step, 0) == Done("ok")
            assert await branch.resume(branch.pending, 0) == Done("ok")
            step = await branch.start("await ask(); await work(); await work(); await work()", ask=["ask"])
            assert (await branch.resume(step, 0)).error_type == "ToolBudgetError"


@pytest.mark.parametrize("operation", ["dump", "fork"])
@pytest.mark.parametrize("command", [Step, Dump])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_paused_run_outlives_a_cancelled_save(monkeypatch, operation, command, moment):
    # Nothing comes before the event loop waits for it.
    monkeypatch.setattr(link.ProcessLink, "_take_soon", lambda _: None)
    came = asyncio.Event()
    receive, readable = link.ProcessLink._receive_async, link.ProcessLink._readable
    waits_for, tasks = [], []

    async def perform(self, asked, perform=link.ProcessLink.perform_async):
        waits_for.append(type(asked))
        return await perform(self, asked)

    async def wait(self, limit):
        came.set()
        return await receive(self, limit)

    def arrives(self, waiter):
        readable(self, waiter)
        if moment == "after" and waiter.done() and waits_for[-1] is command and tasks:
            tasks.pop().cancel()  # with the reply there, and not yet given to whoever waits

    tools = {"ask": lambda x: x}
    async with AsyncAgentSandbox(tools, engine="wasm", isolation="process") as session:
        step = await session.start("globalThis.n = 1; return [await ask(1), n, await ask(2)]")
        monkeypatch.setattr(link.ProcessLink, "perform_async", perform)
        monkeypatch.setattr(link.ProcessLink, "_receive_async", wait)
        monkeypatch.setattr(link.ProcessLink, "_readable", arrives)
        task = asyncio.create_task(session.dump(KEY) if operation == "dump" else session.fork())
        if moment == "after":
            tasks.append(task)
        while moment == "before":
            came.clear()
            await came.wait()
            if waits_for[-1] is command:
                task.cancel()
                break
        with pytest.raises(asyncio.CancelledError):
            await task
        step = await session.resume(step, 10)
        assert await session.resume(step, 20) == Done([10, 1, 20])
        assert (session.lost_runs, await session.run("return n")) == (0, 1)


async def test_a_reply_that_nobody_waited_for_is_no_answer_to_what_is_asked_next(monkeypatch):
    monkeypatch.setattr(link.ProcessLink, "_take_soon", lambda _: None)
    async with AsyncAgentSandbox({}, engine="wasm", isolation="process") as session:
        line = session._driver.link
        for _ in range(2):
            task = asyncio.create_task(line.perform_async(Dump()))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert line.perform(Step(GC_REQUEST, 5)).status == line.perform(Step(GC_REQUEST, 5)).status == OK
        task = asyncio.create_task(line.perform_async(Dump(bytes(32 << 20))))  # more than goes out at once
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert line.perform(Step(GC_REQUEST, 5)).status == OK  # after the rest of that request, and its reply
        assert session._driver.link is line
        assert await session.run("return 1") == 1


async def test_a_request_that_changes_the_guest_is_not_cancelled_halfway(monkeypatch):
    monkeypatch.setattr(link.ProcessLink, "_take_soon", lambda _: None)
    async with AsyncAgentSandbox({}, engine="wasm", isolation="process") as session:
        await session.run("globalThis.n = 1")
        task = asyncio.create_task(session._driver.drive(session._core.reseed(5)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session._driver.link.closed
        assert (await session.execute("return n")).error_type == "WorkerCrashed"
        assert await session.run("return n") == 1


@pytest.mark.parametrize(("engine", "number"), [("wasm", 50), ("v8", 12)])  # a worker of v8 is a process of some 60 MB
async def test_many_sessions_at_once(engine, number):
    async def echo(x):
        return x

    async def one(i):
        async with AsyncAgentSandbox({"echo": echo}, engine=engine) as session:
            return await session.run(f"let s = 0; for (let i = 0; i < 20; i++) s += await echo({i}); return s")

    assert await asyncio.gather(*(one(i) for i in range(number))) == [20 * i for i in range(number)]


async def test_paused_sessions_add_no_threads(either):
    number = 200 if either["engine"] == "wasm" else 10
    sessions = [AsyncAgentSandbox({"ask": lambda x: x}, **either) for _ in range(number)]
    before = threading.active_count()
    for session in sessions:
        await session.start("await ask(1)")
    assert threading.active_count() <= before + 3
    for session in sessions:
        await session.close()


async def test_nothing_is_started_before_the_first_use(worker):
    session = AsyncAgentSandbox({}, timeout=1, **worker)
    assert session.worker_pid is None
    await session.close()


def test_one_session_on_two_loops_after_each_other(worker):
    session = AsyncAgentSandbox({"t": lambda: 1}, **worker)
    assert asyncio.run(session.run("globalThis.x = await t(); return x")) == 1
    assert asyncio.run(session.run("return x + 1")) == 2
    asyncio.run(session.close())


def test_uvloop(worker):
    uvloop = pytest.importorskip("uvloop")

    async def later(x):
        await asyncio.sleep(0)
        return x

    async def main():
        async with AsyncAgentSandbox({"later": later, "now": lambda x: x}, **worker) as session:
            return await session.run("return [await later(1), await now(2)]")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == [1, 2]


async def test_a_session_inside_a_running_loop_can_be_blocking_too(worker):
    """As in a notebook: a loop runs in this thread, and the blocking class is used all the same."""

    async def later(x):
        await asyncio.sleep(0)
        return x

    with AgentSandbox({"later": later}, **worker) as session:
        assert session.run("return await later(5)") == 5
