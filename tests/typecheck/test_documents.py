"""What a session looks like to the checker: names on the global object, characters, and the time that this takes."""

from __future__ import annotations

import time

import pytest

from gloveport import AgentSandbox
from gloveport.engines.checker import Question, client
from gloveport.engines.checker.documents import MAX_GLOBALS, written
from gloveport.engines.toolbox.compiled import Outline

from .conftest import STUBS

# ── names on the global object ───────────────────────────────────────────────────────────────────────────────────────

PUT = [
    "globalThis.total = 1; return total",
    "(globalThis as any).total = 1; return total",
    "(globalThis as any)['total'] = 1; return total",
    "(globalThis satisfies any).total = 1; return total",
    "globalThis!.total = 1; return total",
    "const put = (o: any) => { o.total = 1 }; put(globalThis as any); return total",
    "[globalThis][0].total = 1; return total",
    "globalThis/**/.total = 1; return total",
    "globalThis\n// c\n.total = 1; return total",
    "let f = () => globalThis\nf().total = 1; return total",
    "{ const o = { globalThis }; o.globalThis.total = 1 } return total",
    "Object.assign(globalThis, { total: 1 }); return total",
    "globalThis.été = 1; return été",
    "globalThis.ete\u0301 = 1; return ete\u0301",
    "globalThis.\\u0074otal = 1; return total",
    "globalThis['total'] = 1; return total",
]


@pytest.mark.parametrize("code", PUT)
def test_a_name_that_a_code_puts_there_is_known(check, code):
    assert check(code) == []
    assert check(code.replace("return", "const typed: number = 1; return")) == []


def test_what_is_put_there_is_not_any_name(check):
    assert check("globalThis.other = 1; return total") == ["1:30 TS2304"]
    assert check("globalThis?.other; return [globalThis.other, total]") == ["1:46 TS2304"]
    assert check("return total") == ["1:8 TS2304"]


def outlined(code, **more):
    return written(Question(code, **more), [], Outline(code, False))


def naming(count):
    return "".join(f"globalThis.name_{number} = 1;\n" for number in range(count))


def test_there_may_be_many_of_them():
    some, many = outlined(naming(MAX_GLOBALS)), outlined(naming(MAX_GLOBALS + 1))
    assert (some.any_name, some.tools.count("declare var")) == (False, MAX_GLOBALS)
    assert (many.any_name, many.tools.count("declare var")) == (True, MAX_GLOBALS)


def test_a_name_that_the_tools_declare_is_not_declared_again():
    text = outlined("globalThis.open_orders = globalThis.open_order", stubs=STUBS)
    assert text.tools == STUBS + "declare var open_order: any;\n"


def seconds(names, stubs):
    best = 60.0
    for _ in range(3):
        began = time.perf_counter()
        outlined(naming(names), stubs=stubs)
        best = min(best, time.perf_counter() - began)
    return best


def test_the_tools_are_looked_through_once_for_all_names():
    stubs = "/** some words of a tool */\ndeclare function tool_x(args: { a: string }): Promise<string>;\n" * 5000
    assert seconds(MAX_GLOBALS, stubs) < 6 * seconds(MAX_GLOBALS // 20, stubs)


def test_what_is_done_before_the_server_is_asked_counts_as_time_of_the_check(checker, monkeypatch):
    question = Question("const a: string = 5")
    assert [problem.code for problem in checker.check(question)] == ["TS2322"]

    def slow(*given):
        time.sleep(0.3)
        return written(*given)

    monkeypatch.setattr(client, "written", slow)
    assert [problem.code for problem in checker.check(question, timeout=0.2)] == ["Unchecked"]


# ── characters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lone_surrogates_are_characters_like_others(check):
    assert check("const s = '\ud800'; nothing()") == ["1:16 TS2304"]
    assert check("const s = '\udc00\ud800é😀'; nothing()") == ["1:19 TS2304"]
    assert check("const s = '\ud800'; return s.length", "const earlier = '\udfff'") == []


def test_lone_surrogates_in_descriptions_of_tools(checker):
    stubs = "/** \ud800 */\ndeclare const told: number;\n"
    pid = checker.pid
    assert [problem.code for problem in checker.check(Question("const s: string = told", stubs))] == ["TS2322"]
    assert pid in (None, checker.pid), "the server was ended by it"


@pytest.mark.parametrize("mode", ["warn", "block"])
def test_a_session_runs_code_with_them(compiler, mode):
    with AgentSandbox({}, isolation="inline", typecheck=mode) as session:
        assert session.run("const s = '\ud800'; return s.length") == 1
        assert session.run("return s.length + 1") == 2
