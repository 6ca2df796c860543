"""The console: formatting, and output caps."""

from __future__ import annotations

import pytest

from .driver import Session


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'a', 1, true, null, undefined, -0, 1.5, NaN", "a 1 true null undefined -0 1.5 NaN"),
        ("", ""),
        ("'100%'", "100%"),
        ("'%s is %d%% %i %f', 'x', 4.2, '7.9', '2.5px'", "x is 4.2% 7 2.5"),
        ("'%s %s', 1", "1 %s"),
        ("'%s', {a: 1}, 'rest'", "{ a: 1 } rest"),
        ("'%j|%o|%O|%c|%x', {a: [1]}, [1], {b: 2}, 'color: red', 5", '{"a":[1]}|[ 1 ]|{ b: 2 }||%x 5'),
        ("'%d %i', 12n, {}", "12n NaN"),
        ("10n, Symbol('s')", "10n Symbol(s)"),
        ("{a: 1, 'b c': 'x', [Symbol('k')]: 2}", "{ a: 1, 'b c': 'x', [Symbol(k)]: 2 }"),
        ("{a: {b: {c: {d: 1}}}}", "{ a: { b: { c: [Object] } } }"),
        ("[1, , 'x', [2]]", "[ 1, <1 empty item>, 'x', [ 2 ] ]"),
        ("new Map([['a', {b: 1}]]), new Set([1, 'x'])", "Map(1) { 'a' => { b: 1 } } Set(2) { 1, 'x' }"),
        ("new Date(0), /a+/g, new Uint8Array([1, 2])", "1970-01-01T00:00:00.000Z /a+/g Uint8Array(2) [ 1, 2 ]"),
        (
            "() => 1, function named() {}, class A {}, class B extends Map {}",
            "[Function (anonymous)] [Function: named] [class A] [class B extends Map]",
        ),
        ("new (class Point { x = 1 })", "Point { x: 1 }"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("Promise.resolve(4), new Promise(() => 0)", "Promise { 4 } Promise { <pending> }"),
        (
            "{get a() { throw 1 }, set b(x) {}, get c() { return 1 }, set c(x) {}}",
            "{ a: [Getter], b: [Setter], c: [Getter/Setter] }",
        ),
        ("new Proxy({a: 1}, {get() { throw 1 }, ownKeys() { throw 2 }})", "[Proxy]"),
        ("[new Number(3), new String('s')], Object(Symbol('q'))", "[ [Number: 3], [String: 's'] ] [Symbol: Symbol(q)]"),
        ("new WeakMap(), new ArrayBuffer(8)", "WeakMap { <items unknown> } ArrayBuffer { byteLength: 8 }"),
        ('["it\'s", \'a\\n"b"\']', '[ "it\'s", \'a\\n"b"\' ]'),
        ("[new Error('in'), 1].length", "2"),
    ],
)
def test_formatting(session: Session, arguments: str, expected: str) -> None:
    assert session.logs(f"console.log({arguments})") == [expected]


def test_cycles(session: Session) -> None:
    assert session.logs("const a = {b: []}; a.b.push(a); a.c = a; console.log(a)") == [
        "<ref *1> { b: [ [Circular *1] ], c: [Circular *1] }"
    ]


def test_errors_have_their_stack_and_cause(session: Session) -> None:
    (line,) = session.logs("console.error(new TypeError('no', {cause: new Error('why')}))")
    assert line.startswith("TypeError: no\n    at <anonymous> (<run>:1:")
    assert "[cause]: Error: why" in line
    assert "<boot" not in line


def test_long_objects_break_into_lines(session: Session) -> None:
    (line,) = session.logs("console.log({first: 'x'.repeat(40), second: 'y'.repeat(40)})")
    assert line == "{\n  first: '" + "x" * 40 + "',\n  second: '" + "y" * 40 + "'\n}"


def test_large_things_are_cut(session: Session) -> None:
    lines = session.logs(
        "console.log(Array(1000).fill(0)); console.log(['x'.repeat(20000)]); console.log(new Array(4e9))"
    )
    assert "... 900 more items" in lines[0]
    assert "more characters" in lines[1]
    assert "empty items" in lines[2]
    assert sum(map(len, lines)) < 12_000


def test_exploding_structures_end(session: Session) -> None:
    body = "const o = {}; for (let i = 0; i < 80; i++) { o['k' + i] = Array(80).fill(0).map(() => Array(80).fill([1])) } console.log(o)"
    assert len(session.run(body, cap=1 << 30)[0]["m"]) < 2_000_000


def test_streams(session: Session) -> None:
    said = session.run("for (const k of ['log', 'info', 'debug', 'warn', 'error']) console[k](k)")
    assert [(m["m"], m["s"]) for m in said[:-1]] == [("log", 1), ("info", 1), ("debug", 1), ("warn", 2), ("error", 2)]


def test_groups_indent_until_the_run_ends(session: Session) -> None:
    assert session.logs(
        "console.group('G'); console.log('a\\nb'); console.group(); console.log({x: 1}); console.groupEnd(); console.warn('c')"
    ) == [
        "G",
        "  a\n  b",
        "    { x: 1 }",
        "  c",
    ]
    assert session.logs("console.log('next')") == ["next"]


def test_count_time_assert_dir_trace(session: Session) -> None:
    body = """console.count(); console.count('x'); console.count(); console.countReset(); console.count()
      console.time('t'); await new Promise(r => setTimeout(r, 1500)); console.timeLog('t', 1); console.timeEnd('t'); console.timeEnd('t')
      console.assert(true, 'no'); console.assert(false, 'bad %s', 'x'); console.assert(false)
      console.dir({a: {b: {}}}, {depth: 0}); console.clear()"""
    assert session.logs(body) == [
        "default: 1",
        "x: 1",
        "default: 2",
        "default: 1",
        "t: 1.5s 1",
        "t: 1.5s",
        "Timer 't' does not exist",
        "Assertion failed: bad x",
        "Assertion failed",
        "{ a: [Object] }",
    ]
    (trace,) = session.logs("function where() { console.trace('at', 1) }\nwhere()", stream=2)
    assert trace.startswith("Trace: at 1\n")
    assert "where (<run>:1:" in trace


def test_table(session: Session) -> None:
    (table,) = session.logs("console.table([{a: 1, b: 'x'}, {a: 2}])")
    assert table.splitlines() == [
        "┌─────────┬───┬─────┐",
        "│ (index) │ a │ b   │",
        "├─────────┼───┼─────┤",
        "│ 0       │ 1 │ 'x' │",
        "│ 1       │ 2 │     │",
        "└─────────┴───┴─────┘",
    ]
    assert session.logs("console.table(5)") == ["5"]
    (only,) = session.logs("console.table(new Map([['k', 1]]), ['a'])")
    assert "'k'" in only


def test_surrogates_cross(session: Session) -> None:
    said = session.run("console.log('a\\ud800b'); console.log(['\\udc00'])")
    assert [(m["m"], m["f"]) for m in said[:2]] == [("a\ud800b", 2), ("[ '\udc00' ]", 2)]


# ── caps ──


def test_head_and_tail(session: Session) -> None:
    said = session.run("for (let i = 0; i < 1000; i++) console.log('line ' + i); console.warn('x')", cap=1000)
    head = [m["m"] for m in said if m["t"] == "log" and m["s"] == 1]
    (tail,) = [m for m in said if m["t"] == "tail"]
    assert said[-1]["t"] == "done"
    assert said[-2] is tail or said[-3] is tail
    kept = tail["m"].split("\n")
    assert head == [f"line {i}" for i in range(len(head))]
    assert kept == [f"line {i}" for i in range(1000 - len(kept), 1000)]
    assert tail["lines"] == 1000 - len(head) - len(kept)
    assert tail["bytes"] == sum(len(f"line {i}") + 1 for i in range(len(head), 1000 - len(kept)))
    assert 490 <= sum(len(x) + 1 for x in head) <= 500
    assert 490 <= len(tail["m"]) + 1 <= 500


def test_nothing_is_dropped_within_the_cap(session: Session) -> None:
    said = session.run("for (let i = 0; i < 90; i++) console.log('12345678' + (i % 10))", cap=1000)
    (tail,) = [m for m in said if m["t"] == "tail"]
    assert (tail["lines"], tail["bytes"]) == (0, 0)
    assert len([m for m in said if m["t"] == "log"]) + len(tail["m"].split("\n")) == 90


@pytest.mark.parametrize("character", ["x", "é", "漢", "😀"])
def test_one_giant_line_keeps_both_ends_and_whole_characters(session: Session, character: str) -> None:
    said = session.run(f"console.log('<' + '{character}'.repeat(50000) + '>')", cap=1001)
    assert said[0]["m"].startswith("<" + character)
    assert said[1]["t"] == "tail"
    assert said[1]["m"].endswith(character + ">")
    assert set(said[0]["m"] + said[1]["m"]) == {"<", character, ">"}
    kept = len((said[0]["m"] + said[1]["m"]).encode())
    assert said[1]["bytes"] + kept == len(character.encode()) * 50000 + 2
    assert kept <= 1001


def test_cap_of_nothing(session: Session) -> None:
    said = session.run("console.log('abc'); console.log('d\\ne')", cap=0)
    assert said == [{"t": "tail", "f": 0, "s": 1, "m": "", "lines": 3, "bytes": 8}, {"t": "done", "f": 0}]


def test_a_flood_of_lines_needs_bounded_memory(session: Session) -> None:
    said = session.run("for (let i = 0; i < 200000; i++) console.log('line', i); return 1")
    assert said[-1]["v"] == 1
    assert len(session.last.output) < 400_000
    assert session.guest._instance.size() < 16 << 20


def test_the_tail_survives_pauses_and_interrupts(session: Session) -> None:
    from .driver import answer

    session.run("for (let i = 0; i < 50; i++) console.log('abcdefgh'); await tool(); console.log('last')", cap=100)
    said = session.step(answer(1))
    assert said[0]["t"] == "tail"
    assert said[0]["m"].endswith("last")


def test_hostile_values_run_nothing(session: Session) -> None:
    body = """let ran = 0; const evil = () => { ran++; throw 1 }
      const handler = new Proxy({}, {get() { ran++; return evil }})
      const values = [new Proxy({}, handler), new Proxy([], handler), {toString: evil, valueOf: evil, [Symbol.toPrimitive]: evil},
        {get constructor() { return evil() }}, Object.create(new Proxy({}, handler)), {[Symbol.toStringTag]: 5},
        Object.defineProperty([], 'length', {writable: false}), Object.setPrototypeOf([1], null),
        Object.setPrototypeOf(new Map([[1, 2]]), new Proxy({}, handler)),
        Object.assign(new Error('e'), {cause: new Proxy({}, handler)}), Object.defineProperty(new Error('m'), 'message', {get: evil}),
        Object.defineProperty(() => 1, 'name', {get: evil}), Object.defineProperty(new Date(1), 'toISOString', {value: evil})]
      for (const v of values) {
        console.log(v); console.log('%s %d %o', v, v, v); console.dir(v); console.table([v]); console.log([v, {v}]) }
      const { proxy, revoke } = Proxy.revocable({}, {}); revoke()
      console.log(proxy, [proxy]); console.table(proxy); console.table([proxy]);
      return ran"""
    assert session.value(body) == 0
