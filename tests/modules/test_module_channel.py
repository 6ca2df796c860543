"""The line between a host and a worker that does not keep to its side of it: too slow, too much, at the wrong moment."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from gloveport import TypeScriptSandboxSession
from gloveport.engines.modules.link import LINE, ModuleLink
from gloveport.wire.frames import encode_frame

from .test_module_fates import done

BACKENDS = ["asyncio", *(["trio"] if importlib.util.find_spec("trio") else [])]
PUT = "const put = (b) => { for (let n = 0; n < b.length;) n += Deno[Deno.internal].core.writeSync(1, b.subarray(n)); };\n"
OPEN = str(done(0, "1")).replace("44, 34, 111, 112, 101, 110, 34, 58, 48", "44, 34, 111, 112, 101, 110, 34, 58, 49")
"""The end of a run in which one call is open."""


@pytest.fixture(params=BACKENDS)
def anyio_backend(request):
    return request.param


def large(size: int) -> str:
    return "x" * size


async def slow() -> int:
    await anyio.sleep(60)
    return 1


class Killed:
    """Ends a worker after a while, should the host wait for it without end."""

    def __init__(self, session):
        self.happened = False
        self._timer = threading.Timer(15, self._kill, [session.session._worker.pid])

    def _kill(self, pid):
        self.happened = True
        os.kill(pid, signal.SIGKILL)

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()


UNREAD = {
    "an answer": "tools.large(1_500_000); for (;;);",
    "two answers": "tools.large(1_500_000); tools.large(1_500_000); for (;;);",
    "the end of the calls": (
        f"{PUT}tools.large(150_000); tools.large(150_000); tools.slow();\n"
        f"for (const end = Date.now() + 200; Date.now() < end;); put(new Uint8Array({OPEN})); for (;;);"
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_code_that_reads_no_answers_is_stopped_in_time(fresh, name):
    with Killed(fresh) as killed:
        result = fresh(UNREAD[name], timeout=0.6, tools={"large": large, "slow": slow})
    assert not killed.happened
    assert result.exit_reason == "timeout"
    assert fresh("1").state_lost


@pytest.mark.parametrize("size", [1000, 1_000_000, 10_000_000])
def test_an_answer_that_nobody_waits_for_is_not_cut_off(fresh, size):
    """What comes after it would be read as part of it."""
    busy = "for (const end = Date.now() + 150; Date.now() < end;);"
    assert fresh.value(f"tools.large({size}); {busy} 1", tools={"large": large}) == 1
    after = fresh("await tools.large(3)", timeout=10, tools={"large": large})
    assert (after.value, after.stderr, after.state_lost) == ("xxx", "", False)


class Endless:
    """A socket on which there is always something."""

    def __init__(self, data):
        self._data = memoryview(data)

    def setblocking(self, flag):
        pass

    def recv(self, size):
        data, self._data = self._data[:size], self._data[size:]
        return bytes(data)


READY = {"many small frames": (2000, b"\1\0\0\0\0"), "one that comes in many pieces": (1, bytes(16 << 20))}


@pytest.mark.anyio
@pytest.mark.parametrize("name", READY)
async def test_what_is_there_already_lets_others_have_their_turn(anyio_backend, name):
    count, body = READY[name]
    link = ModuleLink(SimpleNamespace(sock=Endless(encode_frame(LINE, body) * count)))
    link.expect(len(body))
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        for _ in range(count):
            assert await link.receive() == (LINE, body)
        group.cancel_scope.cancel()
    assert turns >= 7


FLOOD = (
    f"{PUT}const one = [6, 0, 0, 0, 0x6f, 1, 0, 0, 0, 0], many = new Uint8Array(one.length * 20_000);\n"
    "for (let i = 0; i < 20_000; i++) many.set(one, i * one.length);\nfor (;;) put(many);"
)


@pytest.mark.anyio
async def test_a_flood_holds_up_neither_the_timeout_nor_the_host(anyio_backend):
    """As many lines as a limit of 4 MiB allows take a host much longer than that."""
    async with TypeScriptSandboxSession() as session:
        await session.run_module("1")
        longest = 0.0

        async def tick():
            nonlocal longest
            last = time.monotonic()
            while True:
                await anyio.sleep(0.005)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            result = await session.run_module(FLOOD, timeout=1, max_output_bytes=4 << 20)
            group.cancel_scope.cancel()
    assert result.exit_reason == "timeout"
    assert longest < result.duration / 2


def test_lines_are_counted(fresh):
    """Each takes one byte of the limit at least."""
    seen = []
    result = fresh.fails(FLOOD, max_output_bytes=5000, on_event=seen.append, timeout=60)
    assert result.exit_reason == "crashed"
    assert len(seen) <= 5000
    assert fresh("for (let i = 0; i < 4999; i++) console.log(''); 1", max_output_bytes=5000).stdout == "\n" * 4999


def test_parts_together_hold_no_more_values_than_one(fresh):
    frame = (
        "const bytes = (text) => new TextEncoder().encode(text), u32 = (n) => [...new Uint8Array(new Uint32Array([n]).buffer)];\n"
        "const joined = (...all) => { const made = new Uint8Array(all.reduce((sum, each) => sum + each.length, 0)); let at = 0;\n"
        "  for (const each of all) { made.set(each, at); at += each.length; } return made; };\n"
        "const frame = (kind, ...texts) => { const parts = texts.map(bytes).flatMap((part) => [u32(part.length), part]);\n"
        "  const body = joined([kind], ...parts); return joined(u32(body.length), body); };\n"
        "const piece = `[${'{},'.repeat(999_999)}{}]`;\n"
    )
    head = '{"ok":true,"open":0,"parts":PARTS}'
    send = f"{PUT}{frame}for (let i = 0; i < PARTS; i++) put(frame(0x70, piece)); put(frame(0x64, '{head}', '[1]')); for (;;);"
    over = fresh.fails(send.replace("PARTS", "3"), max_output_bytes=16 << 20)
    assert over.exit_reason == "crashed"
    assert len(fresh.value(send.replace("PARTS", "1"), max_output_bytes=16 << 20)) == 1_000_001
    fresh.call(fresh.session.reset)
    assert len(fresh.value("Array.from({ length: 900_000 }, () => ({}))", max_output_bytes=16 << 20)) == 900_000
    texts = "Array.from({ length: 2000 }, () => '[,{'.repeat(1600))"  # no values, whatever they look like
    assert fresh.value(texts, max_output_bytes=16 << 20) == ["[,{" * 1600] * 2000


KEPT = {"other tools": {"b": lambda: 2}, "no tools": None}


@pytest.mark.parametrize("name", KEPT)
def test_a_tool_that_was_kept_from_an_earlier_call_is_refused_in_words(fresh, name):
    fresh.value("globalThis.kept = tools; await tools.a()", tools={"a": lambda: 1})
    result = fresh.fails("await kept.a()", tools=KEPT[name])
    assert (result.exit_reason, result.error_type, result.line) == ("threw", "Error", 1)
    assert "tool a is not offered" in result.error
    assert fresh.value("await kept.a()", tools={"a": lambda: 3}) == 3


def test_calls_and_lines_after_the_end_of_a_run_are_of_the_next_one(fresh):
    """Timers go on while the host ends the calls that are open."""

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.3)

    source = "tools.stubborn(); setInterval(() => { console.log('tick'); tools.stubborn().catch(() => {}) }, 5); 1"
    assert fresh.value(source, tools={"stubborn": stubborn}) == 1
    after = fresh("2", timeout=10)
    assert (after.value, after.state_lost, after.stderr) == (2, False, "")
    assert "tick\n" in after.stdout


@pytest.mark.parametrize("tools", [None, {"a": lambda: 1}])
def test_what_a_listener_raises_comes_out_as_it_is(fresh, tools):
    def listen(event):
        raise LookupError(event.text)

    with pytest.raises(LookupError, match="said"):
        fresh("console.log('said'); 1", on_event=listen, tools=tools)
    assert fresh("1").value == 1


def test_half_surrogate_pairs_beside_dates_go_in(fresh):
    def odd():
        return [b"ab", "\ud83d", {"\ude00": 1}]

    assert fresh.value("JSON.stringify(await tools.odd())", tools={"odd": odd}) == '["YWI=","\\ud83d",{"\\ude00":1}]'


ODD = {
    "a name that is cut inside a pair": (
        "throw Object.assign(new Error('x'), { name: 'n'.repeat(99) + '😀' })",
        "threw",
    ),
    "a stack with endless numbers": (
        "const e = new Error('x'); e.stack = `at module-9.ts:${'9'.repeat(30)}:1`; throw e",
        "threw",
    ),
    "an import of megabytes": ("await import('./' + 'x'.repeat(3e6))", "refused"),
    "an import of half a pair": ("await import('x\\ud83d')", "refused"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_errors_are_told(fresh, name):
    source, reason = ODD[name]
    result = fresh.fails(source)
    assert result.exit_reason == reason
    assert len(result.error) < 7000
    assert not fresh("1").state_lost


@pytest.mark.parametrize(
    ("text", "limit"),
    [("\\x01", 1 << 20), ("\\u4e00", 1 << 20), ("\\u4e00", 1000), ("\\ud83d\\ude00", 1000), ("x", 1000)],
)
def test_one_long_line_is_within_the_limit_whatever_it_holds(fresh, text, limit):
    long = f"console.log('{text}'.repeat({limit + 1}));"
    for source, end in ((f"{long} console.log('end'); 1", "\nend\n"), (f"console.log('begin'); {long} 1", "\n")):
        result = fresh(source, max_output_bytes=limit)
        assert (result.value, result.truncated) == (1, True)
        assert result.stdout.endswith(end)
        assert len(result.stdout.encode()) <= limit


def test_many_empty_lines_on_both_streams(fresh):
    source = "for (let i = 0; i < 6e5; i++) { process.stdout.write('\\n'); process.stderr.write('\\n') } 1"
    result = fresh(source, max_output_bytes=600_000, timeout=60)
    assert (result.value, len(result.stdout), len(result.stderr)) == (1, 600_000, 600_000)


# ── a realm that code has changed ────────────────────────────────────────────────────────────────────────────────────

A = {"a": lambda: 1}
CHANGED = {
    "tools are a constant": "Object.defineProperty(globalThis, 'tools', { value: 1 }); 1",
    "nothing can be added": "Object.freeze(globalThis); 1",
    "everything has a getter": "Object.prototype.get = 1; 1",
}
PINNED = ("tools are a constant", "nothing can be added")


@pytest.mark.parametrize("name", CHANGED)
def test_the_next_call_works_in_a_realm_that_was_changed(fresh, name):
    fresh.value(CHANGED[name])
    for tools in (None, None if name in PINNED else A):
        after = fresh("2", timeout=10, tools=tools)
        assert (after.value, after.state_lost) == (2, False)


def test_tools_that_have_no_place_are_refused_and_the_next_call_has_one(fresh):
    fresh.value("Object.freeze(globalThis); 1")
    refused = fresh.fails("await tools.a()", timeout=10, tools=A)
    assert (refused.exit_reason, refused.error_type) == ("refused", "TypeError")
    assert "froze globalThis" in refused.error
    after = fresh("await tools.a()", tools=A)
    assert (after.value, after.state_lost) == (1, True)


def test_tools_stay_when_the_realm_is_frozen_with_them(fresh):
    fresh.value("Object.freeze(globalThis); 1", tools=A)
    assert fresh.value("await tools.b()", tools={"b": lambda: 2}) == 2
    assert fresh.value("typeof tools") == "undefined"
    assert fresh.value("await tools.a()", tools=A) == 1


def test_a_worker_that_cannot_say_how_it_ended_ends_at_once(fresh):
    broken = (
        "const { encodeInto } = TextEncoder.prototype;\n"
        "TextEncoder.prototype.encodeInto = function (text, to) {\n"
        "  if (text.startsWith('{\"ok\"')) throw new Error('no'); return encodeInto.call(this, text, to) }; 1"
    )
    result = fresh.fails(broken, timeout=20)
    assert result.exit_reason == "exited"
    assert fresh("1").state_lost
