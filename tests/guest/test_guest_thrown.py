"""What was thrown, as text: readable, and without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from .driver import Session


@pytest.mark.parametrize(
    ("thrown", "name", "message"),
    [
        ("new TypeError('x')", "TypeError", "x"),
        ("new (class MyError extends Error { name = 'MyError' })('m')", "MyError", "m"),
        ("new (class MyError extends Error {})('m')", "Error", "m"),
        ("new DOMException('gone', 'AbortError')", "AbortError", "gone"),
        ("'text'", "Error", "text"),
        ("null", "Error", "thrown value: null"),
        ("undefined", "Error", "thrown value: undefined"),
        ("42", "Error", "thrown value: 42"),
        ("10n", "Error", "thrown value: 10n"),
        ("Symbol('s')", "Error", "thrown value: Symbol(s)"),
        ("{code: 5, nested: {a: [1]}}", "Error", "thrown value: { code: 5, nested: { a: [Array] } }"),
        (
            "{get message() { throw 1 }, toString() { throw 2 }}",
            "Error",
            "thrown value: { message: [Getter], toString: [Function: toString] }",
        ),
        ("Object.defineProperty(new Error('x'), 'message', {get() { for (;;); }})", "Error", ""),
        ("Object.defineProperty(new Error('x'), 'name', {get() { for (;;); }})", "Error", "x"),
        (
            "new Proxy(new Error('x'), {get() { for (;;); }, getPrototypeOf() { for (;;); }})",
            "Error",
            "thrown value: [Proxy]",
        ),
        (
            "(() => { const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); return proxy })()",
            "Error",
            "thrown value: [Proxy]",
        ),
        ("Object.setPrototypeOf(new Error('x'), new Proxy({}, {get() { for (;;); }}))", "Error", "x"),
        ("Object.setPrototypeOf(new Error('x'), null)", "Error", "x"),
        ("new Error('a', {cause: new TypeError('b', {cause: 'c'})})", "Error", "a [cause: TypeError: b [cause: c]]"),
        ("Object.assign(new Error('x'), {message: 5})", "Error", "5"),
        ("Object.assign(new Error('x'), {message: {}})", "Error", ""),
        ("new AggregateError([new Error('one'), 2], 'all')", "AggregateError", "all [errors: Error: one; 2]"),
        ("() => 1", "Error", "thrown value: [Function (anonymous)]"),
    ],
)
def test_thrown(session: Session, thrown: str, name: str, message: str) -> None:
    failed = session.failure(f"throw {thrown}")
    assert (failed["kind"], failed["name"], failed["message"]) == ("throw", name, message)
    assert session.value("return 1") == 1


def test_cyclic_cause_ends(session: Session) -> None:
    failed = session.failure("const e = new Error('a'); e.cause = e; throw e")
    assert failed["message"] == "a [cause: Error: a [cause: Error: a [cause: Error: a [cause: …]]]]"


def test_all_promises_rejected(session: Session) -> None:
    failed = session.failure("await Promise.any([Promise.reject(new TypeError('x')), Promise.reject(2)])")
    assert "[errors: TypeError: x; 2]" in failed["message"]


def test_long_messages_and_stacks_are_cut(session: Session) -> None:
    assert len(session.failure("throw new Error('x'.repeat(1e6))")["message"]) < 20_000
    assert (
        len(
            session.failure(
                "const e = new Error('x'); Object.defineProperty(e, 'stack', {value: 'y\\n'.repeat(1e6)}); throw e"
            )["stack"]
        )
        < 20_000
    )


@pytest.mark.parametrize(
    ("stack", "position"),
    [
        ("'at <run>:7:3'", (7, 3)),
        ("'nothing'", (0, 0)),
        ("{}", (1, 15)),
        ("'<run>:99999999999999999999:1'", None),
        ("'<run>:'", (0, 0)),
    ],
)
def test_positions_from_odd_stacks(session: Session, stack: str, position: Any) -> None:
    failed = session.failure(
        f"const e = new Error('x'); Object.defineProperty(e, 'stack', {{value: {stack}}}); throw e"
    )
    if position is None:
        assert 0 <= failed["line"] < 2**31
    else:
        assert (failed["line"], failed["col"]) == position


def test_prepare_stack_trace_cannot_break_the_report(session: Session) -> None:
    failed = session.failure("Error.prepareStackTrace = () => { throw 1 }; throw new Error('x')")
    assert failed["message"] == "x"
    failed = session.failure("Error.prepareStackTrace = () => ({a: 1}); throw new Error('y')")
    assert (failed["message"], failed["stack"]) == ("y", "")
