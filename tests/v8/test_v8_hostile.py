"""Attacks from the place of a v8 worker that was taken over, against the host."""

from __future__ import annotations

import asyncio
import struct
import threading
import time

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, ReplayDivergence
from gloveport.engines.v8.engine import V8Engine
from gloveport.engines.v8.link import V8Link
from gloveport.wire import frames

from ..escapes.puppet import raw_reply, reply
from ..escapes.test_worker import CODE, CRASHES, DONE

SAME = [
    "header of 4 GiB",
    "length 0",
    "unknown kind",
    "a request as the answer",
    "an image as the answer",
    "end of stream",
    "truncated frame, end of stream",
    "truncated reply",
    "two answers",
    "an answer and half of one",
    "descriptors",
    "unknown status",
    "trapped",
    "garbage",
    "output ends in a length",
    "waits for nothing",
    "call id ahead",
    "an unknown tool",
    "result: 20 million lists",
]
"""Of the attacks on the other engine's link; what reads the messages is the same for both."""
from .relay import MIB, Relay

KEY = b"k" * 32


@pytest.fixture
def relays(monkeypatch):
    """The first worker that a session gets is a relay."""
    relays, really = [], V8Engine.open

    def open_guest(engine):
        link = really(engine)
        if relays:
            return link
        relays.append(Relay(link._v8))
        return V8Link(relays[0], engine.max_memory)

    async def open_guest_async(engine):
        return open_guest(engine)

    monkeypatch.setattr(V8Engine, "open", open_guest)
    monkeypatch.setattr(V8Engine, "open_async", open_guest_async)
    yield relays
    end = time.monotonic() + 10
    while any(thread.name == "relay" for thread in threading.enumerate()):
        assert time.monotonic() < end, "something was left behind"
        time.sleep(0.01)


@pytest.fixture
def taken(relays):
    """A session, the relay that serves it, and the calls that were made."""
    calls = []
    tools = {"t": lambda x: calls.append(x) or x}
    with AgentSandbox(tools, engine="v8", timeout=0.5, max_tool_calls=50) as session:
        assert session.execute("let before = 41").ok
        yield session, relays[0], calls


def part(data):
    return frames.encode_frame(frames.PART, data)


def send(*data):
    return lambda relay, _: relay.send(*data)


OWN = {
    "parts that are more than a frame": send(*[part(bytes(8 * MIB))] * 9),
    "a part that is no output": send(part(b"\x01\x00"), reply(DONE)),
    "a part after the reply": send(reply(DONE) + part(b"x")),
    "a part of another answer": send(part(struct.pack("<I", 10)), reply(DONE)),
    "a wait of the wrong size": send(frames.encode_frame(frames.WAITS, b"\0"), reply(DONE)),
    "a replay as the answer": send(frames.encode_frame(frames.RETRACE, b"x")),
}


def test_the_honest_relay(taken):
    session, relay, calls = taken
    assert session.execute(CODE).result == "x"
    assert (calls, relay.closed, session.run("return before")) == (["x"], False, 42)


@pytest.mark.parametrize("name", [*SAME, *OWN])
def test_what_no_worker_of_ours_says(taken, name):
    session, relay, calls = taken
    relay.attack = (OWN | CRASHES)[name]
    result = session.execute(CODE)
    assert (result.status, result.error_type) == ("Failed", "WorkerCrashed"), result
    assert len(result.error) < 1000 and "\x1b" not in result.error
    assert (calls, relay.closed) == ([], True)
    assert session.execute("return before + await t(1)").result == 42
    assert session.lost_runs == 1


NEVER_ENDING = {
    "silence": lambda relay, _: None,
    "parts without an end": lambda relay, _: talk(relay, part(b""), 0.005),
    "one byte after the other": lambda relay, _: talk(relay, part(b"x"), 0.0),
    "waits without an end": lambda relay, _: talk(relay, frames.encode_frame(frames.WAITS, bytes(4)), 0.005),
}


def talk(relay, frame, pause):
    """Until the host hangs up, or for so long that nobody could think that it would have."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        relay.send(frame)
        time.sleep(pause)
    relay.send(reply(DONE))


@pytest.mark.parametrize("name", NEVER_ENDING)
def test_what_never_ends_is_a_timeout(taken, name):
    session, relay, _ = taken
    relay.attack = NEVER_ENDING[name]
    assert session.execute(CODE).error_type == "RuntimeTimeout"
    assert relay.closed
    assert session.run("return before") == 41


@pytest.mark.anyio
@pytest.mark.parametrize("name", NEVER_ENDING)
async def test_what_never_ends_is_a_timeout_on_an_event_loop_and_does_not_hold_it_up(relays, name):
    async with AsyncAgentSandbox({"t": lambda x: x}, engine="v8", timeout=0.5) as session:
        await session.run("let before = 41")
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.005)

        task = asyncio.create_task(other())
        relays[0].attack = NEVER_ENDING[name]
        assert (await session.execute(CODE)).error_type == "RuntimeTimeout"
        task.cancel()
        assert turns > 10
        assert await session.run("return before") == 41


def test_a_worker_that_lies_about_a_run_is_found_out_when_it_is_replayed(taken):
    """What the host was told stays the application's; a fresh guest comes to something else, and is not made to fit."""
    session, relay, _ = taken
    relay.attack = send(reply({"t": "done", "f": 0, "v": "a lie"}))
    assert session.run("before = 5; return 'the truth'") == "a lie"
    blob = session.dump(KEY)
    with pytest.raises(ReplayDivergence):
        AgentSandbox.load(blob, KEY, {"t": len}, engine="v8")
    relay.kill()
    assert session.execute("return 1").error_type == "WorkerCrashed"
    assert session.execute("return before").status == "Failed", "a state that nobody can come to is not made up"


def test_a_worker_that_says_what_was_not_asked_between_runs_is_given_up(taken):
    session, relay, calls = taken
    relay.send(raw_reply(b""))
    assert session.execute(CODE).error_type == "WorkerCrashed"
    assert (session.run("return before"), calls) == (41, [])
