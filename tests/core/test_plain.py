"""Which sources skip the compiler, and what the session does when the guest leaves one to it after all."""

from __future__ import annotations

import pytest

from gloveport.core.commands import LinkLost, Step
from gloveport.core.plain import AsWritten, is_plain
from gloveport.errors import WorkerCrashed
from gloveport.types import Done

from .world import World, make_session, program


@pytest.mark.parametrize(
    "source",
    [
        "",
        "return 1",
        "const rows = await search({query: 'a', limit: 3});\nreturn rows.map(r => ({id: r.id, ok: r.n > 3 ? 'y' : n}))",
        "for (let i = 0; i < n; i++) { if (a > b && c >= (d)) total += i }",
        "const f = async (a, b = 1) => { return a < b }; return f(1) ? f(2) : g(3)",
        "const s = `<b>${x}</b> done`; return 'it\\u2014is'",
        "label: for (const x of xs) switch (x) { case A: break label }",
        "return a < b, c > d",
        "while (i > 0) i >>= 1; return x => (y) => (z)",
    ],
)
def test_plain(source):
    assert is_plain(source)


@pytest.mark.parametrize(
    "source",
    [
        # JavaScript that means something else as TypeScript
        "return f<A>(x)",
        "return f<A, B<C>> (x)",
        "return new Map<\n  string,\n  number\n>(x)",
        "return tag<A>`x`",
        "return f<A>\n(x)",
        "return f<A>/* c */(x)",
        "return f<A>// c\n(x)",
        "return f<A>\u2028(x)",
        "return f<A>\r(x)",
        "return f<() => A>(x)",
        "x = a < b > /c/g",
        "x = a<b>\nc",
        "x = f<A>",
        # what only the compiler refuses or unwraps
        "```js\nreturn 1\n```",
        "\ufeffreturn 1",
        "#!/usr/bin/node\nreturn 1",
        "return import('x')",
        "export const a = 1",
        "__gloveport_publish({})",
        "\\u005f_gloveport_publish({})",
        "\\u{5f}_gloveport_publish({})",
        "'use strict'; return 1",
        "x <!-- y",
        "a\n--> b",
        "using a = b",
        # TypeScript that is no JavaScript: it need not be tried
        "let a: number = 1",
        "const rows: Row[] = []",
        "const rows: Map<A, B> = m",
        "function f(a: string) {}",
        "const f = (a?: A) => a",
        "return x as Row",
        "enum E { A }",
        "interface A { b: C }",
        "return x satisfies Y",
        # more text than is worth it
        "/* " + "x" * 65536 + " */",
    ],
)
def test_not_plain(source):
    assert not is_plain(source)


@pytest.mark.parametrize("source", ["", "a", "a\nb", "a\n\n"])
def test_places_are_those_of_the_source(source):
    lines = source.count("\n") + 1
    assert [AsWritten(source).locate(line + 1, 7) for line in range(1, lines + 1)] == [
        (n, 7) for n in range(1, lines + 1)
    ]
    assert [AsWritten(source).locate(line, 7) for line in (-1, 0, 1, lines + 2)] == [(0, 0)] * 4


class Recording(World):
    """A world that remembers the operations that the guest was asked for."""

    def __init__(self, tools=None):
        super().__init__(tools or {})
        self.ops = ""

    def perform(self, command):
        requests = [command.request] if isinstance(command, Step) else getattr(command, "requests", ())
        self.ops += "".join(chr(request[0]) for request in requests)
        return super().perform(command)


def play(session, world, source):
    return world.drive(session.execute(source))


def test_plain_code_is_not_compiled():
    session, world = make_session("add", plain_first=True), Recording({"add": lambda x: x + 1})
    assert play(session, world, program(["call", "add", 41], ["return", "last"])) == Done(42)
    assert world.trace == ["Boot", "Replay", "Step", "Launch", "Await", "Step"]
    assert world.ops == "OPA"


def test_without_the_flag_it_is():
    session, world = make_session(plain_first=False), Recording()
    assert play(session, world, program(["set", "x", 1], ["return", "x"])) == Done(1)
    assert (world.trace[0], world.ops) == ("Compile", "OR")


def test_what_the_look_excludes_goes_to_the_compiler_at_once():
    session, world = make_session(plain_first=True), Recording()
    assert play(session, world, program(["set", "x", "import"], ["return", "x"])) == Done("import")
    assert (world.trace[0], world.ops) == ("Compile", "OR")


def test_what_the_guest_leaves_goes_to_the_compiler_and_leaves_no_trace():
    session, world = make_session(plain_first=True), Recording()
    assert play(session, world, "~" + program(["set", "x", 1], ["return", "x"])) == Done(1)
    assert (world.trace, world.ops) == (["Boot", "Replay", "Step", "Compile", "Step"], "OPR")
    assert (session.runs, session.lost_runs) == (1, 0)
    assert [request[:1] for part in session.tail for request in part.requests] == [b"O", b"R"]
    assert [getattr(record, "request", b"-")[:1] for record in session.journal.records] == [b"O", b"R", b"-"]


def test_what_nobody_understands_is_a_syntax_error_and_no_run():
    session, world = make_session(plain_first=True), Recording()
    step = play(session, world, "!")
    assert (step.status, step.error_type, step.line, step.column) == ("Failed", "SyntaxError", 1, 2)
    assert (session.runs, session.lost_runs, session.run) == (0, 0, None)
    assert play(session, world, program(["set", "x", 1], ["return", "x"])) == Done(1)


def test_a_rollback_replays_what_was_asked():
    session, world = make_session(plain_first=True), Recording()
    play(session, world, program(["set", "n", 5]))
    assert play(session, world, program(["set", "n", 6], ["trap"])).status == "Failed"
    world.ops = ""
    assert play(session, world, program(["return", "n"])) == Done(5)
    assert world.ops == "OPP"


def test_a_worker_that_dies_at_it_costs_that_run_only():
    session, world = make_session(plain_first=True), Recording()
    play(session, world, program(["set", "n", 5]))
    world.fail_next = LinkLost("died", "the worker died")
    step = play(session, world, program(["return", "n"]))
    assert isinstance(step.error, WorkerCrashed)
    assert (session.runs, session.lost_runs) == (2, 1)
    assert play(session, world, program(["return", "n"])) == Done(5)
