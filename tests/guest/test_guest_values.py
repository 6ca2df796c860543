"""Values across the border, both ways."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .driver import Session, answer


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("null", None),
        ("true", True),
        ("-7", -7),
        ("1.5", 1.5),
        ("2**53 - 1", 2**53 - 1),
        ("-(2**53 - 1)", -(2**53 - 1)),
        ("'a\\u00e9\\u6f22\\u{1F600}\"\\\\\\n\\u0001'", 'aé漢😀"\\\n\x01'),
        ("-0", {"$": "number", "v": "-0"}),
        ("NaN", {"$": "number", "v": "NaN"}),
        ("Infinity", {"$": "number", "v": "Infinity"}),
        ("-Infinity", {"$": "number", "v": "-Infinity"}),
        ("[undefined, , 1]", [{"$": "undefined"}, {"$": "undefined"}, 1]),
        ("({a: undefined, b: 1})", {"b": 1}),
        ("12345678901234567890n", {"$": "bigint", "v": "12345678901234567890"}),
        ("new Date(1234.9)", {"$": "date", "v": 1234}),
        ("new Date(NaN)", {"$": "date", "v": None}),
        ("new Uint8Array([0, 255, 7, 1])", {"$": "bytes", "v": "AP8HAQ=="}),
        ("new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", {"$": "bytes", "v": "AgM="}),
        ("new Uint8Array([1, 2]).buffer", {"$": "bytes", "v": "AQI="}),
        ("new DataView(new Uint8Array([1, 2, 3]).buffer, 1)", {"$": "bytes", "v": "AgM="}),
        ("new Int16Array([-1, 300])", [-1, 300]),
        ("new Float32Array([0.5, -0])", [0.5, {"$": "number", "v": "-0"}]),
        ("new BigInt64Array([5n])", [{"$": "bigint", "v": "5"}]),
        ("new Map([[1, {a: 1}], ['k', undefined]])", {"$": "map", "v": [[1, {"a": 1}], ["k", {"$": "undefined"}]]}),
        ("new Set([1, [2]])", {"$": "set", "v": [1, [2]]}),
        ("new TypeError('no')", {"$": "error", "v": {"name": "TypeError", "message": "no"}}),
        ("new DOMException('gone', 'AbortError')", {"$": "error", "v": {"name": "AbortError", "message": "gone"}}),
        (
            "[new Number(1), new String('s'), new Boolean(false), Object(2n)]",
            [1, "s", False, {"$": "bigint", "v": "2"}],
        ),
        ("/a\\/b/gi", "/a\\/b/gi"),
        ("({$: 1, v: 2})", {"$": "object", "v": {"$": 1, "v": 2}}),
        ("new (class P { #x = 1; y = 2; get z() { return 3 } })", {"y": 2}),
        ("({get a() { return [1] }})", {"a": [1]}),
        ("({toJSON() { return 1 }, a: 1}).a", 1),
        ("({b: 1, 2: 2, a: 3, 1: 4})", {"1": 4, "2": 2, "b": 1, "a": 3}),
        ("Object.create(null, {x: {value: 1, enumerable: true}, y: {value: 2}})", {"x": 1}),
        ("(function () { return arguments })(1, 'b')", [1, "b"]),
        ("({[Symbol('s')]: 1, k: 2})", {"k": 2}),
        ('JSON.parse(\'{"__proto__": {"a": 1}}\')', {"__proto__": {"a": 1}}),
    ],
)
def test_results(session: Session, code: str, expected: Any) -> None:
    got = session.value(f"return {code}")
    assert got == expected
    assert type(got) is type(expected)
    if isinstance(expected, dict):
        assert list(got) == list(expected)


def test_big_doubles_stay_floats(session: Session) -> None:
    assert isinstance(session.value("return 2**53"), float)
    assert session.value("return [2**53, 1e21, -1e300, 5e-324]") == [2.0**53, 1e21, -1e300, 5e-324]


def test_undefined_is_a_result_without_value(session: Session) -> None:
    assert session.run("return undefined")[-1] == {"t": "done", "f": 0}


@pytest.mark.parametrize(("code", "flags"), [("1", 0), ("[-0]", 1), ("'\\ud800'", 2), ("['\\ud800', 1n]", 3)])
def test_flags(session: Session, code: str, flags: int) -> None:
    assert session.run(f"return {code}")[-1]["f"] == flags


def test_lone_surrogates_are_escapes(session: Session) -> None:
    session.run("return 'a\\ud800b\\udc00\\ud83d\\ude00'")
    assert b'"a\\ud800b\\udc00\xf0\x9f\x98\x80"' in session.last.output


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("() => 1", "a function cannot leave the sandbox: return plain data"),
        ("({handler() {}})", "a function at `handler` cannot leave"),
        ("({lines: [{'a b': Symbol('x')}]})", 'a symbol at `lines[0]["a b"]` cannot leave'),
        ("[tool()]", "a Promise at `[0]` cannot leave the sandbox: await it first"),
        ("({a: new Proxy({}, {})})", "a Proxy at `a`"),
        ("({a: {b: new WeakMap()}})", "a WeakMap at `a.b`"),
        ("[new Map([[1, () => 1]])]", "a function at `[0][0]`"),
        ("[[].values()]", "an iterator at `[0]` cannot leave the sandbox: make an array of it first"),
        ("(() => { const a = {lines: [{}]}; a.lines[0].order = a; return a })()", "a cycle at `lines[0].order`"),
        ("({get a() { return {f() {}} }})", "a function at `a.f`"),
    ],
)
def test_refusals_name_the_path(session: Session, code: str, message: str) -> None:
    if "tool()" in code:
        session.run(f"const p = tool(); p.catch(() => 0); return {code.replace('tool()', 'p')}")
        failed = session.step(answer(1, 1))[-1]
    else:
        failed = session.failure(f"return {code}")
    assert failed["kind"] == "value"
    assert failed["name"] == "TypeError"
    assert failed["message"].startswith(message)


def test_the_same_object_twice_is_no_cycle(session: Session) -> None:
    assert session.value("const o = {x: 1}; return [o, o, {o}]") == [{"x": 1}, {"x": 1}, {"o": {"x": 1}}]


def test_depth_limit(session: Session) -> None:
    nest = "let a = 1; for (let i = 0; i < {}; i++) a = [a]; return a"
    assert session.value(nest.replace("{}", "200"))
    assert "200 levels" in session.failure(nest.replace("{}", "201"))["message"]


def test_value_limit(session: Session) -> None:
    assert len(session.value("return Array(999_999).fill(0)")) == 999_999
    for code in (
        "Array(1_000_000).fill(0)",
        "new Array(4e9)",
        "new Float64Array(1_000_000)",
        "[Array(500_000).fill(0), Array(500_000).fill(0)]",
    ):
        final = session.run(f"return {code}")[-1]
        assert final["t"] == "fail", code
        assert "1,000,000 values" in final["message"], code


def test_a_getter_that_throws_fails_the_run(session: Session) -> None:
    failed = session.failure("return {get a() { throw new RangeError('no') }}")
    assert (failed["kind"], failed["name"], failed["message"]) == ("throw", "RangeError", "no")


@pytest.mark.parametrize(
    "code",
    [
        "const o = {get a() { delete o.b; o.z = 9; return 1 }, b: 2, c: 3}; return o",
        "const l = [{get a() { l.length = 1; return 1 }}, 2, 3]; return l",
        "const m = new Map([[1, {get a() { m.clear(); return 1 }}], [2, 3]]); return m",
        "const o = {}; for (let i = 0; i < 50; i++) o['k' + i] = {get x() { for (const k in o) delete o[k]; return 1 }}; return o",
        "const o = {1: {get x() { delete o[2]; return 1 }}, 2: 2}; return o",
    ],
)
def test_getters_that_change_what_is_encoded(session: Session, code: str) -> None:
    session.value(code)
    assert session.value("return 1") == 1


def test_messages_of_a_getter_come_first(session: Session) -> None:
    said = session.run("console.log('before'); return {get a() { console.log('inside'); return 1 }, b: 2}")
    assert [m.get("m", m["t"]) for m in said] == ["before", "inside", "done"]
    assert said[-1]["v"] == {"a": 1, "b": 2}


def test_call_from_a_getter_in_an_argument(session: Session) -> None:
    said = session.run("await tool({get a() { other(1).catch(() => 0); return 2 }})")
    assert [(m["n"], m["id"], m["a"]) for m in said[:2]] == [("other", 1, [1]), ("tool", 2, [{"a": 2}])]


ROUND_TRIPS = [
    None,
    [1, "x", 1.5, True, {"a": [{}]}],
    "\ud800 lone 漢😀",
    {"$": "undefined"},
    {"$": "number", "v": "-0"},
    {"$": "number", "v": "NaN"},
    {"$": "bigint", "v": "-123456789012345678901234567890"},
    {"$": "date", "v": -5},
    {"$": "bytes", "v": "AP8HAQ=="},
    {"$": "bytes", "v": ""},
    {"$": "map", "v": [[{"$": "bytes", "v": "AQ=="}, {"$": "set", "v": [1, {"$": "date", "v": 0}]}]]},
    {"$": "set", "v": []},
    {"$": "error", "v": {"name": "BudgetError", "message": "spent"}},
    {"$": "object", "v": {"$": "date", "v": {"$": "date", "v": 1}}},
    {"__proto__": {"$": "number", "v": "NaN"}},
    {"a": {"$": "object", "v": {"$": None}}, "10": 1, "2": {"$": "undefined", "x": 1}},
]


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=repr)
def test_round_trip(session: Session, value: Any) -> None:
    session.run("return [await tool()]")
    got = session.step(answer(1, value))[-1]["v"][0]
    if isinstance(value, dict) and "10" in value:
        assert got == {"10": 1, "a": {"$": "object", "v": {"$": None}}}
    else:
        assert got == value


def test_decoded_values_are_the_real_thing(session: Session) -> None:
    session.run(
        """const [d, b, n, m, s, e] = await tool()
        return [d instanceof Date && d.getTime(), b instanceof Uint8Array && b[1], typeof n, m instanceof Map && m.get('k'),
                s instanceof Set && s.has(2), e instanceof Error && e.name + e.message + Object.keys(e)]"""
    )
    value = [
        {"$": "date", "v": 7},
        {"$": "bytes", "v": "AQI="},
        {"$": "bigint", "v": "1"},
        {"$": "map", "v": [["k", 3], ["k", 4]]},
        {"$": "set", "v": [2, 2]},
        {"$": "error", "v": {"name": "N", "message": "m"}},
    ]
    assert session.step(answer(1, value))[-1]["v"] == [7, 2, "bigint", 4, True, "Nm"]


@pytest.mark.parametrize(
    "value",
    [
        {"$": "bytes", "v": "A"},
        {"$": "bytes", "v": "*A=="},
        {"$": "map", "v": [1]},
        {"$": "nothing", "v": 1},
        {"$": "bigint", "v": "x"},
    ],
)
def test_malformed_values_reject_the_call(session: Session, value: Any) -> None:
    session.run("try { await tool() } catch (e) { return e.name }")
    assert session.step(answer(1, value))[-1]["v"] in ("TypeError", "SyntaxError")


def test_replaced_builtins_fool_only_the_guest(session: Session) -> None:
    session.value(
        """const evil = () => { throw new RangeError('evil') }, define = Object.defineProperty
        const NativeMap = Map; globalThis.makeMap = () => { const m = new NativeMap(); set.call(m, 1, 2); return m }
        const set = Map.prototype.set; set.call = Function.prototype.call
        const keys = ['a', 'v', 't', 'value', 'enumerable', 'n', '0', '1', '2']
        const trap = {__proto__: null, get: evil, set: evil, configurable: true}
        const victims = [[JSON, 'stringify'], [JSON, 'parse'], [Array.prototype, 'map'], [Array.prototype, 'push'],
          [Map.prototype, 'set'], [Set.prototype, 'add'], [Promise.prototype, 'then'], [Date.prototype, 'getTime'],
          [Object.prototype, 'toJSON'], [Reflect, 'apply'], [String.prototype, 'split'], [String.prototype, 'charCodeAt'],
          [Function.prototype, 'call'], [RegExp.prototype, 'toString'], [globalThis, 'Map'], [globalThis, 'Error'],
          [Array.prototype, Symbol.iterator]]
        for (let i = 0; i < victims.length; i++) victims[i][0][victims[i][1]] = evil
        for (let i = 0; i < keys.length; i++) define(Object.prototype, keys[i], trap)"""
    )
    said = session.run(
        "console.log({x: [1, makeMap()]}, 'a', /r/); return [await tool({y: [1]}), {z: new Date(3)}, 5n]"
    )
    assert said[0]["m"] == "{ x: [ 1, Map(1) { 1 => 2 } ] } a /r/"
    value = {"$": "map", "v": [["k", {"$": "set", "v": [1]}]]}
    assert session.step(answer(1, value))[-1]["v"] == [value, {"z": {"$": "date", "v": 3}}, {"$": "bigint", "v": "5"}]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6).filter(lambda k: k != "$"), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values)
def test_json_is_exact(value: Any) -> None:
    with Session() as session:
        session.run("return [await tool()]")
        got = session.step(answer(1, value))[-1]["v"][0]
    assert _same(got, value), (got, value)


def _same(got: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(got, dict) and sorted(got) == sorted(value) and all(_same(got[k], value[k]) for k in value)
    if isinstance(value, list):
        return isinstance(got, list) and len(got) == len(value) and all(map(_same, got, value))
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return got in ({"$": "number", "v": "-0"}, 0)
    return got == value and isinstance(got, bool) == isinstance(value, bool)


def test_large_strings(session: Session) -> None:
    session.run("const s = await tool(); return s + s.length")
    big = "é漢\ud83d\ude00x" * 100_000
    got = session.step(answer(1, big))[-1]["v"]
    assert got == json.loads(json.dumps(big)) + "500000"
