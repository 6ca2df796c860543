"""What comes back: JSON and nothing else, bounded; what was printed; what was thrown."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport.events import ConsoleOutput

SAME = {
    "null": ("null", None),
    "undefined": ("undefined", None),
    "undefined keys vanish": ("({ a: undefined, b: 1 })", {"b": 1}),
    "undefined in arrays": ("[undefined, 1]", [None, 1]),
    "holes": ("[, 1, ,]", [None, 1, None]),
    "negative zero": ("[-0, 0]", [0, 0]),
    "lone surrogates": ("['\\ud800', 'a\\udc00b']", ["\ufffd", "a\ufffdb"]),
    "surrogate pairs": ("'\\ud83d\\ude00'", "\U0001f600"),
    "escapes": ("'\"\\\\\\n\\u0000\\u2028'", '"\\\n\0\u2028'),
    "symbol keys vanish": ("({ [Symbol('x')]: 1, a: 2 })", {"a": 2}),
    "null prototype": ("Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
    "the same object twice": ("const o = { a: 1 }; [o, o]", [{"a": 1}, {"a": 1}]),
    "__proto__ as a key": ("JSON.parse('{\"__proto__\": 1}')", {"__proto__": 1}),
    "numbers": ("[1.5, 1e21, 2 ** 53, 5e-324]", [1.5, 1e21, 2**53, 5e-324]),
    "a getter": ("({ get a() { return 1 } })", {"a": 1}),
    "not enumerable": ("Object.defineProperty({ b: 1 }, 'a', { value: 2 })", {"b": 1}),
    "a proxy of data": ("new Proxy({ a: [1] }, {})", {"a": [1]}),
}


@pytest.mark.parametrize("name", SAME)
def test_json_comes_back(module, name):
    source, expected = SAME[name]
    assert module.value(source) == expected


REFUSED = {
    "NaN": ("({ a: [NaN] })", "$.a[0] is NaN"),
    "Infinity": ("[1, -Infinity]", "$[1] is -Infinity"),
    "BigInt": ("({ 'x y': 1n })", '$["x y"] is a BigInt'),
    "Date": ("[new Date()]", "toISOString"),
    "Map": ("new Map()", "$ is a Map"),
    "Set": ("new Set()", "[...set]"),
    "typed array": ("new Uint8Array(2)", "typed array"),
    "ArrayBuffer": ("new ArrayBuffer(2)", "ArrayBuffer"),
    "RegExp": ("/x/", "RegExp"),
    "class instance": ("class Money {}\nexport default () => ({ a: new Money() })", "$.a is an instance of Money"),
    "function": ("[() => 1]", "$[0] is a function"),
    "symbol": ("[Symbol.iterator]", "a symbol"),
    "toJSON": ("({ toJSON() { return 1 } })", "toJSON"),
    "a promise inside": ("[Promise.resolve(1)]", "await it"),
    "an error": ("new Error('x')", "an Error"),
    "a boxed number": ("[new Number(1)]", "a Number object"),
    "a cycle": ("const a = { b: [] as any[] }; a.b.push(a); a", "$.b[0] is a reference"),
    "too deep": ("let a: any = 1; for (let i = 0; i < 3000; i++) a = [a]; export default () => a", "200 levels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_json_is_refused_with_its_place(module, name):
    source, words = REFUSED[name]
    result = module.fails(source)
    assert (result.error_type, result.exit_reason) == ("NotJson", "returned")
    assert words in result.error


def test_getters_that_throw_are_what_the_code_threw(module):
    assert module.fails("({ get a() { throw new RangeError('mine') } })").error_type == "RangeError"


LARGE = {
    "a sparse array": "const a: number[] = []; a.length = 6e7; export default () => a",
    "a long text": "'x'.repeat(2e8)",
    "many elements": "new Array(2e6).fill(0)",
    "many keys": "Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => [i, i]))",
    "escapes count": "'\\u0000'.repeat(20_000)",
}


@pytest.mark.parametrize("name", LARGE)
def test_large_results_are_refused_where_they_are(module, name):
    result = module.fails(LARGE[name])
    assert (result.error_type, result.exit_reason) == ("ResultTooLarge", "returned")
    assert "51200" in result.error
    assert not module("1").state_lost


def test_the_size_is_told_as_long_as_it_is_cheap_to_know(module):
    assert "has 52002 bytes" in module.fails("'\\u00e9'.repeat(26_000)").error
    assert "has 100001 bytes" in module.fails("new Array(50_000).fill(1)").error
    assert "far more" in module.fails("'x'.repeat(2e7)").error


def test_the_limit_is_exact(module):
    assert len(module.value("'x'.repeat(51_198)")) == 51_198
    assert module.fails("'x'.repeat(51_199)").error_type == "ResultTooLarge"
    exact = module("'ä'.repeat(7)", max_output_bytes=16)
    assert (exact.value, exact.output_bytes) == ("ä" * 7, 16)
    assert module.fails("'ä'.repeat(8)", max_output_bytes=16).error_type == "ResultTooLarge"


def test_a_larger_limit_is_kept(module):
    value = module.value(
        "Array.from({ length: 20_000 }, (_, i) => ({ i, s: 'some text' }))", max_output_bytes=2_000_000
    )
    assert len(value) == 20_000
    assert value[-1] == {"i": 19_999, "s": "some text"}


PARTS = {
    "rows": "Array.from({ length: 5000 }, (_, i) => ({ i, s: 'ä'.repeat(i % 40), deep: [[i], { x: null }] }))",
    "holes and halves": """
        const a: any[] = Array.from({ length: 40_000 }, (_, i) => i % 3 ? `\\ud800${i}` : undefined);
        a.length += 2;
        export default () => a""",
    "large numbers": "Array.from({ length: 30_000 }, (_, i) => i % 7 ? i / 7 : 2 ** 60 + i * 1024)",
    "long texts": "Array.from({ length: 9 }, (_, i) => String(i).repeat(70_000))",
    "small numbers": "Array.from({ length: 300_000 }, (_, i) => i)",
    "an array in an array": "[Array.from({ length: 60_000 }, (_, i) => i)]",
    "getters": "Array.from({ length: 9000 }, (_, i) => ({ get x() { return 'value ' + i } }))",
}


@pytest.mark.parametrize("name", PARTS)
def test_a_long_array_comes_whole(module, name):
    """In parts, as one array: the control is an object around it, which comes in one piece."""
    source = PARTS[name]
    wrapped = source.replace("=> a", "=> ({ a })") if "export" in source else f"({{ a: {source} }})"
    whole, control = (module(text, max_output_bytes=2_000_000) for text in (source, wrapped))
    assert whole.ok and len(whole.value) > 0
    assert (whole.value, whole.output_bytes + len('{"a":}')) == (control.value["a"], control.output_bytes)


@pytest.mark.parametrize("count", [2, 3, 9_000, 30_000])
def test_the_limit_of_a_long_array_is_exact(module, count):
    source = f"new Array({count}).fill('0123456789')"
    size = 13 * count + 1
    exact = module(source, max_output_bytes=size)
    assert (len(exact.value), exact.output_bytes) == (count, size)
    refused = module.fails(source, max_output_bytes=size - 1)
    assert refused.error_type == "ResultTooLarge" and f"has {size} bytes" in refused.error


def test_what_is_wrong_late_in_a_long_array_is_told(module):
    rows = "Array.from({ length: 20_000 }, (_, i) => ({ name: `row ${i}`, at: i === 19_000 ? new Date(0) : i }))"
    result = module.fails(rows, max_output_bytes=2_000_000)
    assert result.error_type == "NotJson" and "$[19000].at is a Date" in result.error
    assert module(rows.replace("new Date(0)", "0"), max_output_bytes=2_000_000).value[19_000]["at"] == 0


JSON_DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON_DATA)
def test_json_goes_round(module, data):
    got = module.value("export default ({ data }) => data", inputs={"data": data})
    assert got == data


def test_numbers_beyond_the_exact_ones_are_floats(module):
    big = module.value("[2 ** 53, -(2 ** 53), 39788110577090250, 2 ** 53 - 1]")
    assert [type(number) for number in big] == [float, float, float, int]
    assert big[2] == 3.978811057709025e16


def test_the_console_is_captured(module):
    result = module(
        "console.log('a %o', { b: 1 }, new Map([[1, 2]])); console.error('e'); console.table([{ x: 1 }]);\n"
        "Deno.stdout.writeSync(new TextEncoder().encode('raw')); process.stdout.write(' more\\n');\n"
        "(await import('node:fs')).writeSync(2, 'fs\\n'); console.group('g'); console.log('in'); console.groupEnd(); 1"
    )
    assert result.value == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "a { b: 1 } Map(1) { 1 => 2 }"
    assert lines[-3:] == ["raw more", "g", "  in"]
    assert result.stderr == "e\nfs\n"
    assert not result.truncated


def test_output_is_cut_in_the_middle(module):
    result = module("for (let i = 0; i < 5000; i++) console.log('line ' + i); 1", max_output_bytes=1000)
    assert result.value == 1
    assert result.truncated
    assert len(result.stdout.encode()) <= 1000
    assert result.stdout.startswith("line 0\n")
    assert result.stdout.endswith("line 4999\n")
    assert "[truncated: " in result.stdout
    whole = module("for (let i = 0; i < 50; i++) console.log('line ' + i); 1", max_output_bytes=1000)
    assert not whole.truncated


def test_one_endless_line_is_bounded(module):
    result = module("console.log('x'.repeat(5e7)); process.stdout.write('y'.repeat(5e7)); 1", max_output_bytes=1000)
    assert result.value == 1
    assert result.truncated
    assert len(result.stdout.encode()) <= 1000


def test_output_has_no_control_characters(module):
    result = module("console.log('\\x1b[31mred\\x1b[0m\\u202e'); console.log('%cstyled', 'color: red'); 1")
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


def test_events_come_while_the_module_runs(module):
    seen = []
    result = module(
        "console.log('one'); await new Promise(r => setTimeout(r, 20)); console.error('two'); 1", on_event=seen.append
    )
    assert [(type(event), event.stream, event.text) for event in seen] == [
        (ConsoleOutput, "stdout", "one"),
        (ConsoleOutput, "stderr", "two"),
    ]
    assert result.stdout == "one\n"


def test_a_rejection_that_nobody_handles_is_reported(module):
    result = module("Promise.reject(new TypeError('lost')); 1")
    assert result.value == 1
    assert "Unhandled rejection: TypeError: lost" in result.stderr


def test_an_error_in_a_timer_is_reported_and_not_fatal(module):
    result = module("setTimeout(() => { throw new Error('late') }, 1); await new Promise(r => setTimeout(r, 30)); 1")
    assert result.value == 1
    assert "late" in result.stderr


THROWN = {
    "a text": ("throw 'words'", "words"),
    "null": ("throw null", "null"),
    "an object": ("throw { code: 5 }", "code: 5"),
    "a cause": ("throw new Error('outer', { cause: new Error('inner') })", "inner"),
    "aggregate": ("throw new AggregateError([new Error('first')], 'many')", "first"),
    "a hostile message": ("throw Object.defineProperty(new Error(), 'message', { get() { throw 1 } })", "Error"),
    "a hostile name": ("throw Object.assign(new Error('x'), { name: 'OutOfMemory' })", "x"),
}


@pytest.mark.parametrize("name", THROWN)
def test_whatever_is_thrown_can_be_told(module, name):
    source, words = THROWN[name]
    result = module.fails(source)
    assert result.exit_reason == "threw"
    assert result.error_type in ("Error", "AggregateError")
    assert words in result.error


def test_error_texts_are_bounded(module):
    result = module.fails("throw new Error('x'.repeat(3e5))")
    assert len(result.error) < 7000
    stack = module.fails("throw Object.assign(new Error('s'), { stack: 'x\\n'.repeat(1e6) })")
    assert len(stack.error) < 7000


def test_measurements(module):
    result = module("const end = Date.now() + 120; while (Date.now() < end); 1")
    assert result.duration > 0
    assert result.cpu_time > 0
    assert result.peak_memory > 0
    idle = module("await new Promise(r => setTimeout(r, 200)); 1")
    assert idle.cpu_time < idle.duration / 2
