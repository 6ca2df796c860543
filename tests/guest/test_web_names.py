"""The web globals among tools, runs and guests that meddle with prototypes."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox


def inline(tools=None, **options):
    return AgentSandbox(tools or {}, isolation="inline", **options)


GLOBALS = (
    "URL URLSearchParams TextEncoder TextDecoder structuredClone Event CustomEvent EventTarget AbortController AbortSignal DOMException "
    "crypto atob btoa performance queueMicrotask setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate Intl console"
).split()
ABSENT = (
    "fetch Request Response Headers XMLHttpRequest WebSocket SharedArrayBuffer Worker process require Deno WebAssembly "
    "localStorage native primordials"
).split()


def test_what_is_there_and_what_is_not():
    with inline() as session:
        assert session.run(f"return {GLOBALS}.filter(n => typeof globalThis[n] === 'undefined')") == []
        assert session.run(f"return {ABSENT}.filter(n => n in globalThis)") == []
        assert session.run(f"return {GLOBALS}.filter(n => Object.keys(globalThis).includes(n))") == []


def test_tools_win_over_polyfills():
    with inline({"fetch": lambda url: f"got {url}", "URL": lambda text: f"tool {text}"}) as session:
        assert session.run("return [await fetch('x'), await URL('y')]") == ["got x", "tool y"]
        assert session.run("return new URLSearchParams('a=1').get('a')") == "1"


@pytest.mark.parametrize("name", ["URL", "TextDecoder", "crypto", "Event", "structuredClone", "Intl"])
def test_a_declaration_with_such_a_name_stays_in_its_run(name):
    with inline() as session:
        before = session.run(f"return typeof {name}")
        assert session.run(f"const {name} = 5; return {name}") == 5
        assert session.run(f"return typeof {name}") == before
        session.run("const mine = 5")
        assert session.run("return mine") == 5


def test_meddling_with_prototypes_leaves_the_console_and_the_codecs_alone():
    meddle = """
    Array.prototype.push = Map.prototype.get = Set.prototype.add = String.prototype.slice = () => { throw new Error('meddled') };
    Object.defineProperty(Object.prototype, 'get', {get() { throw new Error('meddled') }, configurable: true});
    Object.getPrototypeOf(Uint8Array.prototype).set = () => { throw new Error('meddled') };
    Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), 'length',
      {get() { throw new Error('meddled') }});
    TextEncoder.prototype.encode = TextDecoder.prototype.decode = () => 'meddled';
    Promise.prototype.then = undefined;
    """
    with inline() as session:
        session.execute(meddle)
        result = session.execute(
            "console.log(new Map([[1, {a: [1, 'x']}]]), new Uint8Array(2), new TypeError('t').message); return 'done'"
        )
        assert result.error is None
        assert "Map(1) { 1 => { a: [ 1, 'x' ] } }" in result.stdout
        assert session.run("return [structuredClone({a: [1]}).a.length, crypto.randomUUID().length]") == [1, 36]


def test_meddling_with_the_codecs_changes_no_url():
    with inline() as session:
        session.run(
            "TextEncoder.prototype.encode = TextDecoder.prototype.decode = () => 'meddled'; delete globalThis.TextEncoder"
        )
        code = "const u = new URL('https://h/é?ü'); return [u.pathname, [...u.searchParams.keys()]]"
        assert session.run(code) == ["/%C3%A9", ["ü"]]


def test_own_properties_do_not_fool_the_codecs():
    code = """
    const bytes = new Uint8Array([65, 66]);
    for (const name of ['buffer', 'byteOffset', 'byteLength', 'length', 'constructor']) Object.defineProperty(bytes,
      name, {get() { throw new Error('read') }});
    return [new TextDecoder().decode(bytes), [...Object.values(structuredClone(bytes))],
      crypto.getRandomValues(bytes) === bytes]
    """
    with inline() as session:
        assert session.run(code) == ["AB", [65, 66], True]


def test_cycles_of_the_guest_are_collected_although_the_image_is_not_walked():
    """Garbage in cycles, each through a builtin of the image as well, of ten times the memory that there is."""
    code = """
    for (let i = 0; i < 4000; i++) { const a = {bytes: new Uint8Array(100_000), of: Map, url: URL}; a.self = () => a }
    return 'done'
    """
    keep = "const kept = []; for (let i = 0; i < 4000; i++) { const a = {bytes: new Uint8Array(100_000)}; a.self = () => a; kept.push(a) }"
    with inline(max_memory=40 << 20, timeout=60) as session:
        assert session.run(code) == "done"
        assert "memory" in session.execute(keep).error
        assert session.run(code) == "done"


def test_platform_objects_live_through_a_dump():
    key = b"k" * 32
    with inline() as session:
        session.run("const u = new URL('https://h/a'), d = new TextDecoder(), f = new Intl.NumberFormat('de')")
        session.run("d.decode(new Uint8Array([0xe2, 0x82]), {stream: true})")
        data = session.dump(key)
    with AgentSandbox.load(data, key, {}, isolation="inline") as again:
        code = "u.hash = 'x'; return [u.href, d.decode(new Uint8Array([0xac])), f.format(1234.5)]"
        assert again.run(code) == ["https://h/a#x", "€", "1.234,5"]
