"""structuredClone (https://html.spec.whatwg.org/multipage/structured-data.html#dom-structuredclone)."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox


@pytest.fixture(scope="module")
def run():
    with AgentSandbox({}, isolation="inline") as session:
        yield session.run


def test_containers_dates_and_cycles(run):
    code = """
    const shared = {n: 1}, from = {list: [1, , shared], map: new Map([[shared, new Set([1n, 'a'])]]), date: new Date(5),
      none: null, u: undefined};
    from.self = from; from.list.extra = NaN;
    const to = structuredClone(from), [key, set] = [...to.map][0];
    return [to !== from, to.self === to, to.list[2] === key, key !== shared, 1 in to.list, to.list.length,
      Number.isNaN(to.list.extra),
      [...set].map(String), to.date.getTime(), 'u' in to, to.none]
    """
    assert run(code) == [True, True, True, True, False, 3, True, ["1", "a"], 5, True, None]


def test_bytes_share_one_buffer(run):
    code = """
    const buffer = new ArrayBuffer(8, {maxByteLength: 16}), a = new Uint8Array(buffer, 2, 3), b = new Int16Array(buffer,
      4, 1), v = new DataView(buffer, 1, 2);
    a[0] = 7;
    const to = structuredClone({a, b, v, big: new BigInt64Array([-5n]), c: new Uint8ClampedArray([1])});
    return [to.a[0], to.a.buffer === to.b.buffer, to.a.buffer !== buffer, to.a.byteOffset, to.v.byteLength,
      to.v instanceof DataView,
      to.a.buffer.resizable, to.a.buffer.maxByteLength, String(to.big[0]), to.c.constructor.name]
    """
    assert run(code) == [7, True, True, 2, 2, True, True, 16, "-5", "Uint8ClampedArray"]


def test_errors_patterns_and_boxes(run):
    code = """
    class Mine extends RangeError { constructor(m) { super(m, {cause: {deep: [1]}}); this.name = 'Mine';
      this.extra = 1 } }
    const t = structuredClone(new TypeError('x')), m = structuredClone(new Mine('y')),
      d = structuredClone(new DOMException('z', 'AbortError'));
    const r = structuredClone(/a\\/b[/]/giu), b = structuredClone([Object(1), Object('s'), Object(false), Object(2n)]);
    return [t instanceof TypeError, t.message, typeof t.stack, m.name, m.message, m.cause, 'extra' in m,
      d instanceof DOMException, d.name, d.code, d.message,
      r.source, r.flags, b.map(x => typeof x + typeof x.valueOf())]
    """
    kinds = ["objectnumber", "objectstring", "objectboolean", "objectbigint"]
    expected = [
        True,
        "x",
        "string",
        "Error",
        "y",
        {"deep": [1]},
        False,
        True,
        "AbortError",
        20,
        "z",
        "a\\/b[/]",
        "giu",
        kinds,
    ]
    assert run(code) == expected


def test_instances_become_plain_and_getters_are_read(run):
    code = """
    class Point { constructor() { this.x = 1 } get y() { return 2 } }
    const to = structuredClone(Object.defineProperty(new Point(), 'z', {get: () => 3, enumerable: true}));
    return [to.constructor === Object, to, Object.getOwnPropertyDescriptor(to, 'z').value]
    """
    assert run(code) == [True, {"x": 1, "z": 3}, 3]


REFUSED = [
    "() => 1",
    "Symbol('s')",
    "{a: [function f() {}]}",
    "new WeakMap()",
    "Promise.resolve()",
    "new Proxy({}, {})",
    "new URL('https://h/')",
    "new URLSearchParams()",
    "new AbortController()",
    "new EventTarget()",
    "new TextEncoder()",
    "crypto",
    "new Intl.NumberFormat()",
    "(function* () {})()",
    "[].values()",
    "Object(Symbol())",
]


@pytest.mark.parametrize("value", REFUSED)
def test_what_cannot_be_cloned(run, value):
    code = f"""
    try {{ structuredClone({value}); return 'cloned' }} catch (e) {{ return [e.name, e.code,
      e instanceof DOMException] }}
    """
    assert run(code) == ["DataCloneError", 25, True]


def test_transfer_moves_the_bytes(run):
    code = """
    const b = new Uint8Array([1, 2, 3]), to = structuredClone({b}, {transfer: [b.buffer]});
    return [[...to.b], b.length, b.buffer.detached, to.b.buffer.detached]
    """
    assert run(code) == [[1, 2, 3], 0, True, False]


def test_a_failed_transfer_moves_nothing(run):
    code = """
    const b = new Uint8Array([1, 2]), errors = [];
    for (const [value, transfer] of [[{b, f() {}}, [b.buffer]], [b, [b.buffer, b.buffer]], [b, [{}]]]) {
      try { structuredClone(value, {transfer}) } catch (e) { errors.push(e.name) }
    }
    return [errors, [...b], b.buffer.detached]
    """
    assert run(code) == [["DataCloneError"] * 3, [1, 2], False]


def test_own_proto_keys_and_setters_are_data(run):
    code = """
    Object.defineProperty(Object.prototype, 'trap', {set() { globalThis.sprung = true }, configurable: true});
    const to = structuredClone(JSON.parse('{"__proto__": {"evil": 1}, "trap": 2}'));
    delete Object.prototype.trap;
    return [Object.keys(to), to.evil === undefined, Object.getPrototypeOf(to) === Object.prototype,
      globalThis.sprung === undefined]
    """
    assert run(code) == [["__proto__", "trap"], True, True, True]


def test_depth_is_an_error_that_code_can_catch(run):
    code = """
    let deep = []; for (let i = 0; i < 100000; i++) deep = [deep]; try { structuredClone(deep);
      return 'cloned' } catch (e) { return e.name }
    """
    assert run(code) == "RangeError"
    assert run("let deep = []; for (let i = 0; i < 200; i++) deep = [deep]; return structuredClone(deep).length") == 1
