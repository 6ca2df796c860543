"""Nothing in a session tells the real time, nor gives a number that another run of it would not get."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox

CLOCK = 86_400 * 365.25 * 1.5  # in July 1971
TIMES = {
    "Date.now": "Date.now()",
    "new Date": "+new Date()",
    "the constructor of a date": "+new (new Date().constructor)()",
    "the constructor of the prototype": "Date.prototype.constructor.now()",
    "the class of a descriptor": "+new (Object.getOwnPropertyDescriptor(globalThis, 'Date').value)()",
    "Reflect.construct": "+Reflect.construct(Date, [])",
    "a subclass": "+new (class extends Date {})()",
    "a subclass that passes nothing on": "+new (class extends Date { constructor() { super() } })()",
    "another prototype": "Date.prototype.getTime.call(Reflect.construct(Date, [], Object))",
    "Date as a function": "Date.parse(Date())",
    "Date called as a method": "Date.parse(Date.call({}))",
    "Date bound": "Date.parse(Date.bind()())",
    "a date's text": "Date.parse(String(new Date()))",
    "eval": "(0, eval)('Date.now()')",
    "Function": "Function('return +new Date()')()",
    "a clone": "+structuredClone(new Date())",
    "performance": "performance.timeOrigin + performance.now()",
    "an event": "performance.timeOrigin + new Event('x').timeStamp",
    "Temporal.Now": "Temporal.Now.instant().epochMilliseconds",
    "Temporal's parts": "Temporal.Now.zonedDateTimeISO('UTC').epochMilliseconds",
    "Temporal's date": "Temporal.Now.plainDateTimeISO().toZonedDateTime('UTC').epochMilliseconds",
}
FORMATS = {
    "format": "new Intl.DateTimeFormat('en', f).format()",
    "format of undefined": "new Intl.DateTimeFormat('en', f).format(undefined)",
    "format taken off": "(g => g())(new Intl.DateTimeFormat('en', f).format)",
    "format by its getter": "Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, 'format')"
    ".get.call(new Intl.DateTimeFormat('en', f))()",
    "formatToParts": "new Intl.DateTimeFormat('en', f).formatToParts().map(p => p.value).join('')",
    "a date": "new Date().toLocaleString('en', f)",
}


@pytest.fixture(scope="module")
def session():
    with AgentSandbox({}, engine="v8", clock=CLOCK, random_seed=11) as made:
        yield made


@pytest.mark.parametrize("way", TIMES)
def test_every_way_to_the_time_is_the_sessions(session, way):
    assert session.run(f"return {TIMES[way]}") // 1000 == CLOCK


@pytest.mark.parametrize("way", FORMATS)
def test_every_format_of_the_present_is_the_sessions(session, way):
    f = "const f = {year: 'numeric', month: 'short', day: 'numeric', timeZone: 'UTC'};"
    assert session.run(f"{f} return {FORMATS[way]}") == "Jul 2, 1971"


def test_the_time_zone_is_utc(session):
    code = (
        "return [new Date(0).getHours(), Intl.DateTimeFormat().resolvedOptions().timeZone, Temporal.Now.timeZoneId()]"
    )
    assert session.run(code) == [0, "UTC", "UTC"]


def test_time_moves_with_timers_and_stands_when_it_is_frozen():
    code = """
    const t = Date.now(); await new Promise(r => setTimeout(r, 1500));
    return [Date.now() - t, Temporal.Now.instant().epochMilliseconds - t]
    """
    for clock, moved in ((CLOCK, [1500, 1500]), ("frozen", [0, 0])):
        with AgentSandbox({}, engine="v8", clock=clock) as session:
            assert session.run(code) == moved


def test_both_engines_give_the_same_random_numbers():
    code = """
    const b = crypto.getRandomValues(new Uint8Array(19));
    return [Math.random(), Math.random(), crypto.randomUUID(), [...b], Math.random()]
    """
    found = []
    for engine in ("wasm", "v8"):
        for seed in (0, 1, 2**32 + 5, 2**64 - 1):
            with AgentSandbox({}, engine=engine, random_seed=seed) as session:
                found.append(session.run(code))
    assert found[:4] == found[4:]
    assert len({str(numbers) for numbers in found}) == 4


def test_random_numbers_have_one_source(session):
    code = """
    const before = Math.random(), ways = [Math.random, Object.getOwnPropertyDescriptor(Math, 'random').value, (0, eval)('Math.random')];
    return [new Set(ways).size, 'getRandomValues' in crypto, 'subtle' in crypto, ways.every(f => f() !== before)]
    """
    assert session.run(code) == [1, True, False, True]


def test_collected_garbage_is_not_seen(session):
    code = """
    const r = new WeakRef({a: 1}), told = [];
    const f = new FinalizationRegistry(x => told.push(x)); f.register({}, 1);
    for (let i = 0; i < 100; i++) { new Array(1e5).fill(i); await null }
    await new Promise(r => setTimeout(r, 10));
    return [r.deref().a, told, f.unregister({}), String(new WeakRef([])), (() => { try { new WeakRef(1) } catch (e) { return e.name } })()]
    """
    assert session.run(code) == [1, [], False, "[object WeakRef]", "TypeError"]


def test_what_is_gone_stays_gone(session):
    names = ["SharedArrayBuffer", "WebAssembly", "Deno", "process", "require", "Worker", "fetch", "localStorage"]
    assert session.run(f"return {names}.filter(n => n in globalThis)") == []
    assert session.run("return typeof Atomics.load") == "function"  # without shared memory nothing waits


def test_what_was_printed_makes_no_room(v8):
    """Lines go out when real time has passed: what a step may say in all does not follow that."""
    code = "const sent = take('a'.repeat(32 << 20)); console.log('x')\n"
    code += "try { take('b'.repeat(32 << 20)); return 'made' } catch (e) { return e.name } finally { await sent }"
    session = v8({"take": lambda text: len(text)}, max_memory=1 << 30)
    assert session.run(code) == "RangeError"
