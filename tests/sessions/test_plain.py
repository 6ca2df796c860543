"""Plain code that the guest compiles by itself means what it means when the compiler has seen it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gloveport import AgentSandbox, AsyncAgentSandbox, Done, ToolCall
from gloveport.core.commands import Compile
from gloveport.core.plain import is_plain
from gloveport.engines.toolbox import Toolbox
from gloveport.engines.wasm.guest import Guest
from gloveport.engines.wasm.module import GuestModule
from gloveport.wire.messages import NOT_PLAIN, open_request, plain_request

ESCAPES = Path(__file__).parent.parent / "escapes"
ECHO = {"echo": lambda v=None: v, "fail": lambda: 1 / 0}


def make(plain, **options):
    session = AgentSandbox(ECHO, isolation="inline", clock=1_700_000_000, random_seed=7, **options)
    session._core.plain_first = plain
    return session


def compilations(session):
    """The sources that a session gives to the compiler from now on."""
    seen = []
    perform = session._driver._perform

    def watched(command):
        if isinstance(command, Compile):
            seen.append(command.source)
        return perform(command)

    session._driver._perform = watched
    return seen


def outcome(session, source):
    """Everything that a caller can see of a run."""
    calls = []
    step = session.start(source)
    while isinstance(step, ToolCall):
        calls.append((step.name, step.args, step.call_id))
        step = session.resume(step, [len(calls), *step.args])
    stack = getattr(getattr(step, "error", None), "stack", "")
    return calls, step.to_result().to_dict(), stack, getattr(step, "column", None)


KEPT = """
const out = {};
for (const name of Object.getOwnPropertyNames(globalThis).filter((n) => !before.includes(n))) {
  try { out[name] = typeof globalThis[name] + ' ' + String(globalThis[name]) } catch (e) { out[name] = e.name + e.message }
}
return Object.entries(out)"""


def both(source, **options):
    """The same on both paths: the run, what it left on the session, the next run; whether the guest did compile it."""
    seen = {}
    for plain in (True, False):
        with make(plain, **options) as session:
            session.run("var before = [...Object.getOwnPropertyNames(globalThis), 'before']")
            compiled = compilations(session)
            seen[plain] = [outcome(session, source), outcome(session, KEPT), outcome(session, source)]
            by_guest = source not in compiled
        assert plain or not by_guest
        if plain:
            accepted = by_guest
    assert seen[True] == seen[False]
    return accepted


PLAIN = [
    "",
    "return 1",
    "return [1, {a: 'b', n: null, u: undefined, d: new Date(0), m: new Map([[1, 2]])}, 2n, -0, NaN]",
    "const a = 1; let b = a + 1, c; var d = b; function f(x) { return x + d } class K { static s = 1 } return f(b)",
    "const {a, b: [c, ...d], e: {f = 1, ...g} = {}, ['h']: i} = {a: 1, b: [2, 3, 4], h: 5}; return [a, c, d, f, g, i]",
    "for (var a = 0; a < 3; a++) { var b = a } for (var c in {x: 1}); for (var {d} of [{d: 9}]) var e = d; return [a, b, c, d, e]",
    "return typeof hoisted; var x; function hoisted() {}",
    "let α = 1, $ = 2, _ = 3, ünï = 4; let type = 5, of = 7, get = 8; return [α, $, _, ünï, type, of, get]",
    "var __proto__ = 3; let constructor = 4, toString = 5",
    "let console = 1, echo = 2, Array = 3; return [console, echo, Array]",
    "undeclared = 5; return undeclared",
    "const r = await Promise.all([echo(1), echo({a: [2]})]); console.log(r); console.error('e'); return r",
    "return await Promise.race([echo(1), new Promise((r) => setTimeout(r, 5, 'late'))])",
    "setTimeout(() => console.log('t'), 10); await new Promise((r) => setTimeout(r, 20)); return [Date.now(), Math.random()]",
    "await echo(1)\n;[1, 2].forEach((n) => console.log(n))\nreturn `a\n${1}\nb`",
    "label: for (;;) { for (;;) break label } return 'out'",
    "return (function () { return this === globalThis })() && this === undefined",
    "return [new Function('return this === globalThis')(), (0, eval)('typeof before'), eval('var inner = 1; inner')]",
    "return f.toString() + K.toString(); function f(a) { /* c */ } class K {}",
    "return '\\u2028\u2028\ud83d\ude00' + '\ud800'.length",
    "return /[<]/.test('<') && 1 < 2 // > c",
    "  // only a comment",
    "/* c */ return 1 /* d */ //",
    "return\r\n1",
    # runs that fail, and where
    "\n\nthrow new TypeError('third line')",
    "let a = 1\nlet b = 2\n  a.b.c\nlet d = 4",
    "function f() {\n  throw new Error('in f')\n}\n\nconst g = () => f()\ng()",
    "await echo(1)\nconst x = null\r\nreturn x.y",
    "return missing",
    "throw {a: 1}",
    "throw 'text'",
    "const c = 1\nc = 2",
    "return later; let later = 1",
    "return () => 1",
    "await new Promise(() => {})",
    "try { await fail() } catch (e) { return [e.name, e.message, e.stack] }",
    "const e = new Error('x'); return e.stack",
    "JSON.parse('{')",
]


@pytest.mark.parametrize("source", PLAIN)
def test_both_ways_are_the_same(source):
    assert both(source)


FOR_THE_COMPILER = [
    "let n: number = 1; return n",
    "```js\nreturn 1\n```",
    "Here you are:\n```ts\nconst a: number[] = [1]\nreturn a\n```\n",
    "enum E { A = 3 }\nreturn E.A",
    "const f = <T,>(x: T) => x\n\nthrow new Error('line 3')",
    "const f = (x) => x, A = 1\nreturn f<A>(5)",
    "if (true) { function g() { return 1 } }\nreturn g()",
    "{ function g() {} }\nvar g",
    "label: function g() {}\nreturn typeof g",
    "'use strict'\nreturn (() => { try { undeclared = 1 } catch (e) { return e.name } })()",
    "using u = { [Symbol.dispose]() { console.log('disposed') } }; return 1",
    "return x satisfies unknown",
    "type A = {a: 1}\nlet o: A = {a: 1}\nreturn o",
    # errors of syntax, with the compiler's words and places
    "return (",
    "let a = 1\nlet a = 2",
    "}); evil(); (async()=>{",
    "let arguments = 1",
    "import x from 'y'",
    "return import('y')",
    "a\n<!-- b",
    "x = {" + "[" * 5000,
]


@pytest.mark.parametrize("source", FOR_THE_COMPILER)
def test_what_is_left_to_the_compiler_is_the_same(source):
    assert not both(source)


ATTACKS = sorted(path for area in ("forge", "reach", "tamper") for path in ESCAPES.glob(f"{area}/*.js"))


@pytest.mark.parametrize("path", ATTACKS, ids=[f"{path.parent.name}-{path.stem}" for path in ATTACKS])
def test_attacks_see_the_same(path):
    head, _, code = path.read_text("utf-8").partition("\n")
    case = json.loads(head.removeprefix("// "))
    both(code, timeout=case.get("timeout"))


# ── programs that nobody wrote ──

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
VALUES = st.one_of(
    st.sampled_from(
        ["1", "'s'", "[1, 2]", "{x: 1}.x", "null", "() => 1", "await echo(3)", "typeof a", "`t${1}`", "/r/g", "-1 < 2"]
    ),
    NAMES,
)
PATTERNS = st.one_of(
    NAMES, NAMES.map(lambda n: f"{{x: {n} = 1}}"), NAMES.map(lambda n: f"[{n} = 2]"), NAMES.map(lambda n: f"[, ...{n}]")
)


def declarations(body):
    head = st.sampled_from(["let", "const", "var"])
    return st.one_of(
        st.builds("{} {} = {};".format, head, PATTERNS, VALUES),
        st.builds("var {};".format, NAMES),
        st.builds("function {}() {{ {} }}".format, NAMES, body),
        st.builds("async function {}() {{ {} }}".format, NAMES, body),
        st.builds("class {} {{ m() {{ {} }} }}".format, NAMES, body),
        st.builds("{{ {} }}".format, body),
        st.builds("if ({}) {{ {} }}".format, VALUES, body),
        st.builds("if ({}) {} else {}".format, VALUES, body, body),
        st.builds("for ({} {} of [[1], [2]]) {{ {} }}".format, head, PATTERNS, body),
        st.builds("for ({} {} = 0; false;) {}".format, st.sampled_from(["let", "var"]), NAMES, body),
        st.builds("try {{ {} }} catch ({}) {{ {} }}".format, body, NAMES, body),
        st.builds("switch (1) {{ case 1: {} default: {} }}".format, body, body),
        st.builds("lbl: {}".format, body),
    )


LEAVES = st.one_of(
    st.builds("{} = {};".format, NAMES, VALUES),
    st.builds("console.log({});".format, VALUES),
    st.builds("return {};".format, VALUES),
    st.builds("throw {};".format, VALUES),
    st.builds("{};\n".format, VALUES),
    st.just(";"),
)
STATEMENTS = st.recursive(LEAVES, declarations, max_leaves=6)
PROGRAMS = st.lists(STATEMENTS, max_size=5).map("\n".join)


@given(PROGRAMS)
@settings(max_examples=120, deadline=None)
def test_any_program_is_the_same(source):
    both(source)


# ── texts that are no programs ──


@pytest.fixture(scope="module")
def toolbox():
    with Toolbox(sandbox="off") as made:
        yield made


class Bare:
    """One guest, made new for each source, which is compiled behind a `return`: all of it counts, nothing of it runs."""

    RETURN = "return;\n"
    _OPEN = open_request(clock_ms=0.0, seed=1, frozen=False, namespace=None, tools=(), bootstrap=None)

    def __init__(self):
        self._guest = Guest(GuestModule.load(), memory_limit=64 << 20)

    def _ask(self, source):
        return self._guest.step(plain_request(1, 4096, source))

    def names(self, source):
        """The names that a source publishes in a new session, or `None` when it is refused."""
        self._guest.reset()
        self._guest.step(self._OPEN)
        self._ask("var before = [...Object.getOwnPropertyNames(globalThis), 'before']")
        reply = self._ask(self.RETURN + source)
        assert reply.status == 0
        if reply.output == NOT_PLAIN:
            return None
        said = self._ask("return Object.getOwnPropertyNames(globalThis).filter(n => !before.includes(n))").output
        return json.loads(said[4:])["v"]

    def close(self):
        self._guest.close()


@pytest.fixture(scope="module")
def bare():
    made = Bare()
    yield made
    made.close()


FRAGMENTS = [
    "}", "{", "(", ")", "})", "}\n}", "});", "(async()=>{", ",", ";", "=>", "async x=>{", "/*", "*/", "//", "\n", "`", "${", "'", '"',
    "\\", "/", "[", "]", "<!--", "-->", "a", "1", "return ", "await ", "function f(){", "class A{", "=", "?", ":", "@", "#x", "x:",
    "\u2028", "}), ({", "<T>", "<", ">", "enum E{", "as any", "if(1)", "for(;;)", "'use strict'", "\r", "\ufeff", "import", "export",
    "yield", "static{", "let b", "var c", "const d=1", "let ", "var ", "of ", "new ", "arguments", "eval", "...", "!",
    "\\u005f_gloveport_publish", "type ",
]  # fmt: skip


def agree(toolbox, bare, source):
    """What the guest accepts, the compiler accepts as it is, with the same names. Only what the look lets through counts."""
    names = bare.names(source) if is_plain(source) else None
    if names is None:
        return False
    compiled = toolbox.compile(bare.RETURN + source)
    _, body = compiled.code.split("\n", 1)
    assert body == f"{bare.RETURN}{source}\n}})"
    assert list(compiled.names) == names
    return True


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join))
@example("}); evil(); (async()=>{")
@example("}, async () => {")
@example("`${`}`}`")
@example("{let \u2028return }")
@example("let in a")
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_compiler_accepts_what_the_guest_accepts(toolbox, bare, source):
    agree(toolbox, bare, source)


ANGLES = st.tuples(
    st.sampled_from(["x = {}", "{}", "({})", "a({}, 1)", "return {}"]),
    st.sampled_from(["a", "new a", "a.b", "async", "this", "a()", "typeof a"]),
    st.sampled_from(["b", "b, c", "b | c", "b<c>", "() => b", "b[]", "'s'", "typeof b", "b\n"]),
    st.sampled_from(["", " ", "\n", "/*c*/", "\u00a0"]),
    st.sampled_from(
        [
            "(c)",
            "`x`",
            "c",
            "/c/g",
            "[c]",
            "{c}",
            "!c",
            "+c",
            "-c",
            "~c",
            "'s'",
            "1",
            "= c",
            "> c",
            "function(){}",
            "class{}",
            "new c",
        ]
        + ["async () => 1", "await c", "", ";", "? c : d", ".c", "?.c", "in c", "&& c", "é", "$c", "++c", "=== c"]
    ),
).map(lambda parts: parts[0].format(f"{parts[1]} < {parts[2]}>{parts[3]}{parts[4]}"))


@given(ANGLES)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_comparisons_that_typescript_takes_for_types_go_to_the_compiler(toolbox, bare, source):
    agree(toolbox, bare, source)


@pytest.mark.parametrize(
    ("source", "agreed"), [("x = a < b", True), ("x = a < b > c", True), ("x = a < b > (c)", False)]
)
def test_that_check_does_compare(toolbox, bare, source, agreed):
    assert agree(toolbox, bare, source) is agreed
    _, body = toolbox.compile(source).code.split("\n", 1)
    assert (body == source + "\n})") is agreed


# ── the rest of the machinery ──


def test_kept_state_survives_dump_and_replay():
    source = "let n = (globalThis.total ?? 0) + 1; total = n; const add = (k) => n += k; return await echo(n)"
    for journal in (False, True):
        with make(True) as session:
            compiled = compilations(session)
            assert session.run(source) == 1
            assert session.run("return add(5)") == 6
            assert compiled == []
            if not journal:
                loaded = AgentSandbox.load(session.dump(key=b"k" * 32), b"k" * 32, ECHO, isolation="inline")
                with loaded:
                    assert loaded.run("return [n, add(1), total]") == [6, 7, 1]
            session._driver.release()
            session._core.live = False
            assert session.run("return [n, add(1), total]") == [6, 7, 1]


@pytest.mark.anyio
async def test_the_awaiting_session_takes_the_same_way():
    async with AsyncAgentSandbox(ECHO, isolation="inline") as session:
        seen = []
        perform = session._driver._perform

        async def watched(command):
            seen.append(type(command).__name__)
            return await perform(command)

        session._driver._perform = watched
        assert await session.run("return await echo(4)") == 4
        assert "Compile" not in seen
        assert await session.run("const n: number = await echo(4); return n") == 4
        assert "Compile" in seen


def test_a_refused_attempt_is_not_a_run():
    with make(True, max_tool_calls=1) as session:
        assert session.start("return (").status == "Failed"
        assert session.lost_runs == 0
        step = session.start("return await echo('first')")
        assert (step.call_id, session.calls_made) == (1, 1)
        assert session.resume(step, 2) == Done(2)
