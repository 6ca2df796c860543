"""`AsyncAgentSandbox`: the same session on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    JavaScriptError,
    RuntimeTimeout,
    SessionBusyError,
    ToolCall,
)

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
