"""`session.events()`: order, numbers, bounds, listeners in threads and on event loops."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gloveport import AsyncAgentSandbox
from gloveport.events import (
    CallEnded,
    CallStarted,
    ConsoleOutput,
    ConsoleTruncated,
    EventsMissed,
    RunEnded,
    RunStarted,
)


def after(events, session):
    """All that came."""
    session.close()
    return list(events)


def test_a_run_in_order(make_session):
    session = make_session({"ask": lambda x: x})
    session.run("return 0")  # before anybody listens
    events = session.events()
    session.run("console.log('a'); await ask(1); console.error('b\u202e'); console.log('c')")
    session.execute("throw new TypeError('x')")
    assert after(events, session) == [
        RunStarted(2, 1),
        ConsoleOutput(2, 2, "stdout", "a"),
        CallStarted(2, 3, 1, "ask"),
        CallEnded(2, 4, 1, "ask", True),
        ConsoleOutput(2, 5, "stderr", "b?"),
        ConsoleOutput(2, 6, "stdout", "c"),
        RunEnded(2, 7, "Succeeded"),
        RunStarted(3, 8),
        RunEnded(3, 9, "Failed", "TypeError"),
    ]


def test_typescript_and_code_that_does_not_compile(make_session):
    session = make_session()
    events = session.events()
    session.run("const n: number = 1; console.log(n)")
    assert session.execute("const = 1").error_type == "SyntaxError"
    kinds = [type(event) for event in after(events, session)]
    assert kinds == [RunStarted, ConsoleOutput, RunEnded]


def test_refused_calls_and_lost_runs(make_either):
    session = make_either({"ask": lambda x: x}, max_tool_calls=1, timeout=0.2)
    events = session.events()
    session.execute("await ask(1); await ask(2).catch(() => 0); for (;;);")
    session.run("return 1")
    assert after(events, session) == [
        RunStarted(1, 1),
        CallStarted(1, 2, 1, "ask"),
        CallEnded(1, 3, 1, "ask", True),
        CallEnded(1, 4, 2, "ask", False, True),
        RunEnded(1, 5, "Failed", "RuntimeTimeout"),
        RunStarted(2, 6),
        RunEnded(2, 7, "Succeeded"),
    ]


def test_a_paused_run_is_one_run(make_either):
    session = make_either({"ask": lambda x: x})
    events = session.events()
    step = session.start("console.log(await ask(1))")
    session.resume(step, "yes")
    kinds = [type(event) for event in after(events, session)]
    assert kinds == [RunStarted, CallStarted, CallEnded, ConsoleOutput, RunEnded]


def test_a_flood_is_cut_in_the_middle_with_counts(make_either):
    session = make_either(max_output_bytes=1000)
    events = session.events()
    began = time.perf_counter()
    session.execute("for (let i = 0; i < 200000; i++) console.log('line', i)")
    flood = time.perf_counter() - began
    began = time.perf_counter()
    session.execute("let s = 0; for (let i = 0; i < 200000; i++) s += String(i).length")
    told = after(events, session)
    assert flood < 50 * (time.perf_counter() - began) + 1
    texts = [event for event in told if isinstance(event, ConsoleOutput)]
    (cut,) = (event for event in told if isinstance(event, ConsoleTruncated))
    assert texts[0].text == "line 0"
    assert texts[-1].text.endswith("line 199999")
    shown = sum(text.text.count("\n") + 1 for text in texts)
    assert shown + cut.lines == 200_000
    assert sum(len(text.text) + 1 for text in texts) <= 4 * 1000 + 20


def test_a_slow_listener_is_told_what_it_missed(make_either, monkeypatch):
    monkeypatch.setattr("gloveport.host.events.MAX_WAITING", 5)
    session = make_either()
    events = session.events()
    session.run("for (let i = 0; i < 20; i++) console.log(i)")
    told = after(events, session)
    assert told[0] == EventsMissed(1, 17, 17)
    assert [event.sequence for event in told[1:]] == [18, 19, 20, 21, 22]


def test_a_listener_in_a_thread_is_woken_and_ends_with_the_session(make_either):
    session = make_either({"nap": lambda: time.sleep(0.01)})
    seen = []
    events = session.events()
    thread = threading.Thread(target=lambda: seen.extend(events))
    thread.start()
    session.run("console.log(1); await nap(); console.log(2)")
    session.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [event.text for event in seen if isinstance(event, ConsoleOutput)] == ["1", "2"]
    assert list(session.events()) == []


def test_a_stream_that_was_closed_gets_nothing_more(make_either):
    session = make_either()
    with session.events() as events, session.events() as other:
        session.run("1")
        events.close()
        session.run("2")
        assert len(list(events)) == 2
        assert len(after(other, session)) == 4


@pytest.mark.anyio
async def test_output_arrives_on_the_loop_while_the_run_goes_on(setting):
    release = asyncio.Event()

    async def gate():
        await release.wait()

    async with AsyncAgentSandbox({"gate": gate}, **setting) as session:
        events = session.events()
        run = asyncio.create_task(session.run("console.log('before'); await gate(); console.log('after')"))
        async for event in events:
            if isinstance(event, ConsoleOutput):
                if event.text == "after":
                    break
                assert not run.done()
                release.set()
        await run
    kinds = [type(event) async for event in events]
    assert kinds == [RunEnded]


@pytest.mark.anyio
async def test_closing_ends_a_listener_that_waits(either):
    session = await AsyncAgentSandbox.create({}, **either)
    events = session.events()

    async def listen():
        return [event async for event in events]

    task = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    await session.close()
    assert await asyncio.wait_for(task, 5) == []
