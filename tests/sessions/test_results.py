"""Results and console output: bounded, cleaned, and named so that a guest cannot lie about them."""

from __future__ import annotations

import json

import pytest

from gloveport import (
    AgentSandbox,
    Done,
    ExecutionResult,
    JavaScriptError,
    ResultTooLarge,
    SessionClosedError,
    SessionPausedError,
)


@pytest.fixture
def session(either):
    with AgentSandbox({"echo": lambda v: v}, **either) as made:
        yield made


def test_a_result_has_the_documented_shape(session):
    result = session.execute("console.log('a', 1); console.error('b'); return {x: [1, 'y', null]}")
    assert result == ExecutionResult("Succeeded", "a 1\n", "b\n", {"x": [1, "y", None]})
    assert json.loads(json.dumps(result.to_dict())) == {
        "status": "Succeeded",
        "stdout": "a 1\n",
        "stderr": "b\n",
        "result": {"x": [1, "y", None]},
        "error": None,
        "error_type": None,
        "truncated": False,
    }


def test_a_failure_names_type_text_and_place(session):
    result = session.execute("const a = 1\n\n  a.b.c")
    assert (result.status, result.error_type, result.result) == ("Failed", "TypeError", None)
    assert result.error.startswith("TypeError: ")
    assert result.line == 3
    with pytest.raises(JavaScriptError) as caught:
        session.run("const a = 1\n\n  a.b.c")
    assert (caught.value.name, caught.value.line, caught.value.source_line) == ("TypeError", 3, "a.b.c")
    assert "line 3" in str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        "enum Color { Red }\ninterface A {}\nnull.x",
        "```ts\nconst a: number = 1\nnull.x\n```",
        "const a = 1; // é😀\n\tconst b: string = ''\nnull.x",
    ],
)
def test_the_line_is_the_models_own(session, code):
    assert session.execute(code).line == 3


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [("return 1 +", 1, 11), ("const a = 1\nlet b = {\n", 2, 10), ("foo bar", 1, 5), ("a\n  @@", 2, 4)],
)
def test_a_syntax_error_has_the_models_line_and_column(session, code, line, column):
    result = session.execute(code)
    assert (result.error_type, result.line) == ("SyntaxError", line)
    assert abs(result.column - column) <= 1


def test_stdout_keeps_both_ends_and_counts_what_it_dropped(session, either):
    with AgentSandbox({}, **either, max_output_bytes=1000) as small:
        result = small.execute(
            "for (let i = 0; i < 5000; i++) console.log('line', i); console.error('short'); return 1"
        )
    assert result.truncated
    assert len(result.stdout.encode()) <= 1000
    assert result.stdout.startswith("line 0\nline 1\n")
    assert result.stdout.endswith("line 4998\nline 4999\n")
    marker = next(line for line in result.stdout.splitlines() if line.startswith("[truncated: "))
    dropped = int(marker.split()[1])
    assert dropped + sum(line.startswith("line ") for line in result.stdout.splitlines()) in (5000, 5001, 5002)
    assert result.stderr == "short\n"


def test_output_within_the_cap_is_whole(session, either):
    text = "".join(f"line {i}\n" for i in range(90))
    with AgentSandbox({}, **either, max_output_bytes=len(text)) as exact:
        result = exact.execute("for (let i = 0; i < 90; i++) console.log('line', i)")
    assert (result.stdout, result.truncated) == (text, False)


def test_a_cut_never_splits_a_character(session, either):
    with AgentSandbox({}, **either, max_output_bytes=101) as small:
        result = small.execute("console.log('é😀'.repeat(500))")
    result.stdout.encode()
    assert "\ufffd" not in result.stdout
    assert result.truncated


def test_two_hundred_thousand_lines_are_bounded(session):
    result = session.execute("for (let i = 0; i < 200000; i++) console.log('a line of some length', i); return 'done'")
    assert (result.result, result.truncated) == ("done", True)
    assert len(result.stdout.encode()) <= 64 * 1024
    assert "line of some length 199999" in result.stdout


def test_a_result_over_the_cap_fails_and_the_session_goes_on(either):
    with AgentSandbox({}, **either, max_result_bytes=1000) as small:
        assert small.execute("return 'x'.repeat(998)").ok  # with its quotes: exactly 1000
        result = small.execute("globalThis.kept = 1; return 'x'.repeat(999)")
        assert (result.status, result.error_type) == ("Failed", "ResultTooLarge")
        assert "1001 bytes" in result.error
        with pytest.raises(ResultTooLarge):
            small.run("return 'é'.repeat(600)")
        assert small.run("return kept") == 1
        assert small.lost_runs == 0


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("return undefined", None),
        ("", None),
        ("return new Uint8Array([1, 2])", "AQI="),
        ("return new Date(0)", "1970-01-01T00:00:00Z"),
        ("return new Set([1, 2])", [1, 2]),
        ("return [NaN, Infinity, undefined]", [None, None, None]),
        ("return {a: undefined, b: null}", {"b": None}),
        ("return new Map([['k', new Map([[1, 2]])]])", {"k": {"1": 2}}),
        ("class P { constructor() { this.x = 1 } get y() { return 2 } } return new P()", {"x": 1}),
        ("return [true, 1.5, 'é\\u0000']", [True, 1.5, "é\u0000"]),
    ],
)
def test_a_result_is_json_data(session, code, result):
    assert session.execute(code).result == result


@pytest.mark.parametrize(
    "name", ["RuntimeTimeout", "WorkerCrashed", "ResultTooLarge", "ToolBudgetError", "MemoryLimitExceeded", "SealError"]
)
def test_a_guest_cannot_claim_a_name_of_the_host(session, name):
    result = session.execute(f"const e = new Error('forged'); e.name = '{name}'; throw e")
    assert (result.error_type, result.error) == ("Error", "Error: forged")


def test_a_name_of_the_guests_own_is_kept(session):
    assert (
        session.execute(
            "class QuotaError extends Error {}; QuotaError.prototype.name = 'QuotaError'; throw new QuotaError('x')"
        ).error_type
        == "QuotaError"
    )


def test_names_that_are_not_names_are_errors(session):
    for name in ["a b", "x" * 200, "<script>", ""]:
        assert session.execute(f"const e = new Error('m'); e.name = {name!r}; throw e").error_type == "Error"


DISGUISES = "\x1b[31m\r\u202e\u2066\u2028\u200b\ufe0f\u00ad\ufeff\U000e0041\x9b"


def test_text_of_the_guest_is_cleaned_and_values_are_not(session):
    literal = json.dumps(DISGUISES)
    result = session.execute(f"console.log({literal} + '\\ttab'); throw new Error({literal})")
    assert result.stdout == "?[31m" + "?" * (len(DISGUISES) - 5) + "\ttab\n"
    assert not set(result.error) & set(DISGUISES.replace("[31m", ""))
    assert session.execute(f"return {literal}").result == DISGUISES
    assert session.run(f"return await echo({literal})") == DISGUISES


def test_done_compares_the_value_only(session):
    step = session.start("console.log('x'); return 3")
    assert Done(3) == step
    assert (step.stdout, step.status, step.result, step.error_type) == ("x\n", "Succeeded", 3, None)
    assert step.to_result() == ExecutionResult("Succeeded", "x\n", "", 3)


def test_output_of_a_run_is_whole_across_its_pauses(session):
    step = session.start("console.log('before'); await echo(1); console.log('after'); null.x")
    step = session.resume(step, 1)
    assert (step.status, step.stdout) == ("Failed", "before\nafter\n")
    assert step.to_result().error.startswith("TypeError")


def test_output_before_a_timeout_is_kept(either):
    with AgentSandbox({}, **either, timeout=0.2) as session:
        assert session.execute("console.log('so far'); for (;;);").stdout == "so far\n"


def test_misuse_raises(session):
    for code in (1, None, b"return 1"):
        with pytest.raises(TypeError, match="must be a string"):
            session.execute(code)
    step = session.start("await echo(1)")
    with pytest.raises(SessionPausedError, match="paused at `echo`"):
        session.execute("1")
    session.resume(step, 1)
    session.close()
    with pytest.raises(SessionClosedError):
        session.execute("1")
    assert session.is_closed()


CONSOLE = [
    (
        "console.log('%s is %d years and %i, %f, %j %o %%', 'Ada', 36.5, 36.9, '1.5', {a: 1}, [1])",
        'Ada is 36.5 years and 36, 1.5, {"a":1}',
    ),
    ("console.error(new TypeError('boo'))", "TypeError: boo"),
    ("console.log(new Map([['a', 1]]), new Set([2]))", "Map(1) { 'a' => 1 } Set(1) { 2 }"),
    ("console.log(null, undefined, true, 10n, Symbol('s'))", "null undefined true 10n Symbol(s)"),
    ("const o = {}; o.self = o; console.log(o)", "[Circular"),
    ("console.table([{a: 1, b: 2}])", "a"),
    ("console.dir({a: {b: {c: {}}}})", "{ a: { b:"),
    ("console.group('g'); console.log('in'); console.groupEnd(); console.log('out')", "g\n  in\nout"),
    ("console.count(); console.count('x'); console.countReset(); console.count()", "default: 1\nx: 1\ndefault: 1"),
    ("console.time('t'); console.timeEnd('t')", "t: "),
    ("console.assert(1 === 2, 'sums')", "Assertion failed: sums"),
    ("console.assert(true, 'nothing')", ""),
    ("console.trace('here')", "Trace: here"),
    ("console.info('i'); console.debug('d'); console.warn('w')", "i\nd\n"),
    ("console.log([1.5, 'a', [2]], {k: 'v', f() {}})", "[ 1.5, 'a', [ 2 ] ]"),
    ("console.log(new Date(0))", "1970-01-01T00:00:00.000Z"),
    ("console.log(new (class Point { x = 1 }))", "Point { x: 1 }"),
]


@pytest.mark.parametrize(("code", "text"), CONSOLE)
def test_console(session, code, text):
    result = session.execute(code)
    assert result.ok, result.error
    assert text in result.stdout + result.stderr


def test_on_console_sees_lines_as_they_come(either):
    lines = []
    with AgentSandbox(
        {"t": lambda: lines.append("tool")}, **either, on_console=lambda s, t: lines.append((s, t))
    ) as session:
        session.run("console.log('a'); await t(); console.error('b')")
    assert lines == [("stdout", "a"), "tool", ("stderr", "b")]
