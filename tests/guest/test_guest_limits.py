"""Interrupts, memory, stack: each limit stops what it must, and a control shows that it stops nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gloveport.engines.wasm.guest import INTERRUPTED, OK, OUT_OF_MEMORY, TRAP, Guest
from gloveport.errors import EngineUnavailableError

from .driver import Session, answer, module, options

MIB = 1 << 20


@pytest.fixture
def stopping(session: Session) -> Iterator[Session]:
    """A session that is interrupted again and again from another thread, soon after the test begins."""
    done = threading.Event()

    def poke() -> None:
        while not done.wait(0.05):
            session.guest.interrupt()

    thread = threading.Thread(target=poke)
    thread.start()
    yield session
    done.set()
    thread.join()


@pytest.mark.parametrize(
    "code",
    [
        "for (;;);",
        "for (;;) await null",
        "const f = () => queueMicrotask(f); f()",
        "for (;;) { try { for (;;); } catch {} finally { for (;;); } }",
        "setInterval(() => 0, 1); await new Promise(() => 0)",
        "const f = () => setImmediate(f); f(); await new Promise(() => 0)",
        "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "return {get a() { for (;;); }}",
        "console.log({toJSON() {}}); await (async () => { try { for (;;) await 0 } catch { return 1 } })()",
        "return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
        "return [...{[Symbol.iterator]() { return {next: () => ({done: false})} }}]",
        "tool({get a() { for (;;); }})",
        "function* g() { for (;;) yield }; for (const x of g());",
    ],
)
def test_interrupt(stopping: Session, code: str) -> None:
    stopping.run(code)
    assert stopping.last.status == INTERRUPTED


def test_after_an_interrupt_the_heap_is_unusable_until_reset(stopping: Session) -> None:
    image = stopping.guest.dump()
    stopping.run("globalThis.x = 1; for (;;);")
    for use in (lambda: stopping.guest.step(b"G"), stopping.guest.dump):
        with pytest.raises(EngineUnavailableError, match="load an image or reset"):
            use()
    stopping.guest.load([image])
    assert stopping.value("return typeof x") == "undefined"


def test_an_interrupt_between_steps_has_no_effect(session: Session) -> None:
    session.guest.interrupt()
    assert session.value("return 1") == 1


def test_the_tail_is_said_when_interrupted(stopping: Session) -> None:
    said = stopping.run("for (let i = 0; ; i++) console.log(i)", cap=200)
    assert [m["t"] for m in said if m["t"] != "log"] == ["tail"]


# ── memory ──


@pytest.mark.parametrize(
    "code",
    [
        "const a = []; for (;;) a.push({x: 1})",
        "return new ArrayBuffer(2 ** 30)",
        "const a = []; for (;;) a.push(new Uint8Array(65536))",
        "const a = []; for (;;) a.push('xy'.repeat(1e5) + a.length)",
        "return 'x'.repeat(2 ** 29)",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, i)",
        "await Promise.all(Array.from({length: 1e7}, async () => { await 0; return [1] }))",
    ],
)
def test_out_of_memory(code: str) -> None:
    with Session(memory=24 * MIB) as session:
        image = session.guest.dump()
        session.run(code)
        assert session.last.status == OUT_OF_MEMORY
        session.guest.load([image])
        assert session.value("return 1") == 1


def test_the_same_fits_with_more_memory() -> None:
    code = "const a = []; for (let i = 0; i < 40; i++) a.push(new Uint8Array(2 ** 20)); return a.length"
    with Session(memory=24 * MIB) as small, Session(memory=64 * MIB) as large:
        small.run(code)
        assert small.last.status == OUT_OF_MEMORY
        assert large.value(code) == 40


def test_caught_out_of_memory_goes_on() -> None:
    with Session(memory=24 * MIB) as session:
        code = "try { new ArrayBuffer(2 ** 30) } catch (e) { return e.name + ': ' + e.message }"
        assert session.value(code) == "InternalError: out of memory"
        assert session.last.status == OK
        assert session.failure("throw new Error('later')")["message"] == "later"
        assert session.last.status == OK


def test_an_error_that_looks_like_out_of_memory_is_none(session: Session) -> None:
    assert session.failure("throw new InternalError('out of memory')")["name"] == "InternalError"
    assert session.last.status == OK


def test_memory_limit_is_checked(session: Session) -> None:
    for limit in (0, MIB):
        with pytest.raises(ValueError, match="at least"):
            session.guest.set_memory_limit(limit)
        with pytest.raises(ValueError, match="at least"):
            Guest(module(), memory_limit=limit)
    session.guest.set_memory_limit(24 * MIB)
    session.run("return new ArrayBuffer(30 * 2 ** 20)")
    assert session.last.status == OUT_OF_MEMORY


def test_memory_is_given_back_by_a_reset(session: Session) -> None:
    session.run("globalThis.a = new Uint8Array(30 * 2 ** 20).fill(1); await tool()")
    session.guest.reset()
    session.guest.step(options())
    assert session.value("return new Uint8Array(40 * 2 ** 20).indexOf(1)") == -1


# ── stack ──


@pytest.mark.parametrize(
    "code",
    [
        "const f = () => f() + 1; f()",
        "const o = {toString() { return '' + o }}; '' + o",
        "const f = () => [1].map(f); f()",
        "const o = {get a() { return this.a }}; o.a",
        "const p = new Proxy({}, {get: (t, k, r) => r[k]}); p.x",
        "const f = () => 'a'.replace(/a/, f); f()",
        "class A { constructor() { new A() } } new A()",
        "const o = {get a() { tool(o) }}; tool(o)",
        "const f = () => { console.log({x: 1}); f() }; f()",
        "const f = () => JSON.parse('{}', f); f()",
        "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
    ],
)
def test_recursion_is_an_error_that_code_can_catch(session: Session, code: str) -> None:
    caught = session.value(f"try {{ {code} }} catch (e) {{ return e.name }}")
    assert caught in ("RangeError", "SyntaxError")
    assert session.value("return 1") == 1


def test_reasonable_recursion_works(session: Session) -> None:
    assert session.value("const f = n => n ? 1 + f(n - 1) : 0; return f(3000)") == 3000


@pytest.mark.parametrize(
    "code",
    ["return JSON.parse('['.repeat(1e6) + ']'.repeat(1e6))", "return eval('('.repeat(1e6) + '1' + ')'.repeat(1e6))"],
)
def test_deep_recursion_in_the_engine_is_contained(session: Session, code: str) -> None:
    image = session.guest.dump()
    session.run(f"try {{ {code} }} catch (e) {{ return e.name }}")
    assert session.last.status in (OK, TRAP)
    session.guest.load([image])
    assert session.value("return 1") == 1


def test_deep_structures_are_freed_without_recursion(session: Session) -> None:
    assert session.value("let a = null; for (let i = 0; i < 300000; i++) a = {a}; a = null; return 1") == 1


def test_threads_run_guests_at_once() -> None:
    results: list[object] = []

    def work() -> None:
        with Session() as session:
            results.append(session.value("let n = 0; for (let i = 0; i < 3e5; i++) n += i; return n"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [44999850000] * 4


def test_closed_guests_say_so(session: Session) -> None:
    session.guest.close()
    session.guest.close()
    session.guest.interrupt()
    for use in (lambda: session.guest.step(b"G"), session.guest.reset, session.guest.dump):
        with pytest.raises(EngineUnavailableError, match="closed"):
            use()


def test_output_is_bounded(session: Session) -> None:
    with Session(memory=1024 * MIB) as large:
        failed = large.failure("return 'x'.repeat(2 ** 26)")
        assert (failed["kind"], "63 MiB" in failed["message"]) == ("value", True)
        large.run("try { await tool('x'.repeat(2 ** 26)) } catch (e) { console.log(e.name, e.message); await tool(1) }")
        assert b"63 MiB" in large.last.output
        assert large.step(answer(1))[-1]["t"] == "done"
